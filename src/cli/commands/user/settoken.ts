import { command } from '../../command.ts';
import { readSecret } from '../../secret.ts';

export const userSetToken = command({
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
