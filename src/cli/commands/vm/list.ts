import { command } from '../../command.ts';
import { vmView } from '../../views.ts';

export const vmList = command({
  path: ['vm', 'list'],
  summary: 'List the VMs of a namespace',
  options: {
    watch: { kind: 'flag', short: 'w', summary: 'Go on and print every change' },
  },
  examples: [
    { line: 'svc3 vm list', summary: 'All VMs of the namespace' },
    { line: 'svc3 vm list -n team-a -o wide', summary: 'With image, configuration and owner' },
    { line: "svc3 vm list -o json | jq -r '.[].name'", summary: 'For a script' },
  ],
  async run({ out, namespace, service, signal }, { options }) {
    const [{ vms }, ns] = await Promise.all([service(), namespace()]);
    if (options.watch) await out.watch(vmView, vms.watch(ns, signal));
    else await out.list(vmView, await vms.list(ns));
  },
});
