import { command } from '../../command.ts';
import { showList, watchOption } from '../../listing.ts';
import { vmView } from '../../views.ts';

export const vmList = command({
  path: ['vm', 'list'],
  summary: 'List the VMs of a namespace',
  options: watchOption,
  examples: [
    { line: 'svc3 vm list', summary: 'All VMs of the namespace' },
    { line: 'svc3 vm list -n team-a -o wide', summary: 'With image, configuration and owner' },
    { line: "svc3 vm list -o json | jq -r '.[].name'", summary: 'For a script' },
  ],
  run: (context, { options }) => showList(context, vmView, ({ vms }) => vms, options),
});
