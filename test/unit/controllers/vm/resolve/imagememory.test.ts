import { expect, test } from 'vitest';
import { hasMemory, memoryToGoOnFrom } from '../../../../../src/controllers/vm/resolve/imagememory.ts';
import { anImage } from '../../image/builders.ts';
import { aVm, effective as settings } from '../builders.ts';

const digest = `sha256:${'a'.repeat(64)}`;
const memory = { digest, size: '1Gi', cpuModel: 'max', accelerator: 'tcg', qemu: '10.0.3' } as const;
const image = `store.example.com/svc3/team/disk@${digest}`;
const sources = { image: () => anImage({ vm: { name: 'web', mode: 'SaveWithMemory' } }, { digest, memory }) };

test('a guest may go on from the memory of exactly the version that was saved here', () => {
  expect(hasMemory('team', { image, imageName: 'disk' }, sources)).toBe(true);
});

test.each([
  ['a registry reference', { image }],
  ['the Image of another namespace', { image, imageName: 'disk', imageNamespace: 'other' }],
  ['another version', { image: image.replace(/a$/, 'b'), imageName: 'disk' }],
])('and of nothing else: %s', (_what, effective) => {
  expect(hasMemory('team', effective, sources)).toBe(false);
});

test('an Image without memory, or one that is gone, has none', () => {
  const effective = { image, imageName: 'disk' };
  expect(hasMemory('team', effective, { image: () => undefined })).toBe(false);
  expect(hasMemory('team', effective, { image: () => anImage({ upload: {} }, { digest }) })).toBe(false);
});

const cpuOf = (one: string) => ({ cpuModel: `CPU ${one}`, cpuFlags: 'avx sse' });
const kvm = (one: string) => ({
  accelerator: 'kvm',
  hostCpu: { model: `CPU ${one}`, flags: ['avx', 'sse'] },
});
const savedUnderKvm = (given: object = {}) => ({
  image: () =>
    anImage(
      { vm: { name: 'web', mode: 'SaveWithMemory' } },
      { digest, memory: { ...memory, accelerator: 'kvm', ...cpuOf('I'), size: '256Mi', cpu: 1, ...given } },
    ),
});
const fromImage = { ...settings, image, imageName: 'disk' };
const onClaim = { ...fromImage, disk: { storage: 'Persistent' } } as const;
const memoryHost = { accelerator: 'kvm', ...cpuOf('C') } as const;

test('placement looks for what the image was saved on, and for nothing where the VM is of another size', () => {
  expect(memoryToGoOnFrom(aVm(), fromImage, savedUnderKvm())).toEqual(kvm('I'));
  expect(memoryToGoOnFrom(aVm(), fromImage, sources)).toMatchObject({ accelerator: 'tcg' });
  expect(memoryToGoOnFrom(aVm(), fromImage, savedUnderKvm({ size: '1Gi' }))).toMatchObject({
    refusal: 'the memory was saved with MiB of memory: 1024, the VM has 256',
  });
  expect(memoryToGoOnFrom(aVm(), fromImage, savedUnderKvm({ cpu: 2 }))).toMatchObject({
    refusal: 'the memory was saved with CPUs: 2, the VM has 1',
  });
  expect(memoryToGoOnFrom(aVm(), settings, savedUnderKvm())).toBeUndefined();
});

test('a Persistent disk that a guest has run on has no memory of its image any more', () => {
  expect(memoryToGoOnFrom(aVm({ status: {} }), onClaim, savedUnderKvm())).toEqual(kvm('I'));
  const status = { powerState: 'Stopped' } as const;
  expect(memoryToGoOnFrom(aVm({ status }), onClaim, savedUnderKvm())).toBeUndefined();
  expect(memoryToGoOnFrom(aVm({ status }), fromImage, savedUnderKvm())).toEqual(kvm('I'));
});

test.each([
  ['of a VM that is suspended there', {}, { suspendedTo: 'Disk' }, {}, kvm('C')],
  ['of a VM whose pod was ended and that suspends then', {}, {}, { onEviction: 'Suspend' }, kvm('C')],
  ['but not of one that is shut down then', {}, {}, {}, undefined],
  ['nor of one that is stopped', { powerState: 'Stopped' }, {}, { onEviction: 'Suspend' }, undefined],
] as const)('the memory on the claim comes first: that %s', (_what, spec, status, effective, expected) => {
  const vm = aVm({ spec, status: { powerState: 'Stopped', memoryHost, ...status } });
  expect(memoryToGoOnFrom(vm, { ...onClaim, ...effective }, savedUnderKvm())).toEqual(expected);
});
