/** Programs of Debian's packages for tests, of this machine's release: unpacked, never installed. */
import { existsSync } from 'node:fs';
import { mkdir, readdir, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { withLock } from '../../src/localcluster/host/lock.ts';
import { run } from '../../src/localcluster/host/command.ts';

const cache = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'svc3');

/** Unpacks a package into the cache unless it is there; resolves to the folder of its programs. Its libraries are the machine's. */
export async function debianPrograms(name: string): Promise<string> {
  const folder = join(cache, name);
  const root = join(folder, 'root');
  await withLock(`${folder}.lock`, async () => {
    if (existsSync(root)) return;
    await rm(folder, { recursive: true, force: true });
    await mkdir(folder, { recursive: true });
    await run('apt-get', ['download', name], { cwd: folder });
    const archive = (await readdir(folder)).find((file) => file.endsWith('.deb')) ?? '';
    const unpacked = join(folder, 'unpacked');
    await run('dpkg', ['-x', join(folder, archive), unpacked]);
    await run('mv', [unpacked, root]);
    await rm(join(folder, archive));
  });
  return join(root, 'usr/bin');
}
