import { execFileSync } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import { runnerPaths } from '../../../src/api/runner.ts';
import { testGuestDisk } from '../../support/guest.ts';
import { allowBootTime, aPod, placeIso, startRunner } from './harness.ts';

allowBootTime();

const up = { powerState: 'Running', guestReachable: true } as const;

let disk: string;
beforeAll(async () => {
  disk = await testGuestDisk('uefi');
}, 900_000);

/** A CD with one file on it. */
async function aCd(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'svc3-cd-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await writeFile(join(folder, 'hello'), 'from the CD\n');
  execFileSync('genisoimage', ['-quiet', '-r', '-V', 'TOOLS', '-o', `${folder}.iso`, folder]);
  onTestFinished(() => rm(`${folder}.iso`));
  return `${folder}.iso`;
}

test('a GPT disk without boot code is booted by UEFI, whose variables lie beside the disk', async () => {
  const display = { width: 1024, height: 768, dpi: 96 };
  const runner = await startRunner(await aPod({ display, systemSerial: 'serial,1' }, disk));
  await runner.reaches(up);
  expect(await runner.guest('ls -d /sys/firmware/efi /dev/vda2')).toBe('/dev/vda2\n/sys/firmware/efi\n');
  expect(await runner.guest('cat /sys/class/dmi/id/product_serial')).toBe('serial,1\n');
  const line = await runner.qemuArguments();
  expect(line).toContain('pflash0=flash0,pflash1=vars');
  expect(line).toContain('VGA,id=video0,xres=1024,yres=768');
  const vars = `${runner.pod.root}${runnerPaths.state}/vars.qcow2`;
  const info = execFileSync('qemu-img', ['info', '-U', vars], { encoding: 'utf8' });
  expect(info).toContain('file format: qcow2');
});

test('old hardware: a disk on SATA, an Intel network card, a screen of which the width is said, and a CD that can be taken out', async () => {
  const pod = await aPod({ legacyIO: true, netBoost: false, iso: true, display: { width: 7680 } }, disk);
  await placeIso(pod, await aCd());
  const runner = await startRunner(pod);
  await runner.reaches({ ...up, iso: true });
  expect(await runner.qemuArguments()).toContain('VGA,id=video0,xres=7680,vgamem_mb=64');
  expect(await runner.guest('ls /dev/vd* 2>/dev/null; ls /dev/sda2')).toBe('/dev/sda2\n');
  expect(await runner.guest('basename $(readlink /sys/class/net/eth0/device/driver)')).toBe('e1000\n');
  // The seed is a CD too; the medium is the one with the file.
  const read =
    'for cd in /dev/sr*; do mount -o ro $cd /mnt && cat /mnt/hello; umount /mnt; done 2>/dev/null; true';
  expect(await runner.guest(read)).toBe('from the CD\n');
  expect(await runner.client.eject()).toMatchObject({ iso: false });
  expect(await runner.guest(read)).toBe('');
});
