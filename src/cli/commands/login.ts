import { command, type Command } from '../command.ts';
import type { ConfigChange } from '../config.ts';
import type { Context } from '../context.ts';
import { oidcLogin, oidcOptions, wantsOidc } from '../oidclogin.ts';
import { readSecret } from '../secret.ts';
import type { ReachedApi } from '../service/open.ts';
import { usageError } from '../usage.ts';

const login = command({
  path: ['login'],
  summary:
    'Use the HTTP API of an installation, with a token of the kubeconfig, of standard input or of an OpenID issuer',
  description:
    'Address and token are checked before anything is written. Without --token-stdin and --oidc a token of one hour is issued for your account in svc3-users, and renewed with the same kubeconfig before it ends, or once the API refuses it. With --oidc address and code are shown on stderr; the ID token of the issuer is used, and renewed with its refresh token, which the configuration keeps, too.',
  arguments: { url: { summary: 'Address of the API; absent: the configured one', optional: true } },
  options: {
    'token-stdin': { kind: 'flag', summary: 'Read the token from standard input or a redirected file' },
    'ca-file': {
      kind: 'text',
      placeholder: 'FILE',
      summary: "Certificate authority of the API's certificate",
    },
    ...oidcOptions,
  },
  examples: [
    {
      line: 'svc3 login https://svc3.example.com',
      summary: 'With a token of the account that belongs to the kubeconfig',
    },
    {
      line: 'svc3 login https://svc3.example.com --token-stdin < token.txt',
      summary: 'With a token that somebody gave',
    },
    {
      line: 'svc3 login https://svc3.example.com --oidc',
      summary: 'At the OpenID issuer that the installation names, in a browser on any machine',
    },
    {
      line: 'svc3 login https://svc3.example.com --oidc-issuer-url https://login.example.com --oidc-client-id svc3',
      summary: 'At another one',
    },
  ],
  async run(context, { arguments: { url }, options }) {
    const isOidc = wantsOidc(options);
    if (isOidc && options['token-stdin']) throw usageError('--token-stdin and --oidc exclude each other');
    const given = options['token-stdin'] ? await readSecret(context, 'token', undefined) : undefined;
    const reached = await context.reachApi(url, options['ca-file']);
    const { baseUrl, caFile, version } = reached;
    const granted = isOidc
      ? await oidcLogin(context, reached, options)
      : await ofKubeconfig(context, reached, given);
    await context.config.write({ baseUrl, caFile, ...granted });
    await context.out.done('config', 'baseUrl', `Logged in to ${baseUrl} (svc3 ${version})`);
  },
});

/** A token that was given, or one of the kubeconfig's account with where it is renewed, which the API has taken. */
async function ofKubeconfig(
  context: Context,
  { check }: ReachedApi,
  given: string | undefined,
): Promise<ConfigChange> {
  const token = given ?? (await (await context.users()).token({})).token;
  await check(token);
  return given === undefined ? { token, ...(await context.account()) } : { token };
}

export const commands: readonly Command[] = [login];
