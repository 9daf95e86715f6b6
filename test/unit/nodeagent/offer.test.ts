import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Hardware } from '../../../src/api/hardware.ts';
import { hasAllocation } from '../../../src/nodeagent/checkpoint.ts';
import { allocateGpu, gpuDevices, kvmDevices, type OfferInput } from '../../../src/nodeagent/offer.ts';
import { readSysfs } from '../../../src/nodeagent/sysfs.ts';
import { type Machine, machineRoot, machines, writeMachine } from '../../support/machines.ts';

let nvidia: Hardware;
let foreign: Hardware;
let tower: Hardware;

async function read(machine: Machine): Promise<Hardware> {
  const root = await mkdtemp(join(tmpdir(), 'svc3-offer-'));
  await writeMachine(root, machine);
  const hardware = await readSysfs(machineRoot(root));
  await rm(root, { recursive: true });
  return hardware;
}

beforeAll(async () => {
  [nvidia, foreign, tower] = await Promise.all([
    read(machines.nvidiaWithAudio),
    read(machines.foreignInGroup),
    read(machines.towerTwoD500),
  ]);
});

const offer = (given: Partial<OfferInput>): OfferInput => ({
  hardware: nvidia,
  rules: { towerCards: ['1002:679e'] },
  isEnabled: true,
  isAllocated: false,
  ...given,
});
const healthy = [{ ID: 'bundle', health: 'Healthy' }];

describe('what a node offers of svc3.dev/gpu-passthrough', () => {
  it.each<[string, () => Partial<OfferInput>, object[]]>([
    ['one bundle where the node is enabled', () => ({}), healthy],
    ['one bundle of both cards of the tower (rule 5)', () => ({ hardware: tower }), healthy],
    ['nothing where the node is not enabled (rule 3)', () => ({ isEnabled: false }), []],
    ['nothing before the hardware was read', () => ({ hardware: undefined }), []],
    ['nothing of hardware that does not qualify', () => ({ hardware: foreign }), []],
    ['nothing on ARM (rule 1)', () => ({ hardware: { ...nvidia, architecture: 'arm64' } }), []],
    [
      'the bundle that a VM has, also where the node was disabled',
      () => ({ isEnabled: false, isAllocated: true }),
      healthy,
    ],
    [
      'the bundle that a VM has as unhealthy, where a card was taken away',
      () => ({ hardware: { ...nvidia, displayDevices: [] }, isAllocated: true }),
      [{ ID: 'bundle', health: 'Unhealthy' }],
    ],
  ])('is %s', (_sentence, given, devices) => {
    expect(gpuDevices(offer(given()))).toEqual(devices);
  });

  it('is handed over with every function of every group, and with no device of the host', () => {
    expect(allocateGpu(offer({}), '/dev')).toEqual({
      envs: { SVC3_GPU_PCI_ADDRESSES: '0000:01:00.0,0000:01:00.1' },
      devices: ['vfio', '1'].map((name) => ({
        containerPath: `/dev/vfio/${name}`,
        hostPath: `/dev/vfio/${name}`,
        permissions: 'rw',
      })),
    });
  });

  it.each<[string, () => Partial<OfferInput>, string]>([
    [
      'a node that is not enabled',
      () => ({ isEnabled: false }),
      'the node is not enabled for GPU passthrough',
    ],
    [
      'a node that has none',
      () => ({ hardware: { ...nvidia, displayDevices: [] } }),
      'the node has no GPU bundle to give: it has no GPU',
    ],
  ])('is refused by %s', (_sentence, given, message) => {
    expect(() => allocateGpu(offer(given()), '/dev')).toThrow(message);
  });
});

describe('what a node offers of svc3.dev/kvm', () => {
  it('is more slots than a node takes pods where hardware virtualisation is there, else nothing', () => {
    expect(kvmDevices(offer({}))).toEqual([]);
    const slots = kvmDevices(offer({ hardware: { ...nvidia, kvm: { gid: 104 } } }));
    expect(slots).toHaveLength(1_024);
    expect(new Set(slots.map(({ ID }) => ID)).size).toBe(1_024);
  });
});

describe("the kubelet's record of allocations", () => {
  it.each<[string, string, boolean | undefined]>([
    ['names the resource', '{"Data":{"PodDeviceEntries":[{"ResourceName":"a/b"}]}}', true],
    ['names others only', '{"Data":{"PodDeviceEntries":[{"ResourceName":"c/d"},null]}}', false],
    ['is empty', '{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":1}', false],
    ['is missing', '', undefined],
    ['has another form', '{"Data":{"entries":[]}}', undefined],
    ['is null', 'null', undefined],
  ])('%s', (_sentence, text, expected) => {
    expect(hasAllocation(text, 'a/b')).toBe(expected);
  });
});
