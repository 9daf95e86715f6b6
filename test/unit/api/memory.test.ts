import { expect, test } from 'vitest';
import { memoryRefusal } from '../../../src/api/memory.ts';

const settings = { architecture: 'amd64', gpuPassthrough: 'Disabled' } as const;

test.each([
  ['a GPU', { ...settings, gpuPassthrough: 'Enabled' }, 'gpuPassthrough: the memory of a VM with a GPU'],
  ['data disks', { ...settings, disks: [{ name: 'logs' }] }, 'disks: the memory of a VM with data disks'],
  ['a CD', { ...settings, iso: 'r.example.com/iso' }, 'iso: the memory of a VM that was started with a CD'],
] as const)('the memory of a VM with %s is refused by the name of the field', (_what, given, sentence) => {
  expect(memoryRefusal(given as Parameters<typeof memoryRefusal>[0])).toContain(sentence);
});

test('that of any other VM is not, nor that of an ARM one, whose passthrough takes no card', () => {
  expect(memoryRefusal(settings)).toBeUndefined();
  expect(memoryRefusal({ ...settings, disks: [] })).toBeUndefined();
  expect(memoryRefusal({ architecture: 'arm64', gpuPassthrough: 'Enabled' })).toBeUndefined();
});
