import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { wokenHook } from '../../../src/runner/introduction.ts';

const docs = join(import.meta.dirname, '../../../docs');
const hook = readFileSync(join(docs, 'examples/woken'), 'utf8');

test('docs/images.md has the hook of docs/examples as it stands there, and says where the runner looks for it', () => {
  const page = readFileSync(join(docs, 'images.md'), 'utf8');
  expect(page).toContain(`\`\`\`sh\n${hook}\`\`\`\n`);
  expect(page).toMatch(new RegExp(`cat > ${wokenHook} && chmod 755 ${wokenHook}.* < docs/examples/woken\n`));
});

/** Files of a guest, by their path in it. */
type Files = Readonly<Record<string, string>>;

// Python takes seconds to start on a busy machine.
describe('the hook of docs/examples', { timeout: 60_000 }, () => {
  const folders: string[] = [];
  afterEach(async () => {
    for (const folder of folders.splice(0)) await rm(folder, { recursive: true });
  });

  /** Runs it in a folder in the place of a guest, whose programs are there by name only: `restarted` has the units that were started anew. */
  async function wake(guest: { users: Files; units: readonly string[]; files?: Files }) {
    const root = await mkdtemp(join(tmpdir(), 'woken-'));
    folders.push(root);
    // Whatever else it wrote would be this machine's.
    const paths = hook.replaceAll(/^ *#.*$/gmu, '').match(/(?<=[\s"])\/\w+\//gu) ?? [];
    expect(paths.filter((path) => !['/proc/', '/etc/', '/dev/'].includes(path))).toEqual([]);
    const users = Object.entries(guest.users).map(
      ([id, name]) => `${id}|${name}) echo ${name}:x:${id}:${id}::${root}/home/${name}:/bin/sh ;;`,
    );
    const units = guest.units.map(
      (unit) => `"cat ${unit}") ;;\n"try-restart ${unit}") echo ${unit} >> ${root}/restarted ;;`,
    );
    const programs: Files = {
      getent: `case "$2" in\n${users.join('\n')}\n*) exit 2 ;;\nesac`,
      install: `for last; do :; done; mkdir -p "$last"`,
      chown: `:`,
      id: `echo 0`,
      'ssh-keygen': `while [ $# -gt 1 ]; do shift; done; echo new > "$1"`,
      systemctl: `case "$1 \${2%.service}" in\n${units.join('\n')}\ncat*) exit 1 ;;\n*) exit 5 ;;\nesac`,
    };
    for (const [name, text] of Object.entries(programs))
      await put(join(root, 'bin', name), `#!/bin/sh\n${text}\n`);
    const before: Files = { 'etc/ssh/ssh_host_ed25519_key': 'old\n', ...guest.files };
    for (const [path, text] of Object.entries(before)) await put(join(root, path), text);
    await put(join(root, 'woken'), hook.replaceAll('/etc/', `${root}/etc/`));
    const env = { ...process.env, PATH: `${join(root, 'bin')}${delimiter}${process.env['PATH']}` };
    await new Promise<void>((resolve, reject) => {
      const child = execFile(join(root, 'woken'), { env }, (error) =>
        error === null ? resolve() : reject(error),
      );
      child.stdin?.end(
        JSON.stringify({ hostname: 'job-1', sshAuthorizedKeys: ['ssh-ed25519 A', 'ssh-ed25519 B'] }),
      );
    });
    return {
      read: (path: string) => readFile(join(root, path), 'utf8'),
      home: () => readdir(join(root, 'home')),
    };
  }

  async function put(path: string, text: string): Promise<void> {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, text);
    await chmod(path, 0o755);
  }

  const told = 'ssh-ed25519 A\nssh-ed25519 B\n';
  const debian = { users: { 0: 'root', 1000: 'debian' }, units: ['ssh', 'sshd'] };
  const keysOf = (user: string) => `home/${user}/.ssh/authorized_keys`;

  test('gives the guest its name, a host key and the keys of its default user', async () => {
    const { read, home } = await wake(debian);
    expect(await read('etc/hostname')).toBe('job-1\n');
    expect(await read('etc/machine-id')).toMatch(/^[\da-f]{32}\n$/u);
    expect(await read('etc/ssh/ssh_host_ed25519_key')).toBe('new\n');
    expect(await read(keysOf('debian'))).toBe(told);
    expect(await home()).toEqual(['debian']);
  });

  test('leaves root none of the keys of the saved VM', async () => {
    const files = { [keysOf('root')]: 'ssh-ed25519 old\n', [keysOf('debian')]: 'ssh-ed25519 old\n' };
    const { read } = await wake({ ...debian, files });
    expect(await read(keysOf('root'))).toBe(told);
    expect(await read(keysOf('debian'))).toBe(told);
  });

  test('lets nobody in as root where cloud-init does not', async () => {
    const files = { [keysOf('root')]: `no-pty,command="echo 'Please login as the user'" ssh-ed25519 old\n` };
    const { read } = await wake({ ...debian, files });
    expect(await read(keysOf('root'))).toBe('');
  });

  test('gives root the keys where there is no other user', async () => {
    const { read } = await wake({ ...debian, users: { 0: 'root' } });
    expect(await read(keysOf('root'))).toBe(told);
  });

  test.each([
    [['ssh', 'sshd'], 'ssh\n'],
    [['sshd'], 'sshd\n'],
  ])('starts the SSH server anew, whatever its unit is called: %j', async (units, restarted) => {
    const { read } = await wake({ ...debian, units });
    expect(await read('restarted')).toBe(restarted);
  });
});
