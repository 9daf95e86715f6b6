import { command } from '../command.ts';
import { readSecret } from '../secret.ts';

export const login = command({
  path: ['login'],
  summary: 'Use the HTTP API of an installation, with a token of the kubeconfig or of standard input',
  description:
    'Address and token are checked before anything is written. Without --token-stdin a token of one hour is issued for your account in svc3-users, and renewed with the same kubeconfig before it ends.',
  arguments: { url: { summary: 'Address of the API; absent: the configured one', optional: true } },
  options: {
    'token-stdin': { kind: 'flag', summary: 'Read the token from standard input or a redirected file' },
    'ca-file': {
      kind: 'text',
      placeholder: 'FILE',
      summary: "Certificate authority of the API's certificate",
    },
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
  ],
  async run(context, { arguments: { url }, options }) {
    const given = options['token-stdin'] ? await readSecret(context, 'token', undefined) : undefined;
    const { baseUrl, caFile, version, check } = await context.reachApi(url, options['ca-file']);
    const token = given ?? (await (await context.users()).token({})).token;
    await check(token);
    const account = given === undefined ? await context.account() : {};
    await context.config.write({ baseUrl, caFile, token, ...account });
    await context.out.done('config', 'baseUrl', `Logged in to ${baseUrl} (svc3 ${version})`);
  },
});
