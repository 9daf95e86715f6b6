/** Memory of svc3's own processes, sampled from the machine. */
import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type { PodProcess, PodProcesses } from '../record/guests.ts';
import type { RunLog } from '../record/log.ts';
import { heapInUse } from './heap.ts';
import type { Sample } from './slope.ts';

const sampleMs = 30_000;

export const roles = ['operator', 'api', 'node-agent', 'runner'] as const;
export type Role = (typeof roles)[number];

/** One process of ours. */
export interface Series {
  readonly role: Role;
  readonly pid: number;
  readonly startTime: string;
  /** In use after a collection of garbage: what is judged. */
  readonly inUse: Sample[];
  /** Proportional set size after it, with all that V8 keeps: pages that are shared count by their share. */
  readonly pss: Sample[];
}

/** Samples all processes until the signal is aborted. */
export async function sampleMemory(
  pods: PodProcesses,
  log: RunLog,
  signal: AbortSignal,
): Promise<readonly Series[]> {
  const all = new Map<string, Series>();
  while (!signal.aborted) {
    for (const process of pods.scan()) await sampleOne(all, process, log);
    await delay(sampleMs, undefined, { signal }).catch(() => undefined);
  }
  return [...all.values()];
}

async function sampleOne(all: Map<string, Series>, process: PodProcess, log: RunLog): Promise<void> {
  const role = roles.find((name) => process.command.includes(`/app/${name}.js`));
  if (role === undefined) return;
  const { pid, startTime } = process;
  const inUse = await heapInUse(pid);
  const pss = pssOf(pid);
  if (inUse === undefined || pss === undefined) return;
  const key = `${pid}/${startTime}`;
  const series = all.get(key) ?? { role, pid, startTime, inUse: [], pss: [] };
  all.set(key, series);
  const at = Date.now();
  series.inUse.push({ at, bytes: inUse });
  series.pss.push({ at, bytes: pss });
  log.write('memory', { at, role, pid, inUse, pss });
}

/** Undefined where the process has ended. */
function pssOf(pid: number): number | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
    return Number(/^Pss:\s+(\d+) kB/m.exec(text)?.[1] ?? 0) * 1024;
  } catch {
    return undefined;
  }
}
