import { describe, expect, test } from 'vitest';
import { mostExports } from '../../../../../src/api/runner.ts';
import {
  emulationBytes,
  ephemeralStorageBytes,
  guestResources,
  podCpuMilli,
  podMemoryBytes,
  runVolumeBytes,
  stateVolumeBytes,
} from '../../../../../src/controllers/vm/pod/overhead.ts';

const Mi = 2 ** 20;
const Gi = 2 ** 30;
const x86 = { architecture: 'amd64', gpuPassthrough: 'Disabled' } as const;

test('sockets and seed have 16 MiB, the emulator 128, and a pod says 256 of what its guest writes', () => {
  expect([runVolumeBytes, emulationBytes, ephemeralStorageBytes]).toEqual([16 * Mi, 128 * Mi, 256 * Mi]);
});

// 160 of QEMU, 64 for connections, 90 of the runner, 16 for its volume, and twice 8 bytes for each page of 4096.
test.each([
  [0, 330 * Mi],
  [Gi, (1024 + 330 + 4) * Mi],
  [256 * Gi, (256 * 1024 + 330 + 1024) * Mi],
  // In whole MiB, never less than is needed.
  [Gi + 1, (1024 + 330 + 4 + 1) * Mi],
  [256 * Mi, (256 + 330 + 1) * Mi],
])('a guest of %i bytes takes a pod of %i', (guest, pod) => {
  expect(podMemoryBytes({ ...x86, memory: `${guest}` })).toBe(pod);
});

test.each([
  ['that 16 MiB of video memory hold', { ...x86, display: { width: 1920, height: 1080 } }, 0],
  ['that needs 64 MiB', { ...x86, display: { width: 3840, height: 2160 } }, 48],
  ['of ARM', { ...x86, architecture: 'arm64', display: { width: 3840, height: 2160 } }, 0],
  [
    'beside a passed-through card',
    { ...x86, gpuPassthrough: 'Enabled', display: { width: 3840, height: 2160 } },
    0,
  ],
] as const)('a screen %s makes the pod larger by that', (_what, given, more) => {
  expect(podMemoryBytes({ memory: '1Gi', ...given })).toBe((1024 + 330 + 4 + more) * Mi);
});

test('a QCOW2 data disk makes the pod larger by what QEMU keeps of its tables, one without makes it no larger', () => {
  const disk = (name: string, more: object) => ({ name, claimName: name, ...more });
  const disks = [
    disk('a', { format: 'QCOW2' }),
    disk('b', { format: 'QCOW2' }),
    disk('c', { format: 'Raw' }),
    disk('d', {}),
    { name: 'e', size: '1Ti' },
  ];
  expect(podMemoryBytes({ ...x86, memory: '1Gi', disks })).toBe((1024 + 330 + 4 + 2 * 32) * Mi);
});

test.each([
  [1, 1, 1000],
  [4, 2, 2000],
  [1, 3, 334],
  [1, 10_000, 1],
  [0, 1, 1],
])('%i CPUs with an overcommit of %i are %i thousandths', (cpu, overcommit, milli) => {
  expect(podCpuMilli(cpu, overcommit)).toBe(milli);
});

describe('what the runner requests', () => {
  const settings = { cpuOvercommit: 2 };

  test.each([
    ['kvm', '1358Mi'],
    ['tcg', '1486Mi'],
    // It may emulate.
    ['auto', '1486Mi'],
  ] as const)('under %s is %s beside the CPUs', (accelerator, memory) => {
    expect(guestResources({ ...x86, cpu: 3, memory: '1Gi' }, accelerator, settings)).toEqual({
      cpu: '1500m',
      memory,
    });
  });
});

test('the volume of a disk has room for all copies with their tables, a memory twice, and small files', () => {
  const disks = (1 + mostExports) * 101;
  expect(stateVolumeBytes(100 * Mi, 0)).toBe((disks + 128) * Mi);
  expect(stateVolumeBytes(100 * Mi, 10 * Mi)).toBe((disks + 20 + 128) * Mi);
  expect(stateVolumeBytes(100 * Mi, 10 * Mi + 1)).toBe((disks + 20 + 128 + 1) * Mi);
});
