import { command } from '../../command.ts';
import { listOptions, showNamespacedList } from '../../listing.ts';
import { vmPoolView } from '../../views.ts';

export const poolList = command({
  path: ['pool', 'list'],
  summary: 'List the VM pools of a namespace',
  options: listOptions,
  examples: [
    { line: 'svc3 pool list', summary: 'All pools of the namespace' },
    { line: 'svc3 pool list --watch', summary: 'And every change' },
  ],
  run: (context, { options }) => showNamespacedList(context, vmPoolView, ({ vmPools }) => vmPools, options),
});
