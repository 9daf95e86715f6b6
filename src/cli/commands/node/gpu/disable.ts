import { command } from '../../../command.ts';

export const nodeGpuDisable = command({
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
