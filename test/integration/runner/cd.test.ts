import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { allowBootTime, aPod, placeIso, startRunner } from './harness.ts';

allowBootTime();

const soon = { timeout: 150_000, interval: 100 };

/** A program for the first sector that a BIOS runs: writes a line to the serial port and halts. */
function bootSector(line: string): Buffer {
  // call next; next: pop si; add si, text; push cs; pop ds; mov dx, 0x3f8
  const start = [0xe8, 0, 0, 0x5e, 0x83, 0xc6, 0x14, 0x0e, 0x1f, 0xba, 0xf8, 0x03];
  // loop: lodsb; test al, al; jz end; out dx, al; jmp loop; end: cli; hlt; jmp end
  const loop = [0xac, 0x84, 0xc0, 0x74, 0x03, 0xee, 0xeb, 0xf8, 0xfa, 0xf4, 0xeb];
  const program = Buffer.from([...start, ...loop, 0xfd]);
  program[6] = program.length - 3;
  const sector = Buffer.alloc(512);
  Buffer.concat([program, Buffer.from(`${line}\0`)]).copy(sector);
  sector.writeUInt16LE(0xaa55, 510);
  return sector;
}

/** A VM whose disk holds this first sector, with an install medium that says so when it is booted. */
async function aVmWithCd(firstSector: Buffer) {
  const folder = await mkdtemp(join(tmpdir(), 'svc3-boot-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await mkdir(join(folder, 'cd'));
  await writeFile(join(folder, 'cd/boot.bin'), Buffer.concat([bootSector('booted from the CD')], 2048));
  const boot = ['-b', 'boot.bin', '-no-emul-boot', '-boot-load-size', '4', '-c', 'boot.cat'];
  const iso = join(folder, 'medium.iso');
  execFileSync('genisoimage', ['-quiet', ...boot, '-o', iso, join(folder, 'cd')]);
  const disk = join(folder, 'disk.raw');
  await writeFile(disk, Buffer.concat([firstSector], 1024 * 1024));
  const pod = await aPod({ iso: true, graceSeconds: 2 }, disk);
  await placeIso(pod, iso);
  const runner = await startRunner(pod);
  await runner.reaches({ powerState: 'Running', iso: true });
  return runner;
}

test('an empty disk falls through to the install medium, until the medium is taken out', async () => {
  const runner = await aVmWithCd(Buffer.alloc(512));
  await expect.poll(() => runner.serial(), soon).toContain('booted from the CD');
  expect(await runner.qemuArguments()).toContain('medium.iso');
  expect(await runner.client.eject()).toMatchObject({ iso: false });
  // Whoever did not get the answer asks again.
  expect(await runner.client.eject()).toMatchObject({ iso: false });
  await runner.client.power({ action: 'stop' });
  await runner.client.power({ action: 'start' });
  await runner.reaches({ powerState: 'Running', iso: false });
  expect(await runner.qemuArguments()).not.toContain('medium.iso');
});

test('a disk that boots comes before the install medium', async () => {
  const runner = await aVmWithCd(bootSector('booted from the disk'));
  await expect.poll(() => runner.serial(), soon).toContain('booted from the disk');
  expect(runner.serial()).not.toContain('booted from the CD');
});
