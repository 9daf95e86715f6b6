import type { VmUsage } from '../../src/api/vmusage.ts';
import type { VmUsages } from '../../src/http/call/services.ts';

/** Figures of a VM that has run for so long and did the same all the time: half a core, 2 MiB/s read, 1 MiB/s written, 3 KiB/s in, 1 KiB/s out. */
export function aUsage(uptimeSeconds: number, more: Partial<VmUsage> = {}): VmUsage {
  const bytes = (perSecond: number): number => Math.round(perSecond * uptimeSeconds);
  return {
    timestamp: new Date(Date.UTC(2026, 0, 1) + uptimeSeconds * 1000).toISOString(),
    uptimeSeconds,
    cpu: { cpus: 2, seconds: uptimeSeconds / 2, waitSeconds: 0 },
    memory: { totalBytes: 2 ** 31, residentBytes: 2 ** 30, availableBytes: 3 * 2 ** 29, usedBytes: 2 ** 29 },
    disks: [
      { name: 'disk', readBytes: bytes(2 ** 20), writtenBytes: bytes(2 ** 20), reads: 1, writes: 1 },
      { name: 'data-logs', readBytes: bytes(2 ** 20), writtenBytes: 0, reads: 1, writes: 0 },
    ],
    network: { receivedBytes: bytes(3 * 2 ** 10), sentBytes: bytes(2 ** 10) },
    ...more,
  };
}

/**
 * Stands for the runners of all VMs: guests that were started with the test's process. It cannot show what QEMU and a guest tell;
 * test/integration/runner/metrics.test.ts does.
 */
export function usagesStandIn(): VmUsages {
  return { of: () => Promise.resolve(aUsage(performance.now() / 1000)) };
}
