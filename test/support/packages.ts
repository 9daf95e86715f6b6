import { ensurePackages } from '../../src/localcluster/images/debian.ts';
import { ensureQemu } from './qemu.ts';

/** By a program or file of each: what tests and benchmarks need beyond the local cluster. */
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

/** Installs the Debian packages that are missing, and unpacks the QEMU that the runner's image has. */
export async function ensureTestPackages(progress: (line: string) => void): Promise<void> {
  await ensurePackages(process.env['PATH'] ?? '', progress, { also });
  await ensureQemu(progress);
}
