import { command } from '../../../command.ts';

export const nodeGpuEnable = command({
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
