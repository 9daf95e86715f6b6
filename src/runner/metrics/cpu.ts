import { readFile } from 'node:fs/promises';
import type { Qmp } from '../qmp.ts';

/** Of all virtual CPUs together, in seconds since QEMU was started. */
export interface CpuTimes {
  readonly used: number;
  /** Ready to run, and waiting for a processor of the node: what the guest sees as steal. */
  readonly waited: number;
}

/** Undefined where the kernel keeps no such times. */
export async function readCpuTimes(qmp: Qmp, pid: number, timeoutMs: number): Promise<CpuTimes | undefined> {
  const cpus = await qmp.execute<{ 'thread-id': number }[]>('query-cpus-fast', undefined, { timeoutMs });
  const threads = new Set(cpus.map((cpu) => cpu['thread-id']));
  const times = await Promise.all(
    [...threads].map(async (thread) =>
      parseSchedstat(await readFile(`/proc/${pid}/task/${thread}/schedstat`, 'utf8')),
    ),
  ).catch(() => []);
  if (times.length === 0) return undefined;
  const sum = (values: readonly number[]) => values.reduce((all, value) => all + value, 0);
  return { used: sum(times.map(({ used }) => used)), waited: sum(times.map(({ waited }) => waited)) };
}

/** Nanoseconds on a processor, nanoseconds in a run queue, turns: Documentation/scheduler/sched-stats.rst of Linux. */
export function parseSchedstat(text: string): CpuTimes {
  const [used = 0, waited = 0] = text.trim().split(' ').map(Number);
  return { used: used / 1e9, waited: waited / 1e9 };
}
