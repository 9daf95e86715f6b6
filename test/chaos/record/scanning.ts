/** Looks at the machine again and again: the guests' processes, and the registry's folder. */
import { setTimeout as delay } from 'node:timers/promises';
import { noteGuests, type PodProcesses } from './guests.ts';
import type { History } from './history.ts';
import type { RunLog } from './log.ts';
import type { StoreFolder } from './store.ts';

const guestsMs = 1_000;
const storeMs = 5_000;

/** Runs until the signal is aborted. */
export async function scanGuests(
  pods: PodProcesses,
  history: History,
  log: RunLog,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    noteGuests(history, log, pods.scan(), Date.now());
    await delay(guestsMs, undefined, { signal }).catch(() => undefined);
  }
}

/** Runs until the signal is aborted. What comes or goes while a sight is being read may be in it or not. */
export async function scanStore(
  store: StoreFolder,
  history: History,
  log: RunLog,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    const at = Date.now();
    const repositories = await store.repositories();
    const until = Date.now();
    history.store.push({ at, until, repositories });
    log.write('store', {
      at,
      until,
      repositories: Object.fromEntries([...repositories].map(([name, all]) => [name, [...all]])),
    });
    await delay(storeMs, undefined, { signal }).catch(() => undefined);
  }
}
