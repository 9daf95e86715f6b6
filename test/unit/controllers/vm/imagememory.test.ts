import { expect, test } from 'vitest';
import { hasMemory } from '../../../../src/controllers/vm/resolve/imagememory.ts';
import { anImage } from '../image/builders.ts';

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
