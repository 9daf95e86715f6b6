import { execFile } from 'node:child_process';
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { guestRecipe } from '../../../../src/localcluster/images/guestroot.ts';

/** What else the hook names would be this machine's. */
const folders = ['/etc/', '/root', '/home/', '/var/'];

describe('the hook of the demo guest', () => {
  let root: string;

  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), 'woken-'));
    const programs = {
      dropbearkey: 'while [ $# -gt 1 ]; do shift; done; echo new > "$1"',
      dropbear: `echo "$@" >> ${root}/started`,
      hostname: 'echo job-1',
      chown: ':',
      usleep: 'exec sleep 0.02',
      sync: ':',
    };
    for (const [name, text] of Object.entries(programs)) await put(`bin/${name}`, `#!/bin/sh\n${text}\n`);
    await put('etc/machine-id', 'of-the-image\n');
    await put('etc/dropbear/host', 'old\n');
    await put('etc/dropbear/dropbear_rsa_host_key', 'old\n');
  });

  afterEach(() => rm(root, { recursive: true }));

  async function put(path: string, text: string): Promise<void> {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), text);
    await chmod(join(root, path), 0o755);
  }

  const read = (path: string) => readFile(join(root, path), 'utf8');

  /** Runs it in a folder in the place of a guest. */
  async function wake(told: object): Promise<void> {
    let hook = await readFile(join(guestRecipe, 'woken'), 'utf8');
    for (const folder of folders)
      hook = hook.replaceAll(new RegExp(`(?<=[\\s"])${folder}`, 'g'), `${root}${folder}`);
    await put('woken', hook);
    const env = { ...process.env, PATH: `${join(root, 'bin')}${delimiter}${process.env['PATH']}` };
    await new Promise<void>((resolve, reject) => {
      const child = execFile(join(root, 'woken'), { env }, (error) =>
        error === null ? resolve() : reject(error),
      );
      child.stdin?.end(JSON.stringify(told));
    });
  }

  const told = (...sshAuthorizedKeys: string[]) => ({
    name: 'job-1',
    hostname: 'job-1',
    metadata: { note: '"sshAuthorizedKeys":["ssh-ed25519 none"]' },
    sshAuthorizedKeys,
  });

  test('gives it a machine-id, a host key, a name and the keys of its VM, and takes the others', async () => {
    await put('root/.ssh/authorized_keys', 'ssh-ed25519 old\n');
    await wake(told('ssh-ed25519 A a "b" \\', 'ssh-rsa B ],'));
    expect(await read('etc/machine-id')).toMatch(/^[\da-f]{32}\n$/u);
    expect(await read('etc/dropbear/host')).toBe('new\n');
    await expect(read('etc/dropbear/dropbear_rsa_host_key')).rejects.toThrow('ENOENT');
    expect(await read('etc/hostname')).toBe('job-1\n');
    for (const home of ['root', 'home/admin'])
      expect(await read(`${home}/.ssh/authorized_keys`)).toBe('ssh-ed25519 A a "b" \\\nssh-rsa B ],\n');
  });

  test('lets nobody in by a key where the VM has none', async () => {
    await put('home/admin/.ssh/authorized_keys', 'ssh-ed25519 old\n');
    await wake(told());
    expect((await read('home/admin/.ssh/authorized_keys')).trim()).toBe('');
  });

  test('starts no SSH server where none was up, and ends nothing else', async () => {
    await put('var/run/dropbear.pid', `${process.pid}\n`);
    await wake(told());
    await expect(read('started')).rejects.toThrow('ENOENT');
  });

  test('starts the SSH server anew', async () => {
    // A program by that name in its place.
    await put('bin/sleeping/dropbear', '#!/bin/sh\nread -r line\n');
    const server = execFile(join(root, 'bin/sleeping/dropbear'), () => undefined);
    await expect.poll(() => readFile(`/proc/${server.pid}/comm`, 'utf8')).toBe('dropbear\n');
    await put('var/run/dropbear.pid', `${server.pid}\n`);
    await wake(told());
    expect(server.signalCode).toBe('SIGTERM');
    expect(await read('started')).toContain(`-R -r ${root}/etc/dropbear/host`);
  });
});
