import { command } from '../../command.ts';
import { deleteAll } from '../../deletion.ts';

export const saDelete = command({
  path: ['sa', 'delete'],
  summary: 'Delete service accounts; their tokens end at once',
  arguments: {
    name: { summary: 'Names of the service accounts', variadic: true, complete: 'serviceAccounts' },
  },
  examples: [{ line: 'svc3 sa delete ci', summary: 'No token of it works any more' }],
  async run(context, { arguments: { name } }) {
    const [{ serviceAccounts }, ns] = await Promise.all([context.service(), context.namespace()]);
    await deleteAll(context, 'serviceaccount', name, (each) => serviceAccounts.delete(ns, each));
  },
});
