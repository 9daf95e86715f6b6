/**
 * `npm run test:chaos`: a local cluster with three nodes, four tenants who work on it at random, and faults in everything below
 * them; then the faults end, all has to come to rest, all is deleted, and invariants are judged by what was recorded from
 * outside. Ends with 1 where one was violated. docs/chaos.md tells how to read a finding.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { registryHost } from '../../src/localcluster/shared/addresses.ts';
import type { Places } from '../../src/localcluster/shared/state.ts';
import { guestSsh } from '../support/guestssh.ts';
import { cleanUp } from './cleanup.ts';
import { Injector } from './faults/injector.ts';
import { type Observation, observe } from './observation.ts';
import { runProgram } from './program.ts';
import { createRandom, type Random } from './random.ts';
import type { RunLog } from './record/log.ts';
import { readDisks, untilAtRest } from './rest.ts';
import { chaosSettings, type RunSettings } from './settings.ts';
import { type People, setUp } from './setup.ts';
import { type AfterFaults, judge, report, summary, type Verdict } from './verdict.ts';
import { workOnCredentials } from './workload/credentials.ts';
import { Operations } from './workload/tenant.ts';
import { type Ssh, Workload } from './workload/workload.ts';

const sshMs = 25_000;

interface Run extends Observation {
  readonly places: Places;
  readonly log: RunLog;
  readonly random: Random;
  readonly operations: Operations;
  readonly people: People;
  readonly ssh: Ssh;
}

/** Everything on a cluster that is up; nothing where the run was interrupted. */
async function runOn(
  places: Places,
  { seed, durationMs }: RunSettings,
  log: RunLog,
  signal: AbortSignal,
): Promise<Verdict[]> {
  const observation = await observe(places, log);
  const { history, canaries, note } = observation;
  try {
    const random = createRandom(seed);
    const operations = new Operations(history, log);
    const folder = log.folder;
    const people = await setUp({ places, random: random.fork('setup'), operations, canaries, folder });
    const ssh: Ssh = (address, command) => guestSsh(places, address, command, sshMs);
    const run = { ...observation, places, log, random, operations, people, ssh };
    await disturb(run, AbortSignal.any([signal, AbortSignal.timeout(durationMs)]));
    const after = signal.aborted ? undefined : await restAndCleanUp(run, signal);
    await observation.stop();
    if (after === undefined || signal.aborted) return [];
    const verdicts = judge(history, after);
    const text = report(history, verdicts);
    log.file('report.txt', text);
    note(text);
    note(summary(seed, history, verdicts));
    return verdicts;
  } finally {
    await observation.stop();
  }
}

/** Work and faults until the signal is aborted; all faults are undone then. */
async function disturb(run: Run, phase: AbortSignal): Promise<void> {
  const { people, random, machine, history, log, operations, canaries } = run;
  const injector = new Injector({ machine, random: random.fork('faults'), history, log });
  const guestImage = `${registryHost}/svc3/guest:latest`;
  const work = people.tenants.map((tenant) =>
    new Workload({ ...run, tenant, random: random.fork(tenant.namespace), guestImage }).run(phase),
  );
  const namespaces = people.tenants.map(({ namespace }) => namespace);
  const credentials = workOnCredentials(
    { api: people.adminApi, random: random.fork('credentials'), operations, canaries, namespaces },
    phase,
  );
  const faults = injector.run();
  await tellEachMinute(run, phase);
  await injector.stop();
  await Promise.all([...work, credentials, faults]);
}

/** Waits for rest, reads what guests have on their disks, and deletes everything. */
async function restAndCleanUp(run: Run, signal: AbortSignal): Promise<AfterFaults> {
  const { recorder, markers, ssh, history, saved, note, people, machine } = run;
  note('the faults have ended; waiting until everything has come to rest');
  const notAtRest = await untilAtRest(recorder, signal, note);
  await readDisks(recorder, markers, ssh, history);
  await saved.done();
  note('deleting everything');
  const left = await cleanUp({ ...run, ...people, ...machine }, signal);
  return { notAtRest, left, at: Date.now() };
}

async function tellEachMinute({ history, recorder }: Run, signal: AbortSignal): Promise<void> {
  const { operations, faults, gaps, guests } = history;
  for (let minute = 1; !signal.aborted; minute++) {
    await delay(60_000, undefined, { signal }).catch(() => undefined);
    const open = (all: readonly { until?: number }[]): number =>
      all.filter(({ until }) => until === undefined).length;
    const accepted = operations.filter(({ outcome }) => outcome === 'accepted').length;
    const parts = [
      `${recorder.current('vms').length} VMs, ${open(guests)} guests, ${recorder.current('images').length} images`,
      `${operations.length} operations (${accepted} accepted), ${faults.length} faults (${open(faults)} now)`,
      `${gaps.length} gaps`,
    ];
    console.log(`minute ${minute}: ${parts.join('; ')}`);
  }
}

const settings = chaosSettings(process.env);
await runProgram({
  ...settings,
  kind: 'chaos',
  run: async (places, log, signal) =>
    (await runOn(places, settings, log, signal)).every(({ violations }) => violations.length === 0),
});
