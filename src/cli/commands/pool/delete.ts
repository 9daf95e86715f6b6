import { command } from '../../command.ts';
import { deleteAll } from '../../deletion.ts';

export const poolDelete = command({
  path: ['pool', 'delete'],
  summary: 'Delete VM pools with the guests that wait; their VMs stay as they are',
  arguments: { name: { summary: 'Names of the pools', variadic: true, complete: 'vmPools' } },
  examples: [{ line: 'svc3 pool delete ci', summary: 'One pool' }],
  async run(context, { arguments: { name } }) {
    const [{ vmPools }, ns] = await Promise.all([context.service(), context.namespace()]);
    await deleteAll(context, 'vmpool', name, (each) => vmPools.delete(ns, each));
  },
});
