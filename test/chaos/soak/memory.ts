/** Memory of svc3's own processes, sampled from the machine. */
import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type { PodProcess, PodProcesses } from '../record/guests.ts';
import type { RunLog } from '../record/log.ts';
import type { Sample } from './slope.ts';

const sampleMs = 15_000;

export const roles = ['operator', 'api', 'node-agent', 'runner'] as const;
export type Role = (typeof roles)[number];

/** One process of ours. */
export interface Series {
  readonly role: Role;
  readonly pid: number;
  readonly startTime: string;
  /** Proportional set size: pages that are shared count by their share. */
  readonly pss: Sample[];
  readonly rss: Sample[];
}

/** Samples all processes until the signal is aborted. */
export async function sampleMemory(
  pods: PodProcesses,
  log: RunLog,
  signal: AbortSignal,
): Promise<readonly Series[]> {
  const all = new Map<string, Series>();
  while (!signal.aborted) {
    for (const process of pods.scan()) sampleOne(all, process, log);
    await delay(sampleMs, undefined, { signal }).catch(() => undefined);
  }
  return [...all.values()];
}

function sampleOne(all: Map<string, Series>, process: PodProcess, log: RunLog): void {
  const role = roles.find((name) => process.command.includes(`/app/${name}.js`));
  const memory = role === undefined ? undefined : memoryOf(process.pid);
  if (role === undefined || memory === undefined) return;
  const { pid, startTime } = process;
  const key = `${pid}/${startTime}`;
  const series = all.get(key) ?? { role, pid, startTime, pss: [], rss: [] };
  all.set(key, series);
  const at = Date.now();
  series.pss.push({ at, bytes: memory.pss });
  series.rss.push({ at, bytes: memory.rss });
  log.write('memory', { at, role, pid, ...memory });
}

/** Undefined where the process has ended. */
function memoryOf(pid: number): { pss: number; rss: number } | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
    const bytes = (name: string): number =>
      Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(text)?.[1] ?? 0) * 1024;
    return { pss: bytes('Pss'), rss: bytes('Rss') };
  } catch {
    return undefined;
  }
}
