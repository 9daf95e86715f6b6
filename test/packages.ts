/** Installs the Debian packages that the tests need beyond those of the local cluster. */
import { messageOf } from '../src/errors.ts';
import { ensurePackages } from '../src/localcluster/images/debian.ts';

const also = {
  'qemu-system-aarch64': 'qemu-system-arm',
  'qemu-system-x86_64': 'qemu-system-x86',
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
  await ensurePackages(process.env['PATH'] ?? '', (line) => console.error(line), { also });
} catch (error) {
  console.error(error instanceof Error ? error.message : messageOf(error));
  process.exit(1);
}
