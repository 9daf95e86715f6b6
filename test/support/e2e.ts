/** The full cluster as e2e tests see it. */
import { readFile, readdir, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { K8s } from 'kubernetes-fluent-client';
import { VM } from 'svc3/sdk/fluent';
import { expect, inject, vi } from 'vitest';
import { registryHost } from '../../src/localcluster/shared/addresses.ts';
import { type Kubectl, createKubectl } from '../../src/localcluster/shared/kubectl.ts';
import { type Places, placesOf, readReport } from '../../src/localcluster/shared/state.ts';
import { fullClusterTools } from '../../src/localcluster/cluster/cluster.ts';
import { type Tools, buildTools } from '../../src/localcluster/host/tools.ts';
import { asOperator } from './asoperator.ts';
import { guestSsh } from './guestssh.ts';
import { svc3 } from './svc3cli.ts';

/** A wait that a loaded machine does not break. */
export const eventually = { timeout: 120_000, interval: 250 };

export interface E2eCluster {
  readonly places: Places;
  readonly kubectl: Kubectl;
  /** As the operator, who alone makes pods with devices. */
  readonly asOperator: Kubectl;
  readonly tools: Tools;
  /** Reference of the guest in the store. */
  readonly guest: string;
  /** Runs a command in the guest whose SSH server is behind `ip:port` of a node. */
  ssh(address: { ip: string; port: number; user?: string }, command: string): Promise<string>;
  /** Runs `svc3` from this checkout against the cluster. */
  svc3(...parameters: string[]): Promise<{ stdout: string; stderr: string; code: number }>;
  /** Processes of the sandbox whose command line holds the text. */
  processes(text: string): Promise<number[]>;
}

/** The cluster of the run, or one of this name. */
export async function e2eCluster(name: string = inject('e2eCluster')): Promise<E2eCluster> {
  const places = placesOf(name, process.env, homedir());
  const tools = await buildTools(fullClusterTools, { cacheDir: places.cache });
  // Where kubernetes-fluent-client looks for it.
  process.env['KUBECONFIG'] = places.kubeconfig;
  return {
    places,
    tools,
    kubectl: createKubectl(tools, places.kubeconfig, new AbortController().signal),
    asOperator: createKubectl(tools, places.kubeconfig, new AbortController().signal, [asOperator]),
    guest: `${registryHost}/svc3/guest:latest`,
    ssh: (address, command) => guestSsh(places, address, command),
    svc3: (...parameters) => svc3(parameters, { KUBECONFIG: places.kubeconfig }),
    processes: async (text) => sandboxProcesses((await readReport(places))?.sandboxPid ?? 0, text),
  };
}

/** Processes of a sandbox whose command line holds the text; numbers as the host sees them. */
export async function sandboxProcesses(sandboxPid: number, text: string): Promise<number[]> {
  const namespace = await stat(`/proc/${sandboxPid}/ns/pid`);
  const found: number[] = [];
  for (const entry of await readdir('/proc')) {
    if (!/^\d+$/.test(entry)) continue;
    const commandLine = await readFile(`/proc/${entry}/cmdline`, 'utf8').catch(() => '');
    if (!commandLine.replaceAll('\0', ' ').includes(text)) continue;
    if (await descends(Number(entry), namespace.ino)) found.push(Number(entry));
  }
  return found;
}

/** Whether the process is in the sandbox's PID namespace or in one below it. */
async function descends(pid: number, namespace: number): Promise<boolean> {
  const own = await stat(`/proc/${pid}/ns/pid`).catch(() => undefined);
  if (own?.ino === namespace) return true;
  const parent = /^PPid:\s*(\d+)$/m.exec(await readFile(`/proc/${pid}/status`, 'utf8').catch(() => ''))?.[1];
  return parent !== undefined && parent !== '0' && descends(Number(parent), namespace);
}

type VmObject = VM & { readonly metadata: { readonly name: string; readonly uid: string } };

const namespace = 'svc3-default';

/** A VM of a test in the default namespace. */
export interface TestVm {
  readonly name: string;
  get(): Promise<VmObject | undefined>;
  untilReady(): Promise<VmObject>;
  /** Answers once the guest lets one in. */
  ssh(command: string): Promise<string>;
  delete(): Promise<void>;
}

export async function createVm(
  cluster: E2eCluster,
  name: string,
  spec: object = {},
  labels: Readonly<Record<string, string>> = {},
): Promise<TestVm> {
  await cluster.kubectl.apply({
    apiVersion: 'svc3.dev/v1',
    kind: 'VM',
    metadata: { name, namespace, labels },
    spec: { image: cluster.guest, cpu: 1, memory: '256Mi', ...spec },
  });
  return vmOf(cluster, name);
}

/** A VM that somebody has deployed. */
export function vmOf(cluster: E2eCluster, name: string): TestVm {
  // As a program in the field reads it, and without a process for each look.
  const get = async (): Promise<VmObject | undefined> =>
    K8s(VM, { namespace })
      .Get(name)
      .catch((error: { status?: number }) => {
        if (error.status === 404) return undefined;
        throw error;
      }) as Promise<VmObject | undefined>;
  return {
    name,
    get,
    async untilReady() {
      await vi.waitFor(
        async () => expect(conditionOf(await get(), 'Ready')).toMatchObject({ status: 'True' }),
        eventually,
      );
      return (await get()) as VmObject;
    },
    async ssh(command) {
      const answer = await vi.waitFor(async () => {
        const status = (await get())?.status;
        return cluster.ssh({ ip: status?.ip ?? '', port: status?.ports?.ssh ?? 0 }, command);
      }, eventually);
      return answer.trim();
    },
    async delete() {
      await cluster.kubectl(
        'delete',
        'vms.svc3.dev',
        '-n',
        namespace,
        name,
        '--ignore-not-found',
        '--timeout=120s',
      );
    },
  };
}

export function conditionOf(vm: VmObject | undefined, type: string): object | undefined {
  return vm?.status?.conditions?.find((condition) => condition.type === type);
}
