/** Installs the Debian packages that the tests need beyond those of the local cluster, and unpacks the runner's QEMU. */
import { messageOf } from '../src/errors.ts';
import { ensureTestPackages } from './support/packages.ts';

try {
  await ensureTestPackages((line) => console.error(line));
} catch (error) {
  console.error(error instanceof Error ? error.message : messageOf(error));
  process.exit(1);
}
