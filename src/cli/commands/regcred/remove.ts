import { command } from '../../command.ts';

export const regcredRemove = command({
  path: ['regcred', 'remove'],
  summary: 'Remove the credential of a registry from a namespace',
  description:
    'Only cluster administrators manage registry credentials. VMs that run stay; new ones cannot pull with it.',
  arguments: {
    server: {
      summary: 'Address of the registry: <scheme>://<host>[:<port>]',
      complete: 'registryCredentials',
    },
  },
  examples: [
    {
      line: 'svc3 regcred remove https://registry.example.com --namespace team-a',
      summary: 'In another namespace',
    },
  ],
  async run({ out, namespace, service }, { arguments: { server } }) {
    const [{ registryCredentials }, ns] = await Promise.all([service(), namespace()]);
    await registryCredentials.remove(ns, server);
    await out.done('registrycredential', server, `the credential for ${server} was removed`);
  },
});
