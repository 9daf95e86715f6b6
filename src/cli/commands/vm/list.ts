import { command } from '../../command.ts';
import { listOptions, showNamespacedList } from '../../listing.ts';
import { vmView } from '../../views.ts';

export const vmList = command({
  path: ['vm', 'list'],
  summary: 'List the VMs of a namespace',
  options: listOptions,
  examples: [
    { line: 'svc3 vm list', summary: 'All VMs of the namespace' },
    { line: 'svc3 vm list -n team-a -o wide', summary: 'With image, configuration and owner' },
    { line: "svc3 vm list -o json | jq -r '.[].name'", summary: 'For a script' },
  ],
  run: (context, { options }) => showNamespacedList(context, vmView, ({ vms }) => vms, options),
});
