import { spawn, type ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { copyFile, cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, vi } from 'vitest';
import {
  type ClaimRequest,
  runnerPaths,
  type RunnerSpecInput,
  type RunnerState,
} from '../../../src/api/runner.ts';
import { createRunnerClient, type RunnerClient } from '../../../src/runnerapi/client.ts';
import { createControlKey, signControlToken } from '../../../src/runnerapi/token.ts';
import { inGuest, testGuestDisk } from '../../support/guest.ts';
import { childrenOf, kill } from '../../support/processes.ts';

const repository = fileURLToPath(new URL('../../..', import.meta.url));
const keys = createControlKey();

/** A VM pod's folders on the test's own disk: what outlives one runner. */
export interface Pod {
  readonly root: string;
  readonly spec: RunnerSpecInput;
  readonly podUid: string;
}

export interface RunningRunner {
  readonly pod: Pod;
  readonly client: RunnerClient;
  readonly port: number;
  readonly process: ChildProcess;
  /** What the guest has written to its serial console. */
  serial(): string;
  /** The runner's log lines. */
  log(): string;
  exitCode(): Promise<number | null>;
  qemuPid(): Promise<number>;
  /** QEMU's arguments, in one line. */
  qemuArguments(): Promise<string>;
  /** Runs a shell script in the guest. */
  guest(script: string): Promise<string>;
  /** Polls until the state has these members. */
  reaches(expected: Partial<RunnerState>): Promise<RunnerState>;
}

/** Boots under emulation on a loaded machine take a while. */
const bootTimeoutMs = 150_000;

/** For the tests of a file that boot guests: time for several waits of `bootTimeoutMs`. */
export function allowBootTime(): void {
  vi.setConfig({ testTimeout: 600_000 });
}

export async function aPod(spec: Partial<RunnerSpecInput> = {}, disk?: string): Promise<Pod> {
  const root = await mkdtemp(join(tmpdir(), 'svc3-runner-'));
  onTestFinished(() => rm(root, { recursive: true, force: true }));
  const folders = [
    `${runnerPaths.image}/disk`,
    `${runnerPaths.iso}/disk`,
    runnerPaths.run,
    '/etc/svc3/podinfo',
  ];
  for (const folder of folders) await mkdir(root + folder, { recursive: true });
  await writeFile(root + runnerPaths.controlKeys, keys.publicKey);
  if (disk !== '') await placeDisk(root, disk ?? (await testGuestDisk()));
  const uid = randomUUID();
  return {
    root,
    podUid: randomUUID(),
    spec: {
      vm: { namespace: 'test', name: 'guest', uid },
      cpu: 1,
      memoryMiB: 192,
      accelerator: 'tcg',
      graceSeconds: 30,
      ...spec,
    },
  };
}

export async function placeDisk(root: string, disk: string, name = basename(disk)): Promise<void> {
  await copyFile(disk, `${root}${runnerPaths.image}/disk/${name}`);
}

/** Puts an install medium where the pod mounts it. */
export async function placeIso(pod: Pod, iso: string): Promise<void> {
  await copyFile(iso, `${pod.root}${runnerPaths.iso}/disk/medium.iso`);
}

/** The same disk and settings under another pod. */
export function inNewPod(pod: Pod, spec: Partial<RunnerSpecInput> = {}): Pod {
  return { ...pod, podUid: randomUUID(), spec: { ...pod.spec, ...spec } };
}

/** `within`: a command that the runner's is given to, and that becomes the runner. */
export async function startRunner(
  pod: Pod,
  environment: Record<string, string | undefined> = {},
  within: readonly string[] = [],
): Promise<RunningRunner> {
  const { metadata, sshAuthorizedKeys, ...spec } = pod.spec;
  await writeFile(pod.root + runnerPaths.spec, JSON.stringify(spec));
  await writeFile(pod.root + runnerPaths.effective, JSON.stringify({ metadata, sshAuthorizedKeys }));
  const command = [
    ...within,
    join(repository, 'node_modules/.bin/node'),
    join(repository, 'src/bin/runner.ts'),
  ];
  const child = spawn(command[0] ?? '', command.slice(1), {
    env: {
      PATH: process.env['PATH'],
      SVC3_ROOT: pod.root,
      SVC3_POD_UID: pod.podUid,
      SVC3_BIND_ADDRESS: '127.0.0.1',
      SVC3_CONTROL_PORT: '0',
      SVC3_TERMINATION_LOG: join(pod.root, 'termination-log'),
      ...environment,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let serial = '';
  let log = '';
  child.stdout.on('data', (chunk: Buffer) => (serial += chunk.toString('latin1')));
  child.stderr.on('data', (chunk: Buffer) => (log += chunk.toString('utf8')));
  const exit = new Promise<number | null>((resolve) => child.once('exit', (code) => resolve(code)));
  onTestFinished(() => endProcesses(child));
  const port = await Promise.race([
    listening(() => log),
    exit.then((code) => Promise.reject(new Error(`the runner ended with ${code}: ${log}`))),
  ]);
  const client = clientFor(port, pod.spec.vm.uid);
  return {
    pod,
    client,
    port,
    process: child,
    serial: () => serial,
    log: () => log,
    exitCode: () => exit,
    qemuPid: async () => (await childrenOf(child.pid ?? 0))[0] ?? 0,
    qemuArguments: async () => {
      const [pid = 0] = await childrenOf(child.pid ?? 0);
      return (await readFile(`/proc/${pid}/cmdline`, 'utf8')).replaceAll('\0', ' ');
    },
    guest: (script) => inGuest(`${pod.root}${runnerPaths.run}/agent.sock`, script),
    reaches: async (expected) => {
      let state: RunnerState | undefined;
      await expect
        .poll(async () => (state = await client.state()), {
          timeout: bootTimeoutMs,
          interval: 100,
          message: log.slice(-2000),
        })
        .toMatchObject(expected);
      return state!;
    },
  };
}

async function listening(log: () => string): Promise<number> {
  const found = () => /"port":(\d+)/.exec(log())?.[1];
  await expect.poll(found, { timeout: bootTimeoutMs, interval: 50 }).toBeDefined();
  return Number(found());
}

export function clientFor(port: number, vmUid: string): RunnerClient {
  return createRunnerClient({
    address: '127.0.0.1',
    port,
    vmUid,
    sign: (claims) => signControlToken(claims, keys.privateKey),
  });
}

export { keys as installation };

/** The waiting guest of a pod becomes this VM's. */
export function claimFor({ podUid }: Pod, vm: ClaimRequest['vm']): ClaimRequest {
  const values = {
    cpu: 1,
    memoryMiB: 192,
    vncConsole: true,
    netBoost: true,
    legacyIO: false,
    readiness: { timeoutSeconds: 180 },
    metadata: [],
    sshAuthorizedKeys: [],
  };
  return { podUid, vm, settings: { version: 'v1', values } };
}

/** A copy of everything a pod leaves behind, to look into. */
export async function copyOf(pod: Pod): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'svc3-copy-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await cp(pod.root + runnerPaths.state, folder, { recursive: true });
  return folder;
}

/** In a pod the kernel ends QEMU with the runner; here the test does. */
export async function endProcesses(child: ChildProcess): Promise<void> {
  const children = await childrenOf(child.pid ?? 0);
  child.kill('SIGKILL');
  for (const pid of children) kill(pid);
}
