/** Installs the Debian packages that the tests need beyond those of the local cluster. */
import { messageOf } from '../src/errors.ts';
import { ensurePackages } from '../src/localcluster/debian.ts';

const also = {
  'qemu-system-x86_64': 'qemu-system-x86',
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
