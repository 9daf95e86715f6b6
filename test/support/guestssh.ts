import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Places } from '../../src/localcluster/shared/state.ts';

const execute = promisify(execFile);
const program = fileURLToPath(new URL('../../src/bin/localcluster.ts', import.meta.url));

/** Runs a command in the small guest whose SSH server is behind `ip:port` of a node of a local cluster. */
export async function guestSsh(
  places: Places,
  address: { ip: string; port: number; user?: string },
  command: string,
  timeoutMs = 60_000,
): Promise<string> {
  const dial = `${process.execPath} ${program} dial ${places.state}/run/connect.sock %h:%p`;
  return ssh([`ProxyCommand=${dial}`], address, command, timeoutMs);
}

/** The same where a port of this machine leads to the guest. */
export async function guestSshLocally(port: number, command: string): Promise<string> {
  return ssh([], { ip: '127.0.0.1', port }, command, 60_000);
}

async function ssh(
  also: readonly string[],
  address: { ip: string; port: number; user?: string },
  command: string,
  timeoutMs: number,
): Promise<string> {
  const options = ['StrictHostKeyChecking=no', 'UserKnownHostsFile=/dev/null', 'LogLevel=ERROR', ...also];
  const parameters = [
    ...options.flatMap((option) => ['-o', option]),
    '-p',
    String(address.port),
    `${address.user ?? 'admin'}@${address.ip}`,
  ];
  const { stdout } = await execute('sshpass', ['-p', 'admin', 'ssh', ...parameters, command], {
    timeout: timeoutMs,
  });
  return stdout;
}
