import { command } from '../../command.ts';
import { nodeTopView } from '../../views.ts';

export const nodeTop = command({
  path: ['node', 'top'],
  summary: 'Show the CPU and memory that are used of each node',
  description:
    'Figures are those of metrics-server, read at kube-apiserver with the right to nodes of Kubernetes and of metrics.k8s.io. 1000m of CPU are one core; the percentages are of what pods may have of the node.',
  examples: [{ line: 'svc3 node top', summary: 'Every node' }],
  async run({ out, service }) {
    const { nodes } = await service();
    await out.list(nodeTopView, await nodes.top());
  },
});
