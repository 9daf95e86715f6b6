import { existsSync } from 'node:fs';
import { Svc3Error } from '../../errors.ts';
import { command, type Command } from '../command.ts';
import { caFileOf, createConfigStore } from '../config.ts';
import { type Words, wordsFor } from '../devwords.ts';
import type { ClusterStatus } from '../localcluster.ts';

const devUp = command({
  path: ['dev', 'up'],
  summary: 'Start a local cluster with svc3 in it',
  description:
    'Everything in it is the real thing: etcd, Kubernetes, containerd, an OCI registry, svc3 installed by its chart. It needs root or sudo; with --control-plane it is only etcd and the control plane on loopback, without root. A cluster that runs already is left as it is. A start with fewer nodes than the last time says which ones go, with the Ephemeral disks of VMs on them. DNS, resource metrics, network policies and GPU passthrough are there where they were asked for once, until the state is purged. One cluster at a time is reachable from this machine at the addresses of its nodes; `svc3 dev status` says which.',
  options: {
    nodes: {
      kind: 'integer',
      unit: 'nodes',
      placeholder: 'N',
      summary: 'Number of nodes, 1 to 9; absent: as many as the last time, at first 1',
    },
    name: {
      kind: 'text',
      placeholder: 'NAME',
      summary: 'Name of the cluster; two names live side by side',
      fallback: 'default',
    },
    demo: { kind: 'flag', summary: 'Start a VM to look at' },
    'gpu-passthrough': { kind: 'flag', summary: 'Allow GPU passthrough in the cluster' },
    'gpu-node': {
      kind: 'flag',
      summary: 'One more node, an emulated machine with two GPUs; implies --gpu-passthrough',
    },
    bare: { kind: 'flag', summary: 'Only Kubernetes and the registry, without svc3' },
    dns: { kind: 'flag', summary: 'Cluster DNS (CoreDNS)' },
    metrics: { kind: 'flag', summary: 'Resource metrics (metrics-server), for kubectl top and autoscalers' },
    'network-policies': { kind: 'flag', summary: 'Enforce NetworkPolicies; without it they have no effect' },
    'control-plane': {
      kind: 'flag',
      summary: 'Only etcd, kube-apiserver, kube-controller-manager and kube-scheduler, until Ctrl-C',
    },
  },
  examples: [
    { line: 'svc3 dev up', summary: 'A cluster with one node, or the one that was there before' },
    { line: 'svc3 dev up --nodes 3', summary: 'With three nodes' },
    { line: 'svc3 dev up --dns --network-policies', summary: 'With DNS and enforced network policies' },
    { line: 'svc3 dev up --control-plane', summary: 'Only the control plane, in seconds' },
  ],
  async run({ out, localCluster, environment, signal }, { options }) {
    const cluster = await localCluster();
    const { status, changed } = await cluster.up({
      name: options.name,
      ...(options.nodes === undefined ? {} : { nodes: options.nodes }),
      controlPlane: options['control-plane'],
      demo: options.demo,
      gpuPassthrough: options['gpu-passthrough'],
      gpuNode: options['gpu-node'],
      bare: options.bare,
      addons: {
        dns: options.dns,
        metrics: options.metrics,
        networkPolicies: options['network-policies'],
      },
      signal,
      progress: (text) => (out.format === 'table' ? out.line(text) : out.progress(text)),
    });
    if (options['control-plane']) return;
    const words = wordsFor(options.name, environment.variables);
    if (status.state !== 'Running') throw new Svc3Error('InternalError', troubleOf(status, words));
    await out.value(
      status,
      `The local cluster ${status.name} ${changed ? 'is up' : 'is up already'}. For this shell: eval "$(${words.status} -o env)"`,
    );
  },
});

function troubleOf({ name, state, components = [] }: ClusterStatus, words: Words): string {
  const ended = components.filter((component) => component.state === 'ended').map((each) => each.name);
  const what = ended.length === 0 ? '' : `: ${ended.join(', ')} ended (last words: ${words.status})`;
  return `the local cluster ${name} is ${state}${what}; begin anew with ${words.down}, then ${words.up}`;
}

