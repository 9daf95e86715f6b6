import type { VmUsage } from '../../api/vmusage.ts';
import type { Machine } from '../machine.ts';
import { readCpuTimes } from './cpu.ts';
import { readDiskCounters } from './disks.ts';
import { readAvailable } from './memory.ts';
import { readTraffic } from './network.ts';
import { readProc } from './proc.ts';

/** What does not answer in this time is left out. In milliseconds. */
const answerWithinMs = 2_000;

/** What a machine uses now. What cannot be found out is left out, and the guest's agent is not asked: it may take its time. */
export async function collectUsage(
  machine: Machine,
  { cpu: cpus, memoryMiB }: { readonly cpu: number; readonly memoryMiB: number },
): Promise<VmUsage> {
  const { qmp, pid, startedAtMs } = machine;
  const [cpu, disks, available] = await Promise.all([
    readCpuTimes(qmp, pid, answerWithinMs).catch(() => undefined),
    readDiskCounters(qmp, answerWithinMs).catch(() => undefined),
    readAvailable(machine, answerWithinMs).catch(() => undefined),
  ]);
  const resident = parseResident(readProc(`/proc/${pid}/status`) ?? '');
  const network = readTraffic();
  const totalBytes = memoryMiB * 2 ** 20;
  return {
    timestamp: new Date().toISOString(),
    uptimeSeconds: (performance.now() - startedAtMs) / 1000,
    cpu: { cpus, ...(cpu === undefined ? {} : { seconds: cpu.used, waitSeconds: cpu.waited }) },
    memory: {
      totalBytes,
      ...(resident === undefined ? {} : { residentBytes: resident }),
      ...usedOf(totalBytes, available?.bytes),
    },
    disks: [...(disks ?? [])].map(([name, { readBytes, writtenBytes, reads, writes }]) => ({
      name,
      readBytes,
      writtenBytes,
      reads,
      writes,
    })),
    ...(network === undefined
      ? {}
      : { network: { receivedBytes: network.received.bytes, sentBytes: network.sent.bytes } }),
  };
}

/** A guest may say that it has more than it was given. */
function usedOf(
  totalBytes: number,
  available: number | undefined,
): { availableBytes?: number; usedBytes?: number } {
  if (available === undefined) return {};
  const availableBytes = Math.min(Math.floor(available), totalBytes);
  return { availableBytes, usedBytes: totalBytes - availableBytes };
}

/** Bytes of `VmRSS` in /proc/PID/status. */
export function parseResident(text: string): number | undefined {
  const kiB = /^VmRSS:\s*(\d+) kB$/m.exec(text)?.[1];
  return kiB === undefined ? undefined : Number(kiB) * 1024;
}
