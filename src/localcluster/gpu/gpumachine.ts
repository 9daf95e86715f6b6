/** Kernel, initial RAM disk and Debian root of the emulated GPU node; made once, of Debian packages. */
import { existsSync } from 'node:fs';
import {
  chmod,
  copyFile,
  cp,
  mkdir,
  readFile,
  readdir,
  rename,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { run } from '../host/command.ts';
import { debianSuite, loadOrder } from '../images/guest.ts';
import { hashOf } from '../images/hash.ts';

/** Scripts that run in the machine. */
const gpuNodeRecipe = fileURLToPath(new URL('../../../containers/gpunode', import.meta.url));

const packages = ['ca-certificates', 'iproute2', 'kmod', 'libseccomp2', 'mount', 'nftables'];
const diskModules = ['virtio_pci', 'virtio_blk', 'ext4'];

export interface GpuMachine {
  readonly kernel: string;
  readonly initrd: string;
  /** Folder with the root file system, to be copied. */
  readonly root: string;
}

/** Builds the machine into `<cache>/gpunode/<hash>` unless it is there. Needs root. */
export async function buildGpuMachine(cache: string, signal: AbortSignal): Promise<GpuMachine> {
  const suite = await debianSuite();
  const hash = (await hashOf([gpuNodeRecipe, fileURLToPath(import.meta.url)], [suite])).slice(0, 12);
  const folder = join(cache, 'gpunode', hash);
  if (!existsSync(folder)) {
    const work = `${folder}.${process.pid}`;
    await rm(work, { recursive: true, force: true });
    try {
      await build(work, suite, signal);
      await rename(work, folder);
    } finally {
      await rm(work, { recursive: true, force: true });
    }
  }
  return { kernel: join(folder, 'vmlinuz'), initrd: join(folder, 'initrd'), root: join(folder, 'root') };
}

async function build(work: string, suite: string, signal: AbortSignal): Promise<void> {
  await mkdir(work, { recursive: true });
  const kernel = join(work, 'kernel');
  const root = join(work, 'root');
  const common = ['--quiet', '--components=main', '--aptopt=APT::Install-Recommends "false"'];
  const include = (list: readonly string[]) => `--include=${list.join(',')}`;
  const kernelPackages = include(['linux-image-cloud-amd64', 'busybox-static']);
  await run('mmdebstrap', [...common, '--variant=extract', kernelPackages, suite, kernel], { signal });
  await run('mmdebstrap', [...common, '--variant=essential', include(packages), suite, root], { signal });
  const version = (await readdir(join(kernel, 'lib/modules')))[0] ?? '';
  await run('depmod', ['-b', kernel, version], { signal });
  await cp(join(kernel, 'lib/modules', version), join(root, 'usr/lib/modules', version), { recursive: true });
  await copyFile(join(kernel, 'bin/busybox'), join(root, 'usr/bin/busybox'));
  await copyFile(join(kernel, 'boot', `vmlinuz-${version}`), join(work, 'vmlinuz'));
  await makeInitrd(work, kernel, version, signal);
  await mkdir(join(root, 'svc3'));
  await place('boot', join(root, 'svc3/boot'));
  await writeFile(join(root, 'etc/hosts'), '127.0.0.1 localhost\n');
  await writeFile(join(root, 'etc/resolv.conf'), '');
  await rm(kernel, { recursive: true });
}

async function makeInitrd(work: string, kernel: string, version: string, signal: AbortSignal): Promise<void> {
  const modules = join(kernel, 'lib/modules', version);
  const order = loadOrder(await readFile(join(modules, 'modules.dep'), 'utf8'), diskModules);
  const initrd = join(work, 'initrd.d');
  for (const folder of ['bin', 'lib', 'dev', 'proc', 'sys', 'newroot'])
    await mkdir(join(initrd, folder), { recursive: true });
  await copyFile(join(kernel, 'bin/busybox'), join(initrd, 'bin/busybox'));
  await symlink('busybox', join(initrd, 'bin/sh'));
  for (const path of order) {
    const file = join(initrd, 'lib', basename(path));
    await copyFile(join(modules, path), file);
    if (path.endsWith('.xz')) await run('xz', ['-d', file], { signal });
  }
  const names = order.map((path) => basename(path).replace(/\.xz$/, ''));
  await writeFile(join(initrd, 'lib/order'), names.join('\n'));
  await place('init', join(initrd, 'init'));
  const script = 'cd "$1" && find . | cpio --quiet -o -H newc | lz4 -l -9 > "$2"';
  await run('sh', ['-c', script, 'sh', initrd, join(work, 'initrd')], { signal });
  await rm(initrd, { recursive: true });
}

async function place(name: string, to: string): Promise<void> {
  await copyFile(join(gpuNodeRecipe, name), to);
  await chmod(to, 0o755);
}
