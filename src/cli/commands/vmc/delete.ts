import { command } from '../../command.ts';
import { deleteAll } from '../../deletion.ts';

export const vmcDelete = command({
  path: ['vmc', 'delete'],
  summary: 'Delete VM configurations; VMs deployed from them stay as they are',
  arguments: { name: { summary: 'Names of the configurations', variadic: true, complete: 'vmConfigs' } },
  examples: [{ line: 'svc3 vmc delete builder', summary: 'One configuration' }],
  async run(context, { arguments: { name } }) {
    const [{ vmConfigs }, ns] = await Promise.all([context.service(), context.namespace()]);
    await deleteAll(context, 'vmconfig', name, (each) => vmConfigs.delete(ns, each));
  },
});
