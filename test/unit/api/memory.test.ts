import { expect, test } from 'vitest';
import { ImageMemory } from '../../../src/api/image.ts';
import { ejectedRefusal, isMemoryRefusal, memoryRefusal, SavedMachine } from '../../../src/api/memory.ts';
import { aMachine } from '../worker/amachine.ts';

const settings = { architecture: 'amd64', gpuPassthrough: 'Disabled' } as const;

test.each([
  ['a GPU', { ...settings, gpuPassthrough: 'Enabled' }, 'gpuPassthrough: the memory of a VM with a GPU'],
  ['data disks', { ...settings, disks: [{ name: 'logs' }] }, 'disks: the memory of a VM with data disks'],
  ['a CD', { ...settings, iso: 'r.example.com/iso' }, 'iso: the memory of a VM that was started with a CD'],
] as const)('the memory of a VM with %s is refused by the name of the field', (_what, given, sentence) => {
  const refusal = memoryRefusal(given as Parameters<typeof memoryRefusal>[0]) ?? '';
  expect(refusal).toContain(sentence);
  expect(isMemoryRefusal(refusal)).toBe(true);
});

test('a refusal is told from what else a runner says of a save', () => {
  expect(isMemoryRefusal(ejectedRefusal)).toBe(true);
  expect(isMemoryRefusal('the VM does not run: only the memory of one that runs can be saved')).toBe(false);
  expect(isMemoryRefusal('memory: is no boolean')).toBe(false);
});

test('that of any other VM is not, nor that of an ARM one, whose passthrough takes no card', () => {
  expect(memoryRefusal(settings)).toBeUndefined();
  expect(memoryRefusal({ ...settings, disks: [] })).toBeUndefined();
  expect(memoryRefusal({ architecture: 'arm64', gpuPassthrough: 'Enabled' })).toBeUndefined();
});

test.each([
  ['cpu', 1_024, 1_025],
  ['stoppedMs', 86_400_000, 86_400_001],
  ['qemu', 'x'.repeat(64), 'x'.repeat(65)],
  ['cpuModel', 'x'.repeat(256), 'x'.repeat(257)],
])('the %s of a memory is one that the status of an Image has room for', (member, most, more) => {
  const { cpu, cpuModel, accelerator, qemu } = aMachine;
  const ofStatus = { digest: 'sha256:a', size: '1Gi', cpu, cpuModel, accelerator, qemu };
  expect(SavedMachine.safeParse({ ...aMachine, [member]: most }).success).toBe(true);
  expect(ImageMemory.safeParse({ ...ofStatus, [member]: most }).success).toBe(true);
  expect(SavedMachine.safeParse({ ...aMachine, [member]: more }).success).toBe(false);
  expect(ImageMemory.safeParse({ ...ofStatus, [member]: more }).success).toBe(false);
});
