import { command } from '../../command.ts';
import { vmConfigView } from '../../views.ts';

export const vmcList = command({
  path: ['vmc', 'list'],
  summary: 'List the VM configurations of a namespace',
  options: {
    watch: { kind: 'flag', short: 'w', summary: 'Go on and print every change' },
  },
  examples: [
    { line: 'svc3 vmc list', summary: 'All configurations of the namespace' },
    { line: 'svc3 vmc list -o yaml', summary: 'Every field' },
  ],
  async run({ out, namespace, service, signal }, { options }) {
    const [{ vmConfigs }, ns] = await Promise.all([service(), namespace()]);
    if (options.watch) await out.watch(vmConfigView, vmConfigs.watch(ns, signal));
    else await out.list(vmConfigView, await vmConfigs.list(ns));
  },
});
