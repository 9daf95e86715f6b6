import { command, type Command } from '../command.ts';
import { showList, watchOption } from '../listing.ts';
import { nodeTopView, nodeView } from '../views.ts';

const nodeList = command({
  path: ['node', 'list'],
  summary: 'List the nodes that take VMs of a namespace',
  options: watchOption,
  onlyShows: true,
  examples: [
    { line: 'svc3 node list', summary: 'Nodes with what is free on them' },
    { line: 'svc3 node list -o wide', summary: 'With free GPUs, and why a GPU cannot be used' },
  ],
  run: (context, { options }) => showList(context, nodeView, ({ nodes }) => nodes, options),
});

const nodeTop = command({
  path: ['node', 'top'],
  summary: 'Show the CPU and memory that are used of each node',
  description:
    'Figures are those of metrics-server, read at kube-apiserver with the right to nodes of Kubernetes and of metrics.k8s.io. 1000m of CPU are one core; the percentages are of what pods may have of the node.',
  onlyShows: true,
  examples: [{ line: 'svc3 node top', summary: 'Every node' }],
  async run({ out, service }) {
    const { nodes } = await service();
    await out.list(nodeTopView, await nodes.top());
  },
});

const nodeTag = command({
  path: ['node', 'tag'],
  summary: 'Tag a node, so that VMs can ask for it',
  arguments: {
    name: { summary: 'Name of the node', complete: 'nodes' },
    tag: { summary: 'Tag: 1 to 63 letters, digits, "-", "_" or "."' },
  },
  examples: [{ line: 'svc3 node tag worker-1 ssd', summary: 'VMs deployed with --tag ssd prefer it' }],
  async run({ out, namespace, service }, { arguments: { name, tag } }) {
    const [{ nodes }, ns] = await Promise.all([service(), namespace()]);
    await nodes.tag(ns, name, tag);
    await out.done('node', name, `Tagged node ${name} with ${tag}`);
  },
});

const nodeUntag = command({
  path: ['node', 'untag'],
  summary: 'Remove a tag from a node',
  description:
    'VMs that run there already stay; with chart value placement.whenFull: Pod one that requires the tag and whose node kube-scheduler chose ends when the kubelet starts next.',
  arguments: {
    name: { summary: 'Name of the node', complete: 'nodes' },
    tag: { summary: 'Tag: 1 to 63 letters, digits, "-", "_" or "."' },
  },
  examples: [{ line: 'svc3 node untag worker-1 ssd', summary: 'It is no longer preferred by --tag ssd' }],
  async run({ out, namespace, service }, { arguments: { name, tag } }) {
    const [{ nodes }, ns] = await Promise.all([service(), namespace()]);
    await nodes.untag(ns, name, tag);
    await out.done('node', name, `Removed tag ${tag} from node ${name}`);
  },
});

const nodeAssign = command({
  path: ['node', 'assign'],
  summary: 'Reserve a node for the VMs of one namespace, or give it back to all',
  description:
    'It needs the right to change nodes. VMs that run there already stay; with chart value placement.whenFull: Pod one of another namespace whose node kube-scheduler chose ends when the kubelet starts next.',
  arguments: {
    name: { summary: 'Name of the node', complete: 'nodes' },
    namespace: {
      summary: 'Namespace; absent gives the node back to all',
      optional: true,
      complete: 'namespaces',
    },
  },
  examples: [
    { line: 'svc3 node assign worker-1 team-a', summary: 'Only VMs of team-a' },
    { line: 'svc3 node assign worker-1', summary: 'VMs of every namespace' },
  ],
  async run({ out, service }, { arguments: { name, namespace } }) {
    const { nodes } = await service();
    await nodes.assign(name, namespace);
    const whose = namespace === undefined ? 'VMs of every namespace' : `VMs of namespace ${namespace} only`;
    await out.done('node', name, `Node ${name} takes ${whose}`);
  },
});

const nodeGpuEnable = command({
  path: ['node', 'gpu', 'enable'],
  summary: 'Allow GPU passthrough on a node',
  arguments: { name: { summary: 'Name of the node', complete: 'nodes' } },
  examples: [
    {
      line: 'svc3 node gpu enable worker-1',
      summary: 'The administrator says yes; svc3 node list shows when the hardware qualifies',
    },
  ],
  async run({ out, service }, { arguments: { name } }) {
    const { nodes } = await service();
    await nodes.setGpuPassthrough(name, true);
    await out.done('node', name, `Node ${name} may be used for GPU passthrough once its hardware qualifies`);
  },
});

const nodeGpuDisable = command({
  path: ['node', 'gpu', 'disable'],
  summary: 'Take the permission for GPU passthrough back from a node',
  arguments: { name: { summary: 'Name of the node', complete: 'nodes' } },
  examples: [{ line: 'svc3 node gpu disable worker-1', summary: 'No new VM gets its GPU' }],
  async run({ out, service }, { arguments: { name } }) {
    const { nodes } = await service();
    await nodes.setGpuPassthrough(name, false);
    await out.done(
      'node',
      name,
      `Node ${name} takes no more VMs with GPU passthrough; one that runs goes on`,
    );
  },
});

export const commands: readonly Command[] = [
  nodeList,
  nodeTop,
  nodeTag,
  nodeUntag,
  nodeAssign,
  nodeGpuEnable,
  nodeGpuDisable,
];
