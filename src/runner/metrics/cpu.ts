import type { Qmp } from '../qmp.ts';
import { readProc } from './proc.ts';

/** Of all virtual CPUs together, in seconds since QEMU was started. */
export interface CpuTimes {
  readonly used: number;
  /** Ready to run, and waiting for a processor of the node: what the guest sees as steal. */
  readonly waited: number;
}

/** Undefined where the kernel keeps no such times. */
export async function readCpuTimes(qmp: Qmp, pid: number, timeoutMs: number): Promise<CpuTimes | undefined> {
  const threads = await cpuThreads(qmp, timeoutMs);
  const texts = [...threads].map((thread) => readProc(`/proc/${pid}/task/${thread}/schedstat`));
  if (texts.length === 0 || texts.includes(undefined)) return undefined;
  const times = texts.map((text = '') => parseSchedstat(text));
  const sum = (values: readonly number[]) => values.reduce((all, value) => all + value, 0);
  return { used: sum(times.map(({ used }) => used)), waited: sum(times.map(({ waited }) => waited)) };
}

/** A QEMU keeps the threads of its virtual CPUs for as long as it lives. */
const threadsOf = new WeakMap<Qmp, ReadonlySet<number>>();

async function cpuThreads(qmp: Qmp, timeoutMs: number): Promise<ReadonlySet<number>> {
  const known = threadsOf.get(qmp);
  if (known !== undefined) return known;
  const cpus = await qmp.execute<{ 'thread-id': number }[]>('query-cpus-fast', undefined, { timeoutMs });
  const threads = new Set(cpus.map((cpu) => cpu['thread-id']));
  threadsOf.set(qmp, threads);
  return threads;
}

/** Nanoseconds on a processor, nanoseconds in a run queue, turns: Documentation/scheduler/sched-stats.rst of Linux. */
export function parseSchedstat(text: string): CpuTimes {
  const [used = 0, waited = 0] = text.trim().split(' ').map(Number);
  return { used: used / 1e9, waited: waited / 1e9 };
}
