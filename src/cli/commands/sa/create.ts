import { accountRoles } from '../../../wire/schemas.ts';
import { command } from '../../command.ts';

export const saCreate = command({
  path: ['sa', 'create'],
  summary: 'Create a service account, and bind it a role in its namespace',
  description:
    'Where no role is named it gets svc3-edit (VMs, configurations and images), and none, with a warning, where you may not bind it. The binding goes with the account.',
  arguments: { name: { summary: 'Name of the service account' } },
  options: {
    role: {
      kind: 'choice',
      choices: accountRoles,
      summary: 'What it may do in the namespace',
    },
  },
  examples: [
    { line: 'svc3 sa create ci', summary: 'For a pipeline that deploys VMs' },
    { line: 'svc3 sa create dashboard --role svc3-view', summary: 'For one that only looks' },
  ],
  async run({ out, namespace, service }, { arguments: { name }, options: { role } }) {
    const [{ serviceAccounts }, ns] = await Promise.all([service(), namespace()]);
    await serviceAccounts.create(ns, name, role);
    await out.done('serviceaccount', name, `Created service account ${name}`);
  },
});
