/**
 * `npm run test:soak`: VMs come and go for 45 min on a local cluster without a fault, while the memory of operator, api, node
 * agent and runner is sampled. Ends with 1 where one grows, by its slope after the warm-up (slope.ts says the rule).
 */
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { registryHost } from '../../../src/localcluster/addresses.ts';
import type { Places } from '../../../src/localcluster/state.ts';
import { bringUp } from '../localcluster.ts';
import { createRandom } from '../random.ts';
import { podProcesses } from '../record/guests.ts';
import { emptyHistory } from '../record/history.ts';
import { createRunLog, type RunLog } from '../record/log.ts';
import { soakSettings, type SoakSettings } from '../settings.ts';
import { setUp } from '../setup.ts';
import { Operations } from '../workload/tenant.ts';
import { churn, type Counts, stay } from './churn.ts';
import { roles, sampleMemory } from './memory.ts';
import { judgeMemory, table, unjudged } from './verdict.ts';

const results = fileURLToPath(new URL('../../../chaos-results', import.meta.url));

/** True where all memory is flat. */
async function runOn(
  places: Places,
  settings: SoakSettings,
  log: RunLog,
  signal: AbortSignal,
): Promise<boolean> {
  const random = createRandom(settings.seed);
  const operations = new Operations(emptyHistory(), log);
  const canaries = new Map<string, string>();
  const { tenants } = await setUp({ places, random, operations, canaries, folder: log.folder });
  const [first, ...others] = tenants;
  if (first === undefined) throw new Error('there are no tenants');
  const phase = AbortSignal.any([signal, AbortSignal.timeout(settings.soakMs)]);
  const counts: Counts = { deployed: 0, deleted: 0, failed: 0 };
  const guestImage = `${registryHost}/svc3/guest:latest`;
  const began = Date.now();
  const sampling = sampleMemory(await podProcesses(places), log, phase);
  await Promise.all([
    stay({ tenant: first, random: random.fork('stay'), guestImage, counts }, phase),
    ...others.map((tenant) =>
      churn({ tenant, random: random.fork(tenant.namespace), guestImage, counts }, phase),
    ),
    tellEachMinute(counts, phase),
  ]);
  const rows = judgeMemory(await sampling, began, settings.soakMs);
  const missing = unjudged(rows, roles);
  const text = `${table(rows)}${missing.map((role) => `no process of ${role} lived long enough to be judged\n`).join('')}`;
  console.log(text);
  log.file('report.txt', text);
  return missing.length === 0 && rows.every(({ isFlat }) => isFlat);
}

async function tellEachMinute(counts: Counts, signal: AbortSignal): Promise<void> {
  for (let minute = 1; !signal.aborted; minute++) {
    await delay(60_000, undefined, { signal }).catch(() => undefined);
    const { deployed, deleted, failed } = counts;
    console.log(`minute ${minute}: ${deployed} VMs deployed, ${deleted} deleted, ${failed} calls failed`);
  }
}

async function main(): Promise<number> {
  const settings = soakSettings(process.env);
  const time = new Date().toISOString().replaceAll(':', '-').slice(0, 19);
  const log = createRunLog(join(results, `${time}-soak-${settings.seed}`));
  console.log(`seed ${settings.seed}, ${settings.soakMs / 60_000} min; samples go to ${log.folder}`);
  const interrupted = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM'] as const)
    process.once(name, () => interrupted.abort(new Error(name)));
  const cluster = await bringUp('soak', settings.cluster, interrupted.signal);
  try {
    const isFlat = await runOn(cluster.places, settings, log, interrupted.signal);
    return interrupted.signal.aborted ? 130 : isFlat ? 0 : 1;
  } finally {
    await cluster.remove();
    await log.close();
  }
}

try {
  process.exit(await main());
} catch (error) {
  console.error(error);
  process.exit(1);
}
