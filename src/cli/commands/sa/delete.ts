import { command } from '../../command.ts';
import { deleteAll } from '../../deletion.ts';

export const saDelete = command({
  path: ['sa', 'delete'],
  summary: 'Delete service accounts; their tokens end at once',
  arguments: {
    name: { summary: 'Names of the service accounts', variadic: true, complete: 'serviceAccounts' },
  },
  examples: [{ line: 'svc3 sa delete ci', summary: 'No token of it works any more' }],
  async run({ out, namespace, service }, { arguments: { name } }) {
    const [{ serviceAccounts }, ns] = await Promise.all([service(), namespace()]);
    await deleteAll(out, 'serviceaccount', name, (each) => serviceAccounts.delete(ns, each));
  },
});
