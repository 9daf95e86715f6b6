import { chmod, copyFile, mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { run } from '../../src/localcluster/host/command.ts';
import {
  debianSuite,
  ensureGuest,
  type GuestImage,
  makeBiosDisk,
  makeInitrd,
  unpackPackages,
} from '../../src/localcluster/images/guest.ts';
import { placeText, platforms } from '../../src/localcluster/images/guestroot.ts';

/** What a copy of its memory does to be a machine of its own, as docs/images.md has it. */
const hook = fileURLToPath(new URL('../../docs/examples/woken', import.meta.url));

const packages = [
  'cloud-guest-utils',
  'cloud-init',
  'dbus',
  'e2fsprogs',
  'fdisk',
  'iproute2',
  'kmod',
  'libpam-systemd',
  'openssh-server',
  'qemu-guest-agent',
  'systemd-sysv',
  'udev',
];

/** Nothing here is wanted by a test, and each of them costs seconds of an emulated boot. */
const masked = [
  'apt-daily.timer',
  'apt-daily-upgrade.timer',
  // Its modules are none of those below, and to find that out takes Python as long as to do something.
  'cloud-config.service',
  'cloud-init-hotplugd.socket',
  'dpkg-db-backup.timer',
  'e2scrub_all.timer',
  'e2scrub_reap.service',
  'fstrim.timer',
  'getty@tty1.service',
  'systemd-networkd-wait-online.service',
  'systemd-pstore.service',
  'systemd-update-utmp.service',
];

const files: Readonly<Record<string, string>> = {
  'etc/hostname': 'unnamed\n',
  'etc/fstab': '',
  'etc/machine-id': '0123456789abcdef0123456789abcdef\n',
  'etc/systemd/network/10-any.network': '[Match]\nName=e*\n[Network]\nDHCP=yes\n',
  'etc/systemd/journald.conf.d/volatile.conf': '[Journal]\nStorage=volatile\n',
  'etc/cloud/cloud.cfg': [
    'datasource_list: [NoCloud]',
    // It is configured above: nothing has to be made out of what the seed does not say.
    'network: {config: disabled}',
    'disable_root: false',
    'users: [{name: root, lock_passwd: false}]',
    'ssh_deletekeys: false',
    'ssh_genkeytypes: []',
    'cloud_init_modules: [write-files, set_hostname, users-groups, ssh]',
    'cloud_final_modules: [final-message]',
    'system_info: {distro: debian, ssh_svcname: ssh, paths: {cloud_dir: /var/lib/cloud/, templates_dir: /etc/cloud/templates/}}',
    '',
  ].join('\n'),
};

/**
 * Debian with systemd, cloud-init, the guest agent and an SSH server on a root partition that can grow, for what the small guests
 * cannot show. Built once into the cache; needs root.
 */
export function buildDebianGuest(cache: string): Promise<GuestImage> {
  const build = { cache, prefix: 'debian-', sources: [fileURLToPath(import.meta.url), hook] };
  return ensureGuest(build, async (work) => {
    const root = join(work, 'root');
    await installDebian(root);
    await configure(root);
    const tree = join(work, 'packages');
    await unpackPackages(tree, { packages: ['linux-image-cloud-amd64'], architecture: 'amd64' });
    await makeInitrd(work, tree);
    await placeText('syslinux.cfg', join(work, 'boot/syslinux.cfg'), platforms.amd64, 0o644);
    await makeBiosDisk(work, { rootMiB: 448 });
  });
}

async function installDebian(root: string): Promise<void> {
  const left = ['man', 'doc', 'locale', 'info', 'lintian'].map(
    (folder) => `--dpkgopt=path-exclude=/usr/share/${folder}/*`,
  );
  // It mounts `/proc` in the root: killed, it would leave that behind, and the folder could not be removed.
  await run('unshare', [
    '--mount',
    'mmdebstrap',
    '--quiet',
    '--variant=minbase',
    '--components=main',
    `--include=${packages.join(',')}`,
    '--aptopt=APT::Install-Recommends "false"',
    // Whoever interrupts this begins anew.
    '--dpkgopt=force-unsafe-io',
    ...left,
    await debianSuite(),
    root,
  ]);
}

async function configure(root: string): Promise<void> {
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), text);
  }
  const installed = join(root, 'usr/lib/svc3/woken');
  await mkdir(dirname(installed));
  await copyFile(hook, installed);
  await chmod(installed, 0o755);
  for (const unit of masked) await place(join(root, 'etc/systemd/system', unit), '/dev/null');
  await place(
    join(root, 'etc/systemd/system/multi-user.target.wants/systemd-networkd.service'),
    '/lib/systemd/system/systemd-networkd.service',
  );
  // Each copy of its memory makes its host keys anew, and these take an emulated guest a minute.
  for (const kind of ['rsa', 'ecdsa'])
    for (const end of ['', '.pub']) await rm(join(root, `etc/ssh/ssh_host_${kind}_key${end}`));
  for (const folder of ['var/cache/apt', 'var/lib/apt/lists', 'etc/cloud/cloud.cfg.d/README'])
    await rm(join(root, folder), { recursive: true, force: true });
}

async function place(path: string, target: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await rm(path, { force: true });
  await symlink(target, path);
}
