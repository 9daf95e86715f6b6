import { expect, test } from 'vitest';
import { videoMiB } from '../../../src/api/videomemory.ts';

test.each([
  [undefined, undefined, 16],
  [1024, undefined, 16],
  [2621, undefined, 16],
  [2622, undefined, 32],
  [7680, undefined, 64],
  [undefined, 1638, 16],
  [undefined, 1639, 32],
  [320, 200, 16],
  [1920, 1080, 16],
  [2048, 1024, 16],
  [2048, 1025, 32],
  [2560, 1440, 32],
  [3840, 2160, 64],
  [5120, 2880, 128],
  [7680, 4320, 256],
])('a screen of %s by %s takes %i MiB', (width, height, mebibytes) => {
  expect(
    videoMiB({ ...(width === undefined ? {} : { width }), ...(height === undefined ? {} : { height }) }),
  ).toBe(mebibytes);
});

test('no screen takes what QEMU gives by itself', () => {
  expect(videoMiB(undefined)).toBe(16);
});
