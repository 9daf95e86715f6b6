import { setTimeout as delay } from 'node:timers/promises';
import { join } from 'node:path';
import { vms } from '../../src/api/resources.ts';
import type { Vm } from '../../src/api/vm.ts';
import type { PowerCommand } from '../../src/wire/powercommands.ts';
import { vmState, type VmState } from '../../src/wire/vm.ts';
import { createClient, type RootClient } from '../../src/kube/client.ts';
import { loadKubeconfig } from '../../src/kube/connection.ts';
import { createInformer } from '../../src/kube/informer.ts';
import { registryHost } from '../../src/localcluster/shared/addresses.ts';
import { fullClusterTools } from '../../src/localcluster/cluster/cluster.ts';
import { createKubectl, type Kubectl } from '../../src/localcluster/shared/kubectl.ts';
import type { Places } from '../../src/localcluster/shared/state.ts';
import { buildTools } from '../../src/localcluster/host/tools.ts';
import { closeApi, namespace, openApi } from './apiclient.ts';
import { bareQemu, qemuOf } from './bareqemu.ts';
import { type Benchmark, median, type Outcome, percentile, size } from './figures.ts';
import { clusterSetting, onLocalCluster } from './localcluster.ts';
import { until } from './until.ts';
import { untilBanner } from './sshbanner.ts';

/** A real VM on a local cluster, its verbs given by HTTP; a stop takes turns with the same guest's end in bare QEMU. */
export const benchmark: Benchmark = {
  about:
    'verbs of a VM, HTTP request → the state in status; a stop beside the guest in bare QEMU (needs root)',
  settings: {
    SVC3_BENCH_SUSPENDS: '25 times suspend and resume',
    SVC3_BENCH_STOPS: '5 times stop and start',
    ...clusterSetting,
  },
  measure: () => onLocalCluster(measureOn),
};

const vmName = 'bench-verbs';
const account = 'bench-verbs';
/** A guest that has greeted is not yet done with booting, and hears no button until it is. */
const bootedMs = 4_000;

interface World {
  /** The api as its clients see it: one connection that stays. */
  exec(command: PowerCommand): Promise<void>;
  /** When the watch of another client showed this state for the first time after `since`. */
  shown(state: VmState, since: number): Promise<number>;
  untilGreeting(): Promise<void>;
}

/** Milliseconds from the request: until the state stood in status, and until the reply was here. */
interface Verb {
  readonly status: number;
  readonly reply: number;
}

type Tally = Record<'suspend' | 'resume' | 'stop' | 'start', Verb[]>;

async function measureOn(places: Places): Promise<Outcome> {
  const tools = await buildTools(fullClusterTools, { cacheDir: places.cache });
  const kubectl = createKubectl(tools, places.kubeconfig, new AbortController().signal);
  const client = createClient(await loadKubeconfig(places.kubeconfig), { userAgent: 'bench' });
  const ending = new AbortController();
  await remove(kubectl);
  try {
    const world = await prepare(places, { kubectl, client, signal: ending.signal });
    const tally: Tally = { suspend: [], resume: [], stop: [], start: [] };
    // Turns below 0 open connections, compile code and fill the page cache; they do not count.
    for (let turn = -2; turn < Math.max(1, size('SVC3_BENCH_SUSPENDS', 25)); turn += 1) {
      const suspended = await measured(world, 'suspend', 'Suspended');
      const resumed = await measured(world, 'resume', 'Running');
      if (turn < 0) continue;
      tally.suspend.push(suspended);
      tally.resume.push(resumed);
    }
    const bare = await bareQemu(qemuOf(vmName));
    const alone: number[] = [];
    for (let turn = -1; turn < Math.max(1, size('SVC3_BENCH_STOPS', 5)); turn += 1) {
      // Another first each time, as far as the guest can wait: it is stopped while the other runs, or after.
      const before = turn % 2 === 0 ? undefined : await bare.shutDown(bootedMs);
      const stopped = await measured(world, 'stop', 'Stopped');
      const ownMs = before ?? (await bare.shutDown(bootedMs));
      const started = await measured(world, 'start', 'Running');
      await world.untilGreeting();
      await delay(bootedMs);
      if (turn < 0) continue;
      alone.push(ownMs);
      tally.stop.push(stopped);
      tally.start.push(started);
    }
    return outcome(tally, alone);
  } finally {
    ending.abort();
    await client.close();
    await remove(kubectl);
  }
}

