import type { EffectiveSettings } from './vm.ts';
import type { Display } from './vmconfig.ts';

/** What QEMU's VGA adapter has unless it is told otherwise, in MiB. */
export const leastVideoMiB = 16;

/** The screen that QEMU's adapters offer first unless they are told otherwise, in pixels; each side has its own option (`xres`, `yres`). */
const defaultScreen = { width: 1280, height: 800 } as const;

/**
 * Video memory that a screen of this size takes on x86, in MiB: Linux offers only modes of which half the memory holds one, at four bytes for each pixel, and QEMU
 * takes powers of two, up to 512.
 */
export function videoMiB(screen: Display | undefined): number {
  const { width = defaultScreen.width, height = defaultScreen.height } = screen ?? {};
  const needed = (2 * 4 * width * height) / 2 ** 20;
  return Math.max(leastVideoMiB, 2 ** Math.ceil(Math.log2(Math.max(1, needed))));
}

/** What the screen of a VM takes beyond the least, in bytes: none where a card is passed through, or on ARM, whose adapter has no memory of its own. */
export function moreVideoBytes({
  architecture,
  gpuPassthrough,
  display,
}: Pick<EffectiveSettings, 'architecture' | 'gpuPassthrough' | 'display'>): number {
  const hasVga = architecture === 'amd64' && gpuPassthrough !== 'Enabled';
  return hasVga ? (videoMiB(display) - leastVideoMiB) * 2 ** 20 : 0;
}
