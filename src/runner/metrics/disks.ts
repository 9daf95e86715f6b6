import { devices } from '../args.ts';
import type { Qmp } from '../qmp.ts';

/** What the guest did with a disk since QEMU was started. */
export interface DiskCounters {
  readonly readBytes: number;
  readonly writtenBytes: number;
  readonly reads: number;
  readonly writes: number;
  readonly readSeconds: number;
  readonly writeSeconds: number;
}

const nothing: DiskCounters = {
  readBytes: 0,
  writtenBytes: 0,
  reads: 0,
  writes: 0,
  readSeconds: 0,
  writeSeconds: 0,
};

interface BlockStats {
  readonly qdev?: string;
  readonly stats: {
    readonly rd_bytes: number;
    readonly wr_bytes: number;
    readonly rd_operations: number;
    readonly wr_operations: number;
    readonly rd_total_time_ns: number;
    readonly wr_total_time_ns: number;
  };
}

/** Disks that have series of their own; further data disks are counted together. */
const mostDisks = 4;

/** By disk: `disk` for that of the system, `data-<name>` for data disks, `others` for those beyond the fourth. */
export async function readDiskCounters(qmp: Qmp, timeoutMs: number): Promise<Map<string, DiskCounters>> {
  return diskCounters(await qmp.execute<BlockStats[]>('query-blockstats', undefined, { timeoutMs }));
}

export function diskCounters(answer: readonly BlockStats[]): Map<string, DiskCounters> {
  const counters = new Map<string, DiskCounters>();
  for (const { qdev = '', stats } of answer) {
    const name = /^\/machine\/peripheral\/([^/]+)/.exec(qdev)?.[1] ?? qdev;
    if (name !== devices.disk && !name.startsWith('data-')) continue;
    const key = counters.size < mostDisks ? name : 'others';
    const before = counters.get(key) ?? nothing;
    counters.set(key, {
      readBytes: before.readBytes + stats.rd_bytes,
      writtenBytes: before.writtenBytes + stats.wr_bytes,
      reads: before.reads + stats.rd_operations,
      writes: before.writes + stats.wr_operations,
      readSeconds: before.readSeconds + stats.rd_total_time_ns / 1e9,
      writeSeconds: before.writeSeconds + stats.wr_total_time_ns / 1e9,
    });
  }
  return counters;
}
