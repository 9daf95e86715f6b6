import { command } from '../../command.ts';
import { usageError } from '../../usage.ts';
import { cachedToken, insidePlugin } from '../../tokencache.ts';

export const userGetToken = command({
  path: ['user', 'get-token'],
  summary: 'Get a token, valid for one hour',
  description:
    'It is a token of your account in svc3-users. With -o exec-credential this program is a credential plugin of kubectl: the token is kept and renewed before it ends.',
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
    if (context.environment.variables[insidePlugin] !== undefined) {
      throw usageError(
        'this context of the kubeconfig gets its credential from svc3 itself; name another with --context',
      );
    }
    const users = await context.users();
    const person = options.user === undefined ? {} : { name: options.user };
    if (out.format === 'exec-credential') {
      const key =
        users.cacheKey(options['from-kubeconfig'] ? undefined : options.user) +
        (options['from-kubeconfig'] ? 'own' : '');
      const token = await cachedToken(context.environment, key, () =>
        options['from-kubeconfig'] ? users.ownToken() : users.token(person),
      );
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