function outcome(tally: Tally, alone: readonly number[]): Outcome {
  const row = (what: string, values: readonly number[]) => ({
    what,
    'P50 ms': Math.round(median(values)),
    'least ms': Math.round(Math.min(...values)),
    'P95 ms': Math.round(percentile(values, 0.95)),
  });
  const verbs = Object.entries(tally) as [keyof Tally, Verb[]][];
  const status = (verb: keyof Tally) => tally[verb].map((one) => one.status);
  return {
    rows: [
      ...verbs.flatMap(([verb, times]) => [
        row(`${verb}, request → state in status`, status(verb)),
        row(
          `${verb}, request → reply`,
          times.map(({ reply }) => reply),
        ),
      ]),
      row('the guest in bare QEMU, power button → its end', alone),
    ],
    figures: [
      {
        what: 'suspend, request → Suspended in status, ms P50',
        value: median(status('suspend')),
        atMost: 300,
      },
      { what: 'resume, request → Running in status, ms P50', value: median(status('resume')), atMost: 300 },
      {
        what: "stop, request → Stopped in status beyond the guest's own time, ms P50",
        value: median(status('stop')) - median(alone),
        atMost: 500,
      },
    ],
  };
}

async function measured(world: World, command: PowerCommand, to: VmState): Promise<Verb> {
  const began = performance.now();
  const [shown, replied] = await Promise.all([
    world.shown(to, began),
    world.exec(command).then(() => performance.now()),
  ]);
  // What follows a change of state (readiness of the pod, events) is not the next verb's.
  await delay(1_000);
  return { status: shown - began, reply: replied - began };
}

interface Parts {
  readonly kubectl: Kubectl;
  readonly client: RootClient;
  readonly signal: AbortSignal;
}

async function prepare(places: Places, { kubectl, client, signal }: Parts): Promise<World> {
  const states = await watchStates(client, signal);
  const post = await openApi(places, { kubectl, client, account });
  const exec = async (command: PowerCommand) => void (await post(`vms/${vmName}/exec`, { command }));
  await client.create(vms, {
    apiVersion: 'svc3.dev/v1',
    kind: 'VM',
    metadata: { name: vmName, namespace },
    spec: { image: `${registryHost}/svc3/guest:latest`, cpu: 1, memory: '256Mi', powerState: 'Running' },
  });
  await states.shown('Running', 0);
  const { status } = await client.get(vms, vmName, namespace);
  const address = `${status?.ip}:${status?.ports?.ssh}`;
  const untilGreeting = () => untilBanner({ through: join(places.state, 'run/connect.sock'), address });
  await untilGreeting();
  await delay(bootedMs);
  return { exec, shown: states.shown, untilGreeting };
}

async function watchStates(client: RootClient, signal: AbortSignal): Promise<Pick<World, 'shown'>> {
  const seen = { state: 'Pending' as VmState, at: 0 };
  const informer = createInformer<Vm>({ client, resource: vms, namespace });
  informer.onChange(({ kind, object }) => {
    if (kind === 'deleted' || object.metadata.name !== vmName || vmState(object) === seen.state) return;
    Object.assign(seen, { state: vmState(object), at: performance.now() });
  });
  void informer.run(signal);
  await informer.synced();
  return {
    async shown(state, since) {
      await until(`the VM to be ${state}`, () => seen.state === state && seen.at >= since, { stepMs: 5 });
      return seen.at;
    },
  };
}

async function remove(kubectl: Kubectl): Promise<void> {
  const flags = ['-n', namespace, '--ignore-not-found', '--wait', '--timeout=120s'];
  await kubectl('delete', 'vms.svc3.dev', vmName, ...flags);
  await closeApi(kubectl, account);
}