const devDown = command({
  path: ['dev', 'down'],
  summary: 'Stop the local cluster; its state stays for the next start',
  options: {
    name: { kind: 'text', placeholder: 'NAME', summary: 'Name of the cluster', fallback: 'default' },
    purge: { kind: 'flag', summary: 'Remove its state too' },
  },
  examples: [
    { line: 'svc3 dev down', summary: 'Stop it' },
    { line: 'svc3 dev down --purge', summary: 'Stop it and forget everything in it' },
  ],
  async run({ out, localCluster }, { options }) {
    const cluster = await localCluster();
    const { changed } = await cluster.down({
      name: options.name,
      purge: options.purge,
      progress: (text) => out.progress(text),
    });
    await out.done(
      'cluster',
      options.name,
      changed ? `The local cluster ${options.name} is down` : `The local cluster ${options.name} was not up`,
    );
  },
});

const devStatus = command({
  path: ['dev', 'status'],
  summary: 'Show the local cluster, or with -o env the settings of a shell for it',
  options: {
    name: { kind: 'text', placeholder: 'NAME', summary: 'Name of the cluster', fallback: 'default' },
  },
  outputs: ['env'],
  onlyShows: true,
  examples: [
    { line: 'svc3 dev status', summary: 'What runs' },
    {
      line: 'eval "$(svc3 dev status -o env)"',
      summary: 'This shell is for this cluster: KUBECONFIG, PATH, SVC3_API_URL and SVC3_CA_FILE',
    },
  ],
  async run({ out, localCluster, environment }, { options }) {
    const status = await (await localCluster()).status({ name: options.name });
    if (out.format === 'env') {
      const caFile = caFileOf(createConfigStore(environment), status.name);
      const found = existsSync(caFile) ? caFile : undefined;
      const words = wordsFor(status.name, environment.variables);
      out.line(exportsOf(status, { path: environment.variables['PATH'] ?? '', caFile: found, words }));
    } else await out.value(status, description(status));
  },
});

interface ShellOptions {
  /** PATH of the shell. */
  readonly path: string;
  readonly caFile: string | undefined;
  readonly words: Pick<Words, 'up'>;
}

/** Lines for `eval`; a folder that PATH has already is not added again. */
export function exportsOf(
  { name, kubeconfig, bin, baseUrl }: ClusterStatus,
  { path, caFile, words }: ShellOptions,
): string {
  if (kubeconfig === undefined)
    throw new Svc3Error('NotFound', `the local cluster ${name} is not up: ${words.up}`);
  const lines = [`export KUBECONFIG=${shellQuoted(kubeconfig)}`];
  // The configuration has those of one cluster, and there may be another.
  if (baseUrl !== undefined && caFile !== undefined)
    lines.push(`export SVC3_API_URL=${shellQuoted(baseUrl)}`, `export SVC3_CA_FILE=${shellQuoted(caFile)}`);
  const missing = (bin ?? []).filter((folder) => !path.split(':').includes(folder));
  if (missing.length > 0) lines.push(`export PATH=${missing.map(shellQuoted).join(':')}:"$PATH"`);
  return lines.join('\n');
}

function shellQuoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

function description(status: ClusterStatus): string {
  const rows: (readonly [string, string | undefined])[] = [
    ['cluster', status.name],
    ['state', status.state],
    ['message', status.message],
    ['kubeconfig', status.kubeconfig],
    ['api', status.baseUrl],
    ['nodes', status.nodes?.join(', ')],
    ['from here', status.hostAccess],
    ...(status.components ?? []).map(
      (each) => ['component', [each.name, each.state, each.message].join(' ').trim()] as const,
    ),
  ];
  return rows
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => `${key.padEnd(12)}${value}`)
    .join('\n');
}

export const commands: readonly Command[] = [devUp, devDown, devStatus];
