import { command } from '../../command.ts';
import { readSecret } from '../../secret.ts';

export const userSetToken = command({
  path: ['user', 'set-token'],
  summary: 'Keep a token for the HTTP API in the configuration, read from standard input',
  examples: [
    { line: 'svc3 user set-token < token.txt', summary: 'From a file' },
    { line: 'svc3 sa token ci | svc3 user set-token', summary: 'Of a service account' },
  ],
  async run(context) {
    const token = await readSecret(context, 'token', undefined);
    await context.config.write({ token });
    await context.out.done('config', 'token', 'The token is set');
  },
});
