import { command } from '../../command.ts';
import { showList, watchOption } from '../../listing.ts';
import { nodeView } from '../../views.ts';

export const nodeList = command({
  path: ['node', 'list'],
  summary: 'List the nodes that take VMs of a namespace',
  options: watchOption,
  examples: [
    { line: 'svc3 node list', summary: 'Nodes with what is free on them' },
    { line: 'svc3 node list -o wide', summary: 'With free GPUs, and why a GPU cannot be used' },
  ],
  run: (context, { options }) => showList(context, nodeView, ({ nodes }) => nodes, options),
});
