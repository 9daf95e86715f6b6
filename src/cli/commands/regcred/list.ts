import { command } from '../../command.ts';
import { registryCredentialView } from '../../views.ts';

export const regcredList = command({
  path: ['regcred', 'list'],
  summary: 'List the registry credentials of a namespace, without passwords',
  description: 'Only cluster administrators manage registry credentials.',
  examples: [
    { line: 'svc3 regcred list', summary: 'Of the default namespace' },
    { line: 'svc3 regcred list --namespace team-a -o json', summary: 'Of another one, for a script' },
  ],
  async run({ out, namespace, service }) {
    const [{ registryCredentials }, ns] = await Promise.all([service(), namespace()]);
    await out.list(registryCredentialView, await registryCredentials.list(ns));
  },
});
