/**
 * `npm run test:chaos`: a local cluster with three nodes, four tenants who work on it at random, and faults in everything below
 * them; then the faults end, all has to come to rest, all is deleted, and invariants are judged by what was recorded from
 * outside. Ends with 1 where one was violated. docs/chaos.md tells how to read a finding.
 */
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { registryHost } from '../../src/localcluster/addresses.ts';
import type { Places } from '../../src/localcluster/state.ts';
import { guestSsh } from '../support/guestssh.ts';
import { cleanUp } from './cleanup.ts';
import { Injector, keepComponents } from './faults/injector.ts';
import { adminEndpoint } from './https.ts';
import { bringUp } from './localcluster.ts';
import { findComponents } from './machine/components.ts';
import { createRandom } from './random.ts';
import type { Canaries } from './record/canaries.ts';
import { podProcesses } from './record/guests.ts';
import { emptyHistory, type History } from './record/history.ts';
import { createRunLog, type RunLog } from './record/log.ts';
import { keepLogs, leaksInLogs } from './record/logs.ts';
import { startRecorder } from './record/recorder.ts';
import { SavedDisks } from './record/saved.ts';
import { scanGuests, scanStore } from './record/scanning.ts';
import { storeFolder } from './record/store.ts';
import { readDisks, untilAtRest } from './rest.ts';
import { chaosSettings, type ChaosSettings } from './settings.ts';
import { setUp } from './setup.ts';
import { judge, report, type Verdict } from './verdict.ts';
import { workOnCredentials } from './workload/credentials.ts';
import { Markers } from './workload/markers.ts';
import { Operations } from './workload/tenant.ts';
import { Workload } from './workload/workload.ts';

const results = fileURLToPath(new URL('../../chaos-results', import.meta.url));
const sshMs = 25_000;
const say = (line: string): void => console.log(line);

/** Everything on a cluster that is up; resolves with the verdicts. */
async function runOn(
  places: Places,
  settings: ChaosSettings,
  log: RunLog,
  signal: AbortSignal,
): Promise<Verdict[]> {
  const history = emptyHistory();
  const random = createRandom(settings.seed);
  const canaries: Canaries = new Map();
  const kube = await adminEndpoint(places.kubeconfig);
  const store = storeFolder(places.state);
  const before = await store.blobs();
  const pods = await podProcesses(places);
  const components = await findComponents(places);
  const machine = { places, components, pods };
  const note = (text: string): void => {
    say(text);
    log.write('notes', { at: Date.now(), text });
  };

  const recording = new AbortController();
  const recorder = startRecorder({ endpoint: kube, history, log, canaries });
  const scans = [
    scanGuests(pods, history, log, recording.signal),
    scanStore(store, history, log, recording.signal),
    keepLogs(places, join(log.folder, 'logs'), recording.signal),
  ];
  const markers = new Markers();
  const saved = new SavedDisks({ recorder, history, markers, store, log });
  try {
    const operations = new Operations(history, log);
    const people = await setUp({
      places,
      random: random.fork('setup'),
      operations,
      canaries,
      folder: log.folder,
    });
    const ssh = (address: { ip: string; port: number }, command: string): Promise<string> =>
      guestSsh(places, address, command, sshMs);
    const guestImage = `${registryHost}/svc3/guest:latest`;
    const injector = new Injector({ machine, random: random.fork('faults'), history, log });
    const phase = AbortSignal.any([signal, AbortSignal.timeout(settings.chaosMs)]);
    const work = people.tenants.map((tenant) =>
      new Workload({
        tenant,
        random: random.fork(tenant.namespace),
        recorder,
        operations,
        markers,
        ssh,
        guestImage,
      }).run(phase),
    );
    const credentials = workOnCredentials(
      {
        api: people.adminApi,
        random: random.fork('credentials'),
        operations,
        canaries,
        namespaces: people.tenants.map(({ namespace }) => namespace),
      },
      phase,
    );
    const faults = injector.run();
    const keeper = keepComponents(machine, history, note, recording.signal);
    await tellEachMinute(
      history,
      () => recorder.current('vms').length,
      () => recorder.current('images').length,
      phase,
    );
    await injector.stop();
    await Promise.all([...work, credentials, faults]);
    if (signal.aborted) return [];
    note('the faults have ended; waiting until everything has come to rest');
    const unsettled = await untilAtRest(recorder, signal, note);
    if (signal.aborted) return [];
    await readDisks(recorder, markers, ssh, history);
    await saved.done();
    note('deleting everything');
    const left = await cleanUp(
      {
        places,
        tenants: people.tenants,
        adminApi: people.adminApi,
        kube,
        operations,
        recorder,
        components,
        pods,
        store,
        before,
      },
      signal,
    );
    recording.abort();
    await Promise.all([...scans, keeper]);
    history.leaks.push(...(await leaksInLogs(join(log.folder, 'logs'), canaries)));
    const verdicts = judge(history, { unsettled, left, at: Date.now() });
    const text = report(history, verdicts);
    say(text);
    log.file('report.txt', text);
    return verdicts;
  } finally {
    recording.abort();
    await recorder.stop();
  }
}

async function tellEachMinute(
  history: History,
  vms: () => number,
  images: () => number,
  signal: AbortSignal,
): Promise<void> {
  for (let minute = 1; !signal.aborted; minute++) {
    await delay(60_000, undefined, { signal }).catch(() => undefined);
    const guests = history.guests.filter(({ until }) => until === undefined).length;
    const { operations, faults, gaps } = history;
    const accepted = operations.filter(({ outcome }) => outcome === 'accepted').length;
    say(
      `minute ${minute}: ${vms()} VMs, ${guests} guests, ${images()} images; ${operations.length} operations (${accepted} accepted), ${faults.length} faults (${faults.filter(({ until }) => until === undefined).length} now), ${gaps.length} gaps`,
    );
  }
}

async function main(): Promise<number> {
  const settings = chaosSettings(process.env);
  const log = createRunLog(
    join(results, `${new Date().toISOString().replaceAll(':', '-').slice(0, 19)}-${settings.seed}`),
  );
  say(`seed ${settings.seed}, ${settings.chaosMs / 60_000} min; what is recorded goes to ${log.folder}`);
  const interrupted = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM'] as const)
    process.once(name, () => interrupted.abort(new Error(name)));
  const cluster = await bringUp('chaos', settings.cluster, interrupted.signal);
  try {
    const verdicts = await runOn(cluster.places, settings, log, interrupted.signal);
    if (interrupted.signal.aborted) return 130;
    return verdicts.every(({ violations }) => violations.length === 0) ? 0 : 1;
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
