import { command } from '../../command.ts';
import { usageError } from '../../usage.ts';
import { userView } from '../../views.ts';

export const userAdd = command({
  path: ['user', 'add'],
  summary: 'Add a user, who can then get tokens (cluster administrators)',
  description:
    'NAME is the name by which the cluster knows the person, as kubectl auth whoami shows it. The account in svc3-users may do what is said here; any other role binding gives it more. The role svc3-edit is for VMs, configurations and images and sees pods, logs and events; svc3-view only sees; edit and admin of Kubernetes also make pods and read Secrets.',
  arguments: { name: { summary: 'Name of the user' } },
  options: {
    role: {
      kind: 'text',
      placeholder: 'ROLE',
      summary: 'ClusterRole in the namespaces of --in',
      fallback: 'svc3-edit',
    },
    in: {
      kind: 'list',
      placeholder: 'NAMESPACE,...',
      summary: 'Namespaces the user may work in',
      complete: 'namespaces',
    },
    'cluster-admin': { kind: 'flag', summary: 'The user may do everything everywhere' },
  },
  examples: [
    { line: 'svc3 user add alice@example.com --in team-a', summary: 'Works in one namespace' },
    { line: 'svc3 user add bob --in team-a,team-b --role svc3-view', summary: 'Reads in two' },
    { line: 'svc3 user add root --cluster-admin', summary: 'An administrator' },
  ],
  async run({ out, users }, { arguments: { name }, options }) {
    if (options['cluster-admin'] && options.in.length > 0)
      throw usageError('--cluster-admin holds everywhere: leave --in out');
    const rights = { clusterAdmin: options['cluster-admin'], role: options.role, namespaces: options.in };
    await out.item(userView, await (await users()).add(name, rights));
  },
});
