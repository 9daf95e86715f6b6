import { spawn } from 'node:child_process';
import { Svc3Error } from '../../../errors.ts';
import { command } from '../../command.ts';
import { usageError } from '../../parse.ts';

export const vmSsh = command({
  path: ['vm', 'ssh'],
  summary: 'Log in to a VM through the API, whether it has a port of the node or not',
  description:
    'What follows -- goes to ssh: options, and a command to run. Host keys are kept per VM in the usual file.',
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
    const { status } = await service.vms.get(ns, name);
    if (status !== 'Running')
      throw new Svc3Error('Conflict', `VM ${name} is ${status}, ssh needs it to be Running`);
    const tunnel = [
      ...context.environment.program,
      ...context.globalArguments,
      '-n',
      ns,
      'vm',
      'tunnel',
      name,
      '22',
    ];
    const code = await runSsh([
      '-o',
      `ProxyCommand=${tunnel.map(shellQuoted).join(' ')}`,
      // Names of VMs come again with other keys: each VM of each namespace has its own line in known_hosts.
      '-o',
      `HostKeyAlias=${name}.${ns}.svc3`,
      ...(user === undefined ? [] : ['-l', user]),
      ...(options.identity === undefined ? [] : ['-i', options.identity]),
      ...sshArguments(name, rest ?? []),
    ]);
    context.exitWith(code);
  },
});

/** Options of ssh stand before the host, its command after it. */
function sshArguments(name: string, rest: readonly string[]): string[] {
  const first = rest.findIndex((word) => !word.startsWith('-'));
  const split = first < 0 ? rest.length : first;
  return [...rest.slice(0, split), name, ...rest.slice(split)];
}

/** ssh hands ProxyCommand to a shell and expands % in it. */
function shellQuoted(word: string): string {
  return `'${word.replaceAll("'", String.raw`'\''`).replaceAll('%', '%%')}'`;
}

function runSsh(words: readonly string[]): Promise<number> {
  return new Promise((resolve, reject) => {
    const child = spawn('ssh', words, { stdio: 'inherit' });
    child.once('error', (cause) => {
      reject(new Svc3Error('BadRequest', 'ssh cannot be started: install an OpenSSH client', { cause }));
    });
    child.once('exit', (code) => resolve(code ?? 1));
  });
}
