import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readHardware, type Hardware } from '../../../src/api/hardware.ts';
import { bundleOf, whyNotQualified } from '../../../src/controllers/node/hardware.ts';
import { readSysfs } from '../../../src/nodeagent/sysfs.ts';
import { machineRoot, machines, writeMachine, type Machine } from '../../support/machines.ts';

const rules = { towerCards: ['1002:679e'] };
let root: string;

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'svc3-sysfs-'));
});
afterEach(async () => rm(root, { recursive: true, force: true }));

const read = async (machine: Machine): Promise<Hardware> => {
  await writeMachine(root, machine);
  return readSysfs(machineRoot(root));
};

describe('the hardware of real machines', () => {
  it.each<[string, Machine, string | undefined]>([
    [
      'the 2013 tower with two D500-class cards qualifies (spec: GPU passthrough rule 5)',
      machines.towerTwoD500,
      undefined,
    ],
    [
      'the tower with one card does not (rule 5)',
      machines.towerOneD500,
      'this tower model needs exactly 2 D500-class cards and has 1',
    ],
    [
      'the tower with three cards does not (rule 5)',
      machines.towerThreeD500,
      'this tower model needs exactly 2 D500-class cards and has 3',
    ],
    [
      'the tower with D300 cards does not (rule 5)',
      machines.towerD300,
      'this tower model needs exactly 2 D500-class cards and has 0 and 2 other',
    ],
    [
      'the tower with D700 cards does not (rule 5)',
      machines.towerD700,
      'this tower model needs exactly 2 D500-class cards and has 0 and 2 other',
    ],
    ['a server with an NVIDIA card and its audio function qualifies', machines.nvidiaWithAudio, undefined],
    [
      'an integrated GPU in use by the host is never offered',
      machines.integratedOnly,
      `its only GPU is the host's own screen`,
    ],
    [
      'a card whose IOMMU group holds a foreign device is not offered',
      machines.foreignInGroup,
      'the IOMMU group of GPU 0000:01:00.0 also holds 0000:02:00.0 (class 010802)',
    ],
    [
      'a machine without IOMMU does not qualify',
      machines.noIommu,
      'it has no IOMMU, or the firmware has it turned off',
    ],
    ['a machine without a GPU does not qualify', machines.noGpu, 'it has no GPU'],
  ])('%s', async (_sentence, machine, reason) => {
    expect(whyNotQualified(await read(machine), rules)).toBe(reason);
  });

  it('gives both cards of the tower with their audio functions as one bundle', async () => {
    expect(bundleOf(await read(machines.towerTwoD500), rules)).toEqual({
      kind: 'bundle',
      bundle: {
        addresses: ['0000:02:00.0', '0000:06:00.0', '0000:02:00.1', '0000:06:00.1'],
        groups: [21, 22],
      },
    });
  });

  it("leaves the host its integrated GPU where there is another card: only that one is a VM's", async () => {
    expect(bundleOf(await read(machines.integratedAndDiscrete), rules)).toEqual({
      kind: 'bundle',
      bundle: { addresses: ['0000:01:00.0', '0000:01:00.1'], groups: [1] },
    });
  });

  it('offers nothing while a function is held by a host driver, and names it', async () => {
    const machine = structuredClone(machines.nvidiaWithAudio);
    machine.devices.find((device) => device.address === '0000:01:00.1')!.driver = 'snd_hda_intel';
    expect(bundleOf(await read(machine), rules)).toEqual({
      kind: 'none',
      reason: '0000:01:00.1 is held by snd_hda_intel, not by vfio-pci',
    });
  });

  it('reports hardware virtualisation only when the processor has it too', async () => {
    await mkdir(join(root, 'dev'), { recursive: true });
    await mkdir(join(root, 'proc'), { recursive: true });
    await writeFile(join(root, 'dev/kvm'), '');
    await writeFile(join(root, 'proc/cpuinfo'), 'flags\t: fpu sse2\n');
    expect((await readSysfs(machineRoot(root))).kvm).toBeUndefined();
    await writeFile(join(root, 'proc/cpuinfo'), 'flags\t: fpu vmx sse2\n');
    expect((await readSysfs(machineRoot(root))).kvm).toEqual({
      gid: expect.any(Number) as number,
    });
  });

  it('writes what the operator reads', async () => {
    const hardware = await read(machines.towerTwoD500);
    expect(readHardware(JSON.stringify(hardware))).toEqual({ kind: 'hardware', hardware });
    expect(hardware.model).toBe('MacPro6,1');
  });

  it('reports the CPU that a guest would see', async () => {
    await writeMachine(root, machines.noGpu);
    await mkdir(join(root, 'proc'), { recursive: true });
    await writeFile(join(root, 'proc/cpuinfo'), 'model name\t: Some CPU\nflags\t\t: sse avx\n');
    const hardware = await readSysfs(machineRoot(root));
    expect(hardware.cpu).toEqual({ model: 'Some CPU', flags: ['avx', 'sse'] });
    expect(readHardware(JSON.stringify(hardware))).toEqual({ kind: 'hardware', hardware });
  });

  it('finds nothing on a machine without sysfs', async () => {
    await symlink('/nowhere', join(root, 'sys'));
    expect(await readSysfs(machineRoot(root, 'arm64'))).toEqual({
      version: 1,
      model: '',
      architecture: 'arm64',
      iommu: false,
      displayDevices: [],
    });
  });
});

describe('a hardware annotation that is wrong', () => {
  const many = {
    version: 1,
    model: 'm',
    architecture: 'amd64',
    iommu: true,
    displayDevices: Array.from({ length: 1000 }, () => ({})),
  };
  it.each([
    ['is missing', undefined, 'the node agent has not reported its hardware yet'],
    ['is not JSON', '{', 'the hardware annotation is not JSON'],
    [
      'is of an old agent',
      '{"version":0}',
      'the hardware annotation has version 0; this operator reads version 1',
    ],
    ['is no object', '7', 'the hardware annotation has version none; this operator reads version 1'],
    ['lacks a field', '{"version":1}', 'the hardware annotation is wrong at model: '],
    ['claims 1,000 cards', JSON.stringify(many), 'the hardware annotation is wrong at displayDevices'],
    ['has no end', `"${'x'.repeat(70_000)}"`, 'the hardware annotation is too long to be true'],
  ])('%s', (_what, annotation, message) => {
    expect(readHardware(annotation)).toEqual({
      kind: 'unreadable',
      message: expect.stringContaining(message) as string,
    });
  });
});
