import { Svc3Error } from '../../../errors.ts';
import { command } from '../../command.ts';
import type { ClusterStatus } from '../../localcluster.ts';

export const devUp = command({
  path: ['dev', 'up'],
  summary: 'Start a local cluster with svc3 in it',
  description:
    'Everything in it is the real thing: etcd, Kubernetes, containerd, an OCI registry, svc3 installed by its chart. It needs root or sudo; with --control-plane it is only etcd and the control plane on loopback, without root. A cluster that runs already is left as it is. DNS, resource metrics and network policies are there where they were asked for once, until the state is purged. One cluster at a time is reachable from this machine at the addresses of its nodes; `svc3 dev status` says which.',
  options: {
    nodes: {
      kind: 'integer',
      unit: 'nodes',
      placeholder: 'N',
      summary: 'Number of nodes, 1 to 9',
      fallback: 1,
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
    { line: 'svc3 dev up', summary: 'A cluster with one node' },
    { line: 'svc3 dev up --nodes 3', summary: 'With three nodes' },
    { line: 'svc3 dev up --dns --network-policies', summary: 'With DNS and enforced network policies' },
    { line: 'svc3 dev up --control-plane', summary: 'Only the control plane, in seconds' },
  ],
  async run({ out, localCluster, environment, signal }, { options }) {
    const cluster = await localCluster();
    const { status, changed } = await cluster.up({
      name: options.name,
      nodes: options.nodes,
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

/** Commands for one cluster, as somebody types them who has called this one so. */
interface Words {
  readonly status: string;
  readonly down: string;
  readonly up: string;
}

function wordsFor(name: string, variables: Readonly<Record<string, string | undefined>>): Words {
  const named = name === 'default' ? '' : ` --name ${name}`;
  // Before the PATH is set, `svc3` is only known to npm.
  const svc3 = variables['npm_command'] === undefined ? 'svc3' : 'npm run -s svc3 --';
  const ofDev = (verb: string): string => `${svc3} dev ${verb}${named}`;
  const ofNpm = (verb: string): string => `npm ${verb}${named === '' ? '' : ` --${named}`}`;
  const isNpmStart = variables['npm_lifecycle_event'] === 'start';
  return {
    status: ofDev('status'),
    down: isNpmStart ? ofNpm('stop') : ofDev('down'),
    up: isNpmStart ? ofNpm('start') : ofDev('up'),
  };
}

function troubleOf({ name, state, components = [] }: ClusterStatus, words: Words): string {
  const ended = components.filter((component) => component.state === 'ended').map((each) => each.name);
  const what = ended.length === 0 ? '' : `: ${ended.join(', ')} ended (last words: ${words.status})`;
  return `the local cluster ${name} is ${state}${what}; begin anew with ${words.down}, then ${words.up}`;
}
