import { command } from '../../command.ts';

export const nodeAssign = command({
  path: ['node', 'assign'],
  summary: 'Reserve a node for the VMs of one namespace, or give it back to all',
  description: 'It needs the right to change nodes. VMs that run there already stay.',
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
