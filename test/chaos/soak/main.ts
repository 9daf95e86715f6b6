/**
 * `npm run test:soak`: VMs come and go for 45 min on a local cluster without a fault, while the memory of operator, api, node
 * agent and runner is sampled. Ends with 1 where one grows, by its slope after the warm-up (slope.ts says the rule).
 */
import { setTimeout as delay } from 'node:timers/promises';
import { registryHost } from '../../../src/localcluster/shared/addresses.ts';
import type { Places } from '../../../src/localcluster/shared/state.ts';
import { runProgram } from '../program.ts';
import { createRandom } from '../random.ts';
import { podProcesses } from '../record/guests.ts';
import { emptyHistory } from '../record/history.ts';
import type { RunLog } from '../record/log.ts';
import { soakSettings, type RunSettings } from '../settings.ts';
import { setUp } from '../setup.ts';
import { Operations } from '../workload/tenant.ts';
import { churn, type Counts, stay } from './churn.ts';
import { roles, sampleMemory } from './memory.ts';
import { judgeMemory, table, unjudged } from './verdict.ts';

/** True where all memory is flat. */
async function runOn(
  places: Places,
  settings: RunSettings,
  log: RunLog,
  signal: AbortSignal,
): Promise<boolean> {
  const random = createRandom(settings.seed);
  const operations = new Operations(emptyHistory(), log);
  const canaries = new Map<string, string>();
  const { tenants } = await setUp({ places, random, operations, canaries, folder: log.folder });
  const [first, ...others] = tenants;
  if (first === undefined) throw new Error('there are no tenants');
  const phase = AbortSignal.any([signal, AbortSignal.timeout(settings.durationMs)]);
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
  const rows = judgeMemory(await sampling, began, settings.durationMs);
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

const settings = soakSettings(process.env);
await runProgram({
  ...settings,
  kind: 'soak',
  run: (places, log, signal) => runOn(places, settings, log, signal),
});
