import { command, type Command } from '../command.ts';
import { readSecret } from '../secret.ts';
import { cachedToken, insidePlugin } from '../tokencache.ts';
import { usageError } from '../usage.ts';
import { userView } from '../views.ts';

const userGetToken = command({
  path: ['user', 'get-token'],
  summary: 'Get a token, valid for one hour',
  description:
    'It is a token of your account in svc3-users. With -o exec-credential this program is a credential plugin of kubectl: the token is kept, and renewed before it ends or once the cluster does not take it any more.',
  options: {
    'from-kubeconfig': { kind: 'flag', summary: "The kubeconfig's own token, with its own expiry, instead" },
    user: {
      kind: 'text',
      placeholder: 'NAME',
      summary: 'Another user (with the right to its tokens)',
      complete: 'users',
    },
  },
  outputs: ['exec-credential'],
  examples: [
    {
      line: 'curl -H "Authorization: Bearer $(svc3 user get-token)" https://svc3.example.com/api/v1/namespaces/svc3-default/vms',
      summary: 'For a call of the HTTP API',
    },
    {
      line: 'kubectl config set-credentials me --exec-api-version=client.authentication.k8s.io/v1 --exec-command=svc3 --exec-interactive-mode=Never --exec-arg=--context=admin --exec-arg=user --exec-arg=get-token --exec-arg=-o=exec-credential',
      summary: 'As a credential plugin of kubectl',
    },
  ],
  async run(context, { options }) {
    if (options['from-kubeconfig'] && options.user !== undefined)
      throw usageError('--from-kubeconfig and --user exclude each other');
    const { out } = context;
    if (context.environment.variables[insidePlugin] !== undefined)
      throw usageError(
        'this context of the kubeconfig gets its credential from svc3 itself; name another with --context',
      );
    const users = await context.users();
    const person = options.user === undefined ? {} : { name: options.user };
    if (out.format === 'exec-credential') {
      const isOwn = options['from-kubeconfig'];
      const key = (await users.cacheKey(isOwn ? undefined : options.user)) + (isOwn ? 'own' : '');
      const token = await cachedToken(context.environment, key, {
        issue: () => (options['from-kubeconfig'] ? users.ownToken() : users.token(person)),
        isTaken: (kept) => users.isTaken(kept),
      });
      out.line(
        JSON.stringify({
          apiVersion: execVersion(context.environment.variables['KUBERNETES_EXEC_INFO']),
          kind: 'ExecCredential',
          status: token,
        }),
      );
      return;
    }
    const token = options['from-kubeconfig'] ? await users.ownToken() : await users.token(person);
    await out.value(token, token.token);
  },
});

/** The version that kubectl asks for; it refuses any other. */
function execVersion(info: string | undefined): string {
  const match = /"apiVersion"\s*:\s*"(client\.authentication\.k8s\.io\/v1(?:beta1)?)"/.exec(info ?? '');
  return match?.[1] ?? 'client.authentication.k8s.io/v1';
}

const userSetToken = command({
  path: ['user', 'set-token'],
  summary: 'Keep a token for the HTTP API in the configuration, read from standard input',
  description:
    'A token on the command line is seen by whoever lists processes on this machine, and kept in the history of the shell: for clients that know no other way.',
  arguments: { token: { summary: 'The token; absent reads it from standard input', optional: true } },
  examples: [
    { line: 'svc3 user set-token < token.txt', summary: 'From a file' },
    { line: 'svc3 sa token ci | svc3 user set-token', summary: 'Of a service account' },
  ],
  async run(context, { arguments: { token: given } }) {
    const token = given ?? (await readSecret(context, 'token', undefined));
    await context.config.write({ token });
    await context.out.done('config', 'token', 'The token is set');
  },
});

const userLogout = command({
  path: ['user', 'logout'],
  summary: 'Forget the token of the configuration',
  description: 'The token itself stays valid until it ends: no API deletes a token.',
  examples: [{ line: 'svc3 user logout', summary: 'Back to the kubeconfig' }],
  async run({ config, out }) {
    await config.write({ token: undefined });
    await out.done('config', 'token', 'Logged out');
  },
});

const userAdd = command({
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

const userRemove = command({
  path: ['user', 'remove'],
  summary: 'Remove a user; all tokens end at once (cluster administrators)',
  arguments: { name: { summary: 'Name of the user', complete: 'users' } },
  examples: [{ line: 'svc3 user remove alice@example.com', summary: 'No token of hers works any more' }],
  async run({ out, users }, { arguments: { name } }) {
    await (await users()).remove(name);
    await out.done('user', name, `Removed user ${name}`);
  },
});

const userList = command({
  path: ['user', 'list'],
  summary: 'List the users',
  onlyShows: true,
  examples: [{ line: 'svc3 user list', summary: 'Names and their accounts in svc3-users' }],
  async run({ out, users }) {
    await out.list(userView, await (await users()).list());
  },
});

export const commands: readonly Command[] = [
  userGetToken,
  userSetToken,
  userLogout,
  userAdd,
  userRemove,
  userList,
];
