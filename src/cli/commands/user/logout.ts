import { command } from '../../command.ts';

export const userLogout = command({
  path: ['user', 'logout'],
  summary: 'Forget the token of the configuration',
  description: 'The token itself stays valid until it ends: no API deletes a token.',
  examples: [{ line: 'svc3 user logout', summary: 'Back to the kubeconfig' }],
  async run({ config, out }) {
    await config.write({ token: undefined });
    await out.done('config', 'token', 'Logged out');
  },
});
