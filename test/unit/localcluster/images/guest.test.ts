import { describe, expect, test } from 'vitest';
import { loadOrder } from '../../../../src/localcluster/images/guest.ts';

const dependencies = `kernel/drivers/virtio/virtio.ko: kernel/drivers/virtio/virtio_ring.ko
kernel/drivers/virtio/virtio_ring.ko:
kernel/drivers/block/virtio_blk.ko: kernel/drivers/virtio/virtio_ring.ko kernel/drivers/virtio/virtio.ko
kernel/drivers/char/hw_random/virtio-rng.ko.xz: kernel/drivers/virtio/virtio.ko
kernel/fs/other.ko:
`;

describe('the order in which the guest loads modules', () => {
  test('a module comes after everything that it depends on, and only once', () => {
    expect(loadOrder(dependencies, ['virtio_blk', 'virtio_ring'])).toEqual([
      'kernel/drivers/virtio/virtio_ring.ko',
      'kernel/drivers/virtio/virtio.ko',
      'kernel/drivers/block/virtio_blk.ko',
    ]);
  });

  test('a dash in a file name and a compressed module are found by the name of the module', () => {
    expect(loadOrder(dependencies, ['virtio_rng']).at(-1)).toBe(
      'kernel/drivers/char/hw_random/virtio-rng.ko.xz',
    );
  });

  test('a module that the kernel has built in is left out', () => {
    expect(loadOrder(dependencies, ['ext4'])).toEqual([]);
  });
});
