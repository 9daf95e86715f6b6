/** The QEMU of the runner's image, for tests that run it on this machine, whatever release of Debian the machine has. */
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { withLock } from '../../src/localcluster/host/lock.ts';
import { run } from '../../src/localcluster/host/command.ts';
import type { Progress } from '../../src/localcluster/host/progress.ts';
import { ensurePackages } from '../../src/localcluster/images/debian.ts';
import { suiteOf } from '../../src/localcluster/images/suite.ts';

const programs = ['qemu-img', 'qemu-io', 'qemu-system-aarch64', 'qemu-system-x86_64'];
const packages = ['qemu-system-arm', 'qemu-system-x86', 'qemu-utils', 'seabios'];

const suite = suiteOf(
  readFileSync(new URL('../../containers/runner/Containerfile', import.meta.url), 'utf8'),
);
const folder = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'svc3/qemu', suite);

/** Its programs, and nothing else: a folder for the front of PATH. */
export const qemuFolder = join(folder, 'bin');

/** Unpacks it into the cache unless it is there, with programs that are installed where they are missing. */
export async function ensureQemu(progress: Progress): Promise<void> {
  const done = join(folder, 'done');
  await withLock(`${folder}.lock`, async () => {
    if (existsSync(done)) return;
    await ensurePackages(process.env['PATH'] ?? '', progress, { also: { patchelf: 'patchelf' } });
    progress(`unpacking QEMU of Debian ${suite}`);
    await rm(folder, { recursive: true, force: true });
    const root = join(folder, 'root');
    await mkdir(qemuFolder, { recursive: true });
    const parameters = ['--quiet', '--variant=extract', '--components=main'];
    await run('mmdebstrap', [...parameters, `--include=${packages.join(',')}`, suite, root]);
    // Its libraries and its loader stay its own: those of the machine may be older.
    const libraries = join(root, 'usr/lib', `${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}-linux-gnu`);
    const loader = process.arch === 'arm64' ? 'ld-linux-aarch64.so.1' : 'ld-linux-x86-64.so.2';
    const settings = [
      '--set-interpreter',
      join(libraries, loader),
      '--force-rpath',
      '--set-rpath',
      libraries,
    ];
    for (const program of programs) {
      const file = join(root, 'usr/bin', program);
      await run('patchelf', [...settings, file]);
      await writeFile(join(qemuFolder, program), launcher(root, libraries, program), { mode: 0o755 });
    }
    await writeFile(done, '');
  });
}

/** Debian's QEMU looks for its modules and firmware at fixed places. */
function launcher(root: string, libraries: string, program: string): string {
  const firmware = ['qemu', 'seabios'].map((name) => ` -L '${root}/usr/share/${name}'`).join('');
  return [
    '#!/bin/bash',
    `export QEMU_MODULE_DIR='${libraries}/qemu'`,
    `exec -a ${program} '${root}/usr/bin/${program}'${program.includes('system') ? firmware : ''} "$@"`,
    '',
  ].join('\n');
}
