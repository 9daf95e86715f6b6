/** The runner of a VM as a process of this machine: what a pod has around it are folders here. */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { runnerPaths, type RunnerSpecInput, type RunnerState } from '../../src/api/runner.ts';
import { freePorts } from '../../src/localcluster/controlplane/ports.ts';
import { createRunnerClient, type RunnerClient } from '../../src/runnerapi/client.ts';
import { signMetricsToken } from '../../src/runnerapi/metricstoken.ts';
import { createControlKey, signControlToken } from '../../src/runnerapi/token.ts';
import { temporaryFolder } from '../support/controlplane.ts';
import { qemuOf } from './bareqemu.ts';
import { until } from './until.ts';

const keys = createControlKey();
const repository = join(import.meta.dirname, '../..');

export interface LocalRunner {
  readonly client: RunnerClient;
  /** Of its control endpoint. */
  readonly controlPort: number;
  /** Port of 127.0.0.1 that leads to SSH of the guest. */
  readonly sshPort: number;
  readonly pid: number;
  /** For its metrics. */
  readonly metricsToken: string;
  qemuPid(): number;
  /** Waits for a state that has these members. */
  reaches(expected: Partial<RunnerState>): Promise<RunnerState>;
  /** Ends both processes at once, and forgets what they left. */
  end(): Promise<void>;
}

/**
 * @param image - folder that is to be the image volume
 */
export async function startLocalRunner(
  image: string,
  spec: Partial<RunnerSpecInput> = {},
): Promise<LocalRunner> {
  const root = temporaryFolder();
  const vm = { namespace: 'bench', name: `bench-${randomUUID().slice(0, 8)}`, uid: randomUUID() };
  const [sshPort = 0] = await freePorts(1);
  const podUid = randomUUID();
  layOut(root, image, {
    vm,
    cpu: 1,
    memoryMiB: 256,
    accelerator: 'tcg',
    ports: [{ podPort: sshPort, guestPort: 22, protocol: 'TCP' }],
    ...spec,
  });
  const child = spawn(process.execPath, [join(repository, 'src/bin/runner.ts')], {
    env: {
      PATH: process.env['PATH'],
      SVC3_ROOT: root,
      SVC3_POD_UID: podUid,
      SVC3_BIND_ADDRESS: '127.0.0.1',
      SVC3_CONTROL_PORT: '0',
      SVC3_TERMINATION_LOG: join(root, 'termination-log'),
    },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const killAtExit = () => child.kill('SIGKILL');
  process.once('exit', killAtExit);
  const controlPort = await portOf(child);
  const client = createRunnerClient({
    address: '127.0.0.1',
    port: controlPort,
    // One that waits for a VM goes by its pod.
    vmUid: spec.standby === undefined ? vm.uid : podUid,
    sign: (claims) => signControlToken(claims, keys.privateKey),
  });
  const qemuPid = () => qemuOf(vm.name);
  return {
    client,
    controlPort,
    sshPort,
    pid: child.pid ?? 0,
    metricsToken: signMetricsToken(vm.namespace, keys.privateKey),
    qemuPid,
    async reaches(expected) {
      let state: RunnerState | undefined;
      const wanted = Object.entries(expected);
      const isReached = async () => {
        state = await client.state();
        return wanted.every(([name, value]) => state?.[name as keyof RunnerState] === value);
      };
      await until(`a state with ${JSON.stringify(expected)}`, isReached, { stepMs: 50 });
      return state as RunnerState;
    },
    async end() {
      process.off('exit', killAtExit);
      const qemu = qemuPid();
      child.kill('SIGKILL');
      process.kill(qemu, 'SIGKILL');
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
      rmSync(root, { recursive: true, force: true });
    },
  };
}

function layOut(root: string, image: string, given: RunnerSpecInput): void {
  for (const folder of [runnerPaths.run, runnerPaths.state, '/etc/svc3/podinfo'])
    mkdirSync(root + folder, { recursive: true });
  symlinkSync(image, root + runnerPaths.image);
  const { metadata, sshAuthorizedKeys, ...spec } = given;
  writeFileSync(root + runnerPaths.controlKeys, keys.publicKey);
  writeFileSync(root + runnerPaths.spec, JSON.stringify(spec));
  writeFileSync(root + runnerPaths.effective, JSON.stringify({ metadata, sshAuthorizedKeys }));
}

async function portOf({ stderr }: ChildProcess): Promise<number> {
  let log = '';
  stderr?.on('data', (chunk: Buffer) => {
    // Read on all the same: a pipe that nobody empties holds up its writer.
    if (log.length < 64 * 1024) log += chunk.toString('utf8');
  });
  const found = () => /"port":(\d+)/.exec(log)?.[1];
  await until('the port of a runner', () => found() !== undefined, { stepMs: 20 });
  return Number(found());
}

/** Bytes that are a process's own: nobody else has them, in memory or in the page cache. */
export function privateBytes(pid: number): number {
  const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
  const kibibytes = [...text.matchAll(/^Private_(?:Clean|Dirty|Hugetlb):\s+(\d+) kB$/gm)];
  return kibibytes.reduce((sum, [, value]) => sum + Number(value) * 1024, 0);
}

/**
 * Tells the milliseconds of CPU that a process has taken since this was called. What `stat` of a process says counts in ticks, to whoever runs when
 * one ends: of a process that each tick wakes that is many times what it takes. Here the scheduler's own clock counts, of each thread; a
 * thread that has ended since counts as it was seen last.
 */
export function cpuClock(pid: number): () => number {
  const seen = new Map<string, number>();
  const look = (): number => {
    for (const thread of readdirSync(`/proc/${pid}/task`))
      try {
        seen.set(
          thread,
          Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ', 1)[0]),
        );
      } catch {
        // It has just ended.
      }
    return [...seen.values()].reduce((sum, nanoseconds) => sum + nanoseconds, 0) / 1e6;
  };
  const before = look();
  return () => look() - before;
}
