import { printable } from '../../errors.ts';
import { command, type Command } from '../command.ts';
import { readSecret } from '../secret.ts';
import { registryCredentialView } from '../views.ts';

const regcredList = command({
  path: ['regcred', 'list'],
  summary: 'List the registry credentials of a namespace, without passwords',
  description: 'Only cluster administrators manage registry credentials.',
  onlyShows: true,
  examples: [
    { line: 'svc3 regcred list', summary: 'Of the default namespace' },
    { line: 'svc3 regcred list --namespace team-a -o json', summary: 'Of another one, for a script' },
  ],
  async run({ out, namespace, service }) {
    const [{ registryCredentials }, ns] = await Promise.all([service(), namespace()]);
    await out.list(registryCredentialView, await registryCredentials.list(ns));
  },
});

const regcredAdd = command({
  path: ['regcred', 'add'],
  summary: 'Add or replace the credential of a registry in a namespace',
  description:
    'Only cluster administrators manage registry credentials. The registry is asked once whether it accepts the credential, which is stored in any case: by the HTTP API where the command goes over it, else from this machine; who is contacted is said before. Over plain HTTP, and at a private, loopback or link-local address (a name is looked up first), it is asked only with --verify: there the password might reach somebody else.',
  arguments: { server: { summary: 'Address of the registry: <scheme>://<host>[:<port>]' } },
  options: {
    username: {
      kind: 'text',
      short: 'u',
      placeholder: 'USERNAME',
      summary: 'Registry user name',
      required: true,
    },
    password: {
      kind: 'text',
      placeholder: 'PASSWORD',
      summary: 'Registry password; it shows in process lists and in the history of the shell',
    },
    'password-stdin': { kind: 'flag', summary: 'Read the password from standard input or a redirected file' },
    'allow-insecure': {
      kind: 'flag',
      summary: 'Needed for http://; with https:// the certificate is not verified',
    },
    replace: { kind: 'flag', summary: 'Overwrite the stored credential of this registry' },
    verify: {
      kind: 'toggle',
      summary:
        'Log in to the registry once and say what it answered; where nothing is said, only over https at a public address',
    },
  },
  exactlyOne: [['password', 'password-stdin']],
  examples: [
    {
      line: 'svc3 regcred add https://registry.example.com --username robot --password-stdin < password.txt',
      summary: 'From a file',
    },
    {
      line: 'pass registry | svc3 regcred add https://registry.example.com:5000 --username robot --password-stdin --replace',
      summary: 'From a pipe, over an old one',
    },
    {
      line: 'svc3 regcred add http://10.0.0.5:5000 --username robot --password-stdin --allow-insecure < password.txt',
      summary: 'Without TLS',
    },
  ],
  async run(context, { arguments: { server }, options }) {
    const { out } = context;
    if (options.password !== undefined)
      out.warning(
        '--password shows in process lists and in the history of the shell; --password-stdin does not',
      );
    const password = await readSecret(context, 'password', options.password);
    const [{ registryCredentials }, ns] = await Promise.all([context.service(), context.namespace()]);
    const request = {
      server,
      username: options.username,
      password,
      ...(options['allow-insecure'] ? { allowInsecure: true } : {}),
      ...(options.replace ? { replace: true } : {}),
    };
    const { replaced, verdict } = await registryCredentials.add(ns, request, {
      verify: options.verify === undefined ? 'public' : options.verify ? 'always' : 'never',
      contacting: (what) => out.note(what),
    });
    if (verdict?.accepted === false) out.warning(`${server}: ${verdict.message}`);
    const accepted = verdict?.accepted === true ? `\n${server}: ${printable(verdict.message)}` : '';
    await out.done(
      'registrycredential',
      server,
      `the credential for ${server} was ${replaced ? 'replaced' : 'added'}${accepted}`,
    );
  },
});

const regcredRemove = command({
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

export const commands: readonly Command[] = [regcredList, regcredAdd, regcredRemove];
