import { command } from '../../command.ts';
import { vmConfigView } from '../../views.ts';

export const vmcGet = command({
  path: ['vmc', 'get'],
  summary: 'Show one VM configuration',
  arguments: { name: { summary: 'Name of the configuration', complete: 'vmConfigs' } },
  examples: [
    { line: 'svc3 vmc get builder', summary: 'As a table' },
    { line: 'svc3 vmc get builder -o yaml', summary: 'Every field' },
  ],
  async run({ out, namespace, service }, { arguments: { name } }) {
    const [{ vmConfigs }, ns] = await Promise.all([service(), namespace()]);
    await out.item(vmConfigView, await vmConfigs.get(ns, name));
  },
});
