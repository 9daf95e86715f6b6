import { command } from '../../command.ts';

export const saCreate = command({
  path: ['sa', 'create'],
  summary: 'Create a service account',
  description: 'It has no rights until a role is bound to it.',
  arguments: { name: { summary: 'Name of the service account' } },
  examples: [{ line: 'svc3 sa create ci', summary: 'For a pipeline' }],
  async run({ out, namespace, service }, { arguments: { name } }) {
    const [{ serviceAccounts }, ns] = await Promise.all([service(), namespace()]);
    await serviceAccounts.create(ns, name);
    await out.done('serviceaccount', name, `Created service account ${name}`);
  },
});
