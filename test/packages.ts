/** Installs the Debian packages that the tests need beyond those of the local cluster, and unpacks the runner's QEMU. */
import { messageOf } from '../src/errors.ts';
import { ensurePackages } from '../src/localcluster/images/debian.ts';
import { ensureQemu } from './support/qemu.ts';

const also = {
  '/usr/share/AAVMF/AAVMF_CODE.fd': 'qemu-efi-aarch64',
  '/usr/share/OVMF/OVMF_CODE_4M.fd': 'ovmf',
  chromium: 'chromium',
  curl: 'curl',
  genisoimage: 'genisoimage',
  htpasswd: 'apache2-utils',
  skopeo: 'skopeo',
  ssh: 'openssh-client',
  sshpass: 'sshpass',
};

try {
  const progress = (line: string): void => console.error(line);
  await ensurePackages(process.env['PATH'] ?? '', progress, { also });
  await ensureQemu(progress);
} catch (error) {
  console.error(error instanceof Error ? error.message : messageOf(error));
  process.exit(1);
}
