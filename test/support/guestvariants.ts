/** Guests for tests of what the small one cannot show: UEFI, old hardware, ARM. Made once into the cache, like it. */
import { copyFile, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  ensureGuest,
  type GuestImage,
  makeInitrd,
  makeUefiDisk,
  unpackPackages,
} from '../../src/localcluster/images/guest.ts';
import {
  type GuestPlatform,
  makeSmallRoot,
  placeText,
  platforms,
} from '../../src/localcluster/images/guestroot.ts';

const source = fileURLToPath(import.meta.url);

/** The small guest on a GPT disk that boots by UEFI only, with a kernel that knows SATA, CD drives and Intel's e1000. */
export function buildUefiGuest(cache: string, signal?: AbortSignal): Promise<GuestImage> {
  return buildSmallUefi(
    cache,
    { platform: platforms.amd64, kernel: 'linux-image-amd64', loader: 'x64' },
    signal,
  );
}

/** The small guest for ARM; it boots by UEFI too. */
export function buildArmGuest(cache: string, signal?: AbortSignal): Promise<GuestImage> {
  return buildSmallUefi(
    cache,
    { platform: platforms.arm64, kernel: 'linux-image-cloud-arm64', loader: 'aa64' },
    signal,
  );
}

interface UefiParts {
  readonly platform: GuestPlatform;
  /** Debian package of the kernel. */
  readonly kernel: string;
  /** How UEFI calls the architecture. */
  readonly loader: string;
}

function buildSmallUefi(cache: string, parts: UefiParts, signal?: AbortSignal): Promise<GuestImage> {
  const { platform, kernel, loader } = parts;
  const { architecture } = platform;
  const build = { cache, prefix: `uefi-${architecture}-`, sources: [source] };
  return ensureGuest(build, async (work) => {
    const tree = join(work, 'packages');
    await unpackPackages(tree, { packages: [kernel, 'systemd-boot-efi'], architecture }, signal);
    await makeInitrd(work, tree, signal);
    const boot = join(work, 'boot');
    for (const folder of ['EFI/BOOT', 'loader/entries']) await mkdir(join(boot, folder), { recursive: true });
    await copyFile(
      join(tree, `usr/lib/systemd/boot/efi/systemd-boot${loader}.efi`),
      join(boot, `EFI/BOOT/BOOT${loader.toUpperCase()}.EFI`),
    );
    await writeFile(join(boot, 'loader/loader.conf'), 'timeout 0\ndefault guest.conf\n');
    await placeText('guest.conf', join(boot, 'loader/entries/guest.conf'), platform, 0o644);
    await makeSmallRoot(join(work, 'root'), tree, platform, signal);
    await makeUefiDisk(work, { espMiB: 56, rootMiB: 40 }, signal);
  });
}
