import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { freePorts } from '../../../src/localcluster/controlplane/ports.ts';
import { allowBootTime, aPod, startRunner } from './harness.ts';

allowBootTime();

const run = promisify(execFile);

/** CI clients log in with what OpenSSH has: an RSA host key for old ones, bash, sftp, and scp of either protocol. */
test('the demo guest serves the clients of OpenSSH', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'svc3-ssh-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const [key, sent, returned] = ['key', 'sent', 'returned'].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', key]);
  await writeFile(sent, 'sent by a client');
  const [port] = (await freePorts(1)) as [number];
  const runner = await startRunner(
    await aPod({
      readiness: { tcp: { port: 22 }, timeoutSeconds: 180 },
      sshAuthorizedKeys: [(await readFile(`${key}.pub`, 'utf8')).trim()],
      ports: [{ podPort: port, guestPort: 22, protocol: 'TCP' }],
    }),
  );
  await runner.reaches({ powerState: 'Running', guestReachable: true });
  const options = ['-o', 'StrictHostKeyChecking=no', '-o', `UserKnownHostsFile=${folder}/hosts`, '-i', key];
  const quiet = [...options, '-o', 'LogLevel=ERROR', '-o', 'ConnectTimeout=120'];
  const guest = 'root@127.0.0.1';
  const ssh = async (...more: string[]) => (await run('ssh', [...quiet, '-p', `${port}`, ...more])).stdout;

  expect(await ssh(guest, 'echo $BASH_VERSION; [[ a =~ ^[a-z]$ ]] && echo is-bash')).toMatch(
    /^\d+\.\d+.*\nis-bash\n$/,
  );
  expect(await ssh('-o', 'HostKeyAlgorithms=rsa-sha2-256', guest, 'echo by RSA')).toBe('by RSA\n');

  const copy = (protocol: readonly string[], from: string, to: string) =>
    run('scp', [...quiet, ...protocol, '-P', `${port}`, from, to]);
  for (const protocol of [['-O'], ['-s']]) {
    await copy(protocol, sent, `${guest}:/tmp/sent`);
    await copy(protocol, `${guest}:/tmp/sent`, returned);
    expect(await readFile(returned, 'utf8')).toBe('sent by a client');
    await rm(returned);
  }

  const batch = join(folder, 'batch');
  await writeFile(batch, `put ${sent} /tmp/by-sftp\nget /tmp/by-sftp ${returned}\n`);
  await run('sftp', [...quiet, '-P', `${port}`, '-b', batch, guest]);
  expect(await readFile(returned, 'utf8')).toBe('sent by a client');
});
