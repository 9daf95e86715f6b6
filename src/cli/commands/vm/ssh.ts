import { spawn } from 'node:child_process';
import { Svc3Error } from '../../../errors.ts';
import { command } from '../../command.ts';
import { usageError } from '../../usage.ts';
import { sshWords } from '../../ssh.ts';
import { untilServed } from '../../sshbanner.ts';

export const vmSsh = command({
  path: ['vm', 'ssh'],
  summary: 'Log in to a VM through the API, whether it has a port of the node or not',
  description:
    'What follows -- goes to ssh: options, and a command to run. The tunnel is authenticated to this very VM, whose host key changes with its disk: it is not kept unless an option says where.',
  arguments: {
    name: { summary: 'Name of the VM, or USER@NAME', complete: 'vms' },
    rest: { summary: 'Options and command for ssh, after --', variadic: true, optional: true },
  },
  options: {
    login: { kind: 'text', short: 'l', placeholder: 'USER', summary: 'User in the VM' },
    identity: { kind: 'text', short: 'i', placeholder: 'FILE', summary: 'Private key' },
  },
  examples: [
    { line: 'svc3 vm ssh root@build-1', summary: 'A shell' },
    { line: 'svc3 vm ssh build-1 -l debian -- uname -a', summary: 'One command' },
  ],
  async run(context, { arguments: { name: target, rest }, options }) {
    const [service, ns] = await Promise.all([context.service(), context.namespace()]);
    const at = target.lastIndexOf('@');
    const name = target.slice(at + 1);
    const user = options.login ?? (at > 0 ? target.slice(0, at) : undefined);
    if (!/^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$/.test(name))
      throw usageError(`NAME: "${name}" is not the name of a VM`);
    const { status, deployDate } = await service.vms.get(ns, name);
    if (status !== 'Running')
      throw new Svc3Error('Conflict', `VM ${name} is ${status}, ssh needs it to be Running`);
    await untilServed(context, () => service.vms.tunnel(ns, name, 22), `VM ${name}`);
    const { environment, globalArguments } = context;
    const tunnel = [...environment.program, ...globalArguments, '-n', ns, 'vm', 'tunnel', name, '22'];
    const words = sshWords({
      name,
      namespace: ns,
      deployDate,
      user,
      identity: options.identity,
      tunnel,
      rest: rest ?? [],
    });
    context.exitWith(await runSsh(words));
  },
});

function runSsh(words: readonly string[]): Promise<number> {
  return new Promise((resolve, reject) => {
    const child = spawn('ssh', words, { stdio: 'inherit' });
    child.once('error', (cause) => {
      reject(new Svc3Error('BadRequest', 'ssh cannot be started: install an OpenSSH client', { cause }));
    });
    child.once('exit', (code) => resolve(code ?? 1));
  });
}
