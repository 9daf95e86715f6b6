import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import { Svc3Error } from '../errors.ts';

export interface SshTarget {
  readonly name: string;
  readonly namespace: string;
  /** When the VM was made: a later one of the same name has other host keys. RFC 3339. */
  readonly deployDate: string | undefined;
  readonly user: string | undefined;
  readonly identity: string | undefined;
  /** Command whose standard input and output are port 22 of the VM. */
  readonly tunnel: readonly string[];
  /** Further options and the command to run; ssh takes both after the host. */
  readonly rest: readonly string[];
}

/**
 * The way there is authenticated to the very VM, so whatever key is seen first is its own; and its key changes with its disk, when
 * that is reverted or lost with a node. So nothing is written down unless the caller says where, and what is no news is not told.
 */
function hostKeyOptions(rest: readonly string[]): readonly string[] {
  if (rest.some((word) => /StrictHostKeyChecking/i.test(word))) return [];
  if (rest.some((word) => /UserKnownHostsFile/i.test(word))) return ['StrictHostKeyChecking=accept-new'];
  return ['StrictHostKeyChecking=no', 'UserKnownHostsFile=/dev/null', 'LogLevel=ERROR'];
}

/** The arguments of ssh for a VM behind a tunnel. */
export function sshWords(target: SshTarget): string[] {
  const { name, namespace, deployDate, user, identity, tunnel, rest } = target;
  const made = Date.parse(deployDate ?? '') || 0;
  return [
    '-o',
    `ProxyCommand=${tunnel.map(shellQuoted).join(' ')}`,
    // Names of VMs come again with other keys: who keeps them has a line for each VM.
    '-o',
    `HostKeyAlias=${name}.${namespace}.${made / 1000}.svc3`,
    ...hostKeyOptions(rest).flatMap((option) => ['-o', option]),
    ...(user === undefined ? [] : ['-l', user]),
    ...(identity === undefined ? [] : ['-i', identity]),
    name,
    ...rest,
  ];
}

/** ssh hands ProxyCommand to a shell and expands % in it. */
function shellQuoted(word: string): string {
  return `'${word.replaceAll("'", String.raw`'\''`).replaceAll('%', '%%')}'`;
}

/**
 * Runs ssh at this terminal to its end; the signal ends it before.
 *
 * @returns its exit code; where a signal ended it 128 and the number of that, as shells say it
 * @throws Svc3Error BadRequest where there is no ssh
 */
export function runSsh(words: readonly string[], signal: AbortSignal): Promise<number> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const child = spawn('ssh', words, { stdio: 'inherit' });
    const stop = () => void child.kill('SIGTERM');
    signal.addEventListener('abort', stop, { once: true });
    child.once('error', (cause) => {
      reject(new Svc3Error('BadRequest', 'ssh cannot be started: install an OpenSSH client', { cause }));
    });
    child.once('exit', (code, endedBy) => {
      signal.removeEventListener('abort', stop);
      resolve(code ?? 128 + (endedBy === null ? 0 : constants.signals[endedBy]));
    });
  });
}
