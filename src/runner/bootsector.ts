import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { BaseDisk } from './overlay.ts';
import { qemuImg } from './qemuimg.ts';

const sectorBytes = 512;
const bootCodeBytes = 440;
const protectiveType = 0xee;

/** Where the four entries of an MBR begin; the first byte of one that the code is to boot is `active`. */
const entries = [446, 462, 478, 494];
const active = 0x80;

/**
 * How the code begins that Windows writes into every MBR, that of a GPT disk included, since Vista, in any language: it looks for an active entry, and boots
 * nothing where there is none.
 */
const windowsCode = Buffer.from(
  '33c08ed0bc007c8ec08ed8be007cbf0006b90002fcf3a450681c06cbfbb90400bdbe07807e00007c0b0f85',
  'hex',
);

/**
 * How a disk wants to be booted: a GPT disk without code in its first sector has nothing for a BIOS to run, nor has one with the code of
 * Windows and no active entry. Everything else, an empty disk included, boots by BIOS (which is also 4 s faster under emulation).
 */
export function bootKind(firstSector: Buffer): 'bios' | 'uefi' {
  const hasTable = firstSector.length >= sectorBytes && firstSector.readUInt16LE(510) === 0xaa55;
  const isGpt = hasTable && firstSector[450] === protectiveType;
  return isGpt && !hasBootCode(firstSector) ? 'uefi' : 'bios';
}

function hasBootCode(firstSector: Buffer): boolean {
  const code = firstSector.subarray(0, bootCodeBytes);
  if (code.subarray(0, windowsCode.length).equals(windowsCode))
    return entries.some((at) => firstSector[at] === active);
  return code.some((byte) => byte !== 0);
}

/** Reads the first sector of the image's disk, whatever its format, by way of a file in `folder`. */
export async function readBootKind(base: BaseDisk, folder: string): Promise<'bios' | 'uefi'> {
  const target = join(folder, 'bootsector');
  try {
    await qemuImg([
      'dd',
      '-U',
      '-f',
      base.format,
      '-O',
      'raw',
      `bs=${sectorBytes}`,
      'count=1',
      `if=${base.path}`,
      `of=${target}`,
    ]);
    return bootKind(await readFile(target));
  } finally {
    await rm(target, { force: true });
  }
}
