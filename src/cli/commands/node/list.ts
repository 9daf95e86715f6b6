import { command } from '../../command.ts';
import { nodeView } from '../../views.ts';

export const nodeList = command({
  path: ['node', 'list'],
  summary: 'List the nodes that take VMs of a namespace',
  options: {
    watch: { kind: 'flag', short: 'w', summary: 'Go on and print every change' },
  },
  examples: [
    { line: 'svc3 node list', summary: 'Nodes with what is free on them' },
    { line: 'svc3 node list -o wide', summary: 'With free GPUs, and why a GPU cannot be used' },
  ],
  async run({ out, namespace, service, signal }, { options }) {
    const [{ nodes }, ns] = await Promise.all([service(), namespace()]);
    if (options.watch) await out.watch(nodeView, nodes.watch(ns, signal));
    else await out.list(nodeView, await nodes.list(ns));
  },
});
