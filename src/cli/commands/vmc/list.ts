import { command } from '../../command.ts';
import { listOptions, showNamespacedList } from '../../listing.ts';
import { vmConfigView } from '../../views.ts';

export const vmcList = command({
  path: ['vmc', 'list'],
  summary: 'List the VM configurations of a namespace',
  options: listOptions,
  examples: [
    { line: 'svc3 vmc list', summary: 'All configurations of the namespace' },
    { line: 'svc3 vmc list -o yaml', summary: 'Every field' },
  ],
  run: (context, { options }) =>
    showNamespacedList(context, vmConfigView, ({ vmConfigs }) => vmConfigs, options),
});
