import { randomInt } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Pod } from '../../../src/api/core.ts';
import { vms } from '../../../src/api/resources.ts';
import type { Vm } from '../../../src/api/vm.ts';
import { isSvc3Error } from '../../../src/errors.ts';
import { createLineSplitter } from '../../../src/kube/lines.ts';
import type { KubeClient } from '../../../src/kube/types.ts';
import { createRandom, type Random } from '../../chaos/random.ts';
import { withFaults, type Fault } from '../../support/faultclient.ts';
import { startVmOperator } from '../../support/operator.ts';
import { type VmNamespace, type VmWorld, vmWorld } from '../vm/harness.ts';

/** `NODESxVMS`; at full size 50x500. */
const size = /^(\d+)x(\d+)$/.exec(process.env['SVC3_STORM'] ?? '20x100') ?? [];
const nodeCount = Number(size[1]);
const vmCount = Number(size[2]);
/** Operators die at other writes in every run; with the seed in the title of a run at the same ones. */
const seed = process.env['SVC3_STORM_SEED'] ?? String(randomInt(2 ** 31));
/** Of the operators on each of two sides; half of all is the least that a run has to see. */
const deaths = 8;
const timeout = 60_000 + vmCount * 1_000;
const eventually = { timeout: timeout - 20_000, interval: 250 };
const resource = 'svc3.dev/gpu-passthrough';

let world: VmWorld;
let space: VmNamespace;

beforeAll(async () => {
  world = await vmWorld();
  space = await world.namespace('storm');
  const names = Array.from({ length: nodeCount }, (_, i) => `gpu-${i}`);
  await Promise.all(
    names.map((name) =>
      world.kubelet.addNode({
        name,
        labels: { [resource]: 'enabled' },
        allocatable: { cpu: '64', memory: '64Gi', [resource]: '1' },
      }),
    ),
  );
}, timeout);

afterAll(async () => {
  await world?.stop();
});

interface Witness {
  /** Nodes with two bundles given away, with the resourceVersion at which it was so. */
  readonly violations: string[];
  readonly used: ReadonlySet<string>;
  /** Events seen; the pods that hold a bundle after the last one. */
  events(): number;
  holders(): number;
  stop(): Promise<void>;
}

/** Follows every event of every pod, in the order of their resourceVersions. */
function witness(client: KubeClient): Witness {
  const violations: string[] = [];
  const used = new Set<string>();
  const nodeOfPod = new Map<string, string>();
  let events = 0;
  let position = '0';
  const stopping = new AbortController();

  function see({ type, object }: { type: string; object: Pod }): void {
    const { uid, resourceVersion } = object.metadata;
    position = resourceVersion;
    if (type === 'BOOKMARK') return;
    events += 1;
    const node = object.spec.nodeName;
    const phase = object.status?.phase;
    const asks = object.spec.containers.some((one) => one.resources?.limits?.[resource] !== undefined);
    const isGone = type === 'DELETED' || phase === 'Failed' || phase === 'Succeeded';
    if (node === undefined || isGone || !asks) {
      nodeOfPod.delete(uid);
      return;
    }
    const others = [...nodeOfPod].filter(([other, at]) => at === node && other !== uid);
    if (others.length > 0) violations.push(`${node} at ${resourceVersion}`);
    nodeOfPod.set(uid, node);
    used.add(node);
  }

  /** One watch; the next one goes on where it was cut, and would fail if events had been lost. */
  async function watch(): Promise<void> {
    const stream = await client.stream({
      method: 'GET',
      path: '/api/v1/pods',
      query: { watch: true, resourceVersion: position, allowWatchBookmarks: true },
      signal: stopping.signal,
    });
    const lines = createLineSplitter((line) => see(JSON.parse(line) as { type: string; object: Pod }));
    try {
      for await (const chunk of stream.body) lines.push(chunk);
    } catch (error) {
      if (!stopping.signal.aborted && !isSvc3Error(error)) throw error;
    }
  }

  const reading = (async () => {
    while (!stopping.signal.aborted) await watch();
  })().catch((error: unknown) => {
    if (!stopping.signal.aborted) violations.push(`events were lost: ${String(error)}`);
  });
  return {
    violations,
    used,
    events: () => events,
    holders: () => nodeOfPod.size,
    async stop() {
      stopping.abort();
      await reading;
    },
  };
}

/** Runs an operator until it dies at its write number `at`, or until there is nothing left to do. */
async function runUntilWrite(
  client: KubeClient,
  { at, fault }: { at: number; fault: Fault },
  isDone: () => Promise<boolean>,
): Promise<'crashed' | 'done'> {
  let seen = 0;
  let hasCrashed = false;
  const faulty = withFaults(client, ({ plural }) => {
    if (plural === 'events') return 'none';
    seen += 1;
    if (seen !== at) return 'none';
    hasCrashed = true;
    queueMicrotask(() => faulty.crash());
    return fault;
  });
  const operator = await startVmOperator(faulty.client, { gpuPassthroughEnabled: true });
  await expect.poll(async () => hasCrashed || (await isDone()), eventually).toBe(true);
  await operator.stop();
  return hasCrashed ? 'crashed' : 'done';
}

/**
 * Operators that die one after the other in the midst of their work, at most so many as there is work for.
 *
 * @returns the number of the write at which each died; there was one before it
 */
async function dyingOperator(
  client: KubeClient,
  random: Random,
  isDone: () => Promise<boolean>,
): Promise<number[]> {
  const died: number[] = [];
  for (let i = 0; i < deaths; i++) {
    // All of them together get about as far as the VMs have a write each, so that there is work for the last one too.
    const at = random.between(2, 2 + Math.floor(vmCount / 10));
    const fault = random.pick(['lostAnswer', 'lostRequest'] as const);
    if ((await runUntilWrite(client, { at, fault }, isDone)) === 'done') break;
    died.push(at);
  }
  return died;
}

const condition = (vm: Vm, type: string) => vm.status?.conditions?.find((one) => one.type === type);
const isRefused = (vm: Vm): boolean =>
  condition(vm, 'Scheduled')?.message.includes(`0/${nodeCount} nodes are available`) === true;

describe('at most one GPU VM per x86 node (spec: Limits)', () => {
  test(
    `SVC3_STORM_SEED=${seed}: holds for ${vmCount} VMs on ${nodeCount} nodes thrown by two operators that crash all the time`,
    async () => {
      const { client } = world;
      const seen = witness(client);
      const names = Array.from({ length: vmCount }, (_, i) => `vm-${i}`);
      const deploying = (async () => {
        for (let i = 0; i < names.length; i += 8) {
          const batch = names.slice(i, i + 8);
          await Promise.all(batch.map((name) => space.deploy(name, { gpuPassthrough: 'Enabled' })));
        }
      })();
      const all = async () => (await client.list(vms, { namespace: space.name })).items;
      const isDone = async () => {
        const known = (await all()).filter(
          (vm) => condition(vm, 'Ready')?.status === 'True' || isRefused(vm),
        );
        return known.length === vmCount;
      };
      const dying = (name: string) => dyingOperator(client, createRandom(`${seed}/${name}`), isDone);
      const [, ...died] = await Promise.all([deploying, dying('one'), dying('two')]);
      expect(died.flat().length, `died at writes ${JSON.stringify(died)}`).toBeGreaterThanOrEqual(deaths);
      const two = await Promise.all([
        startVmOperator(client, { gpuPassthroughEnabled: true }),
        startVmOperator(client, { gpuPassthroughEnabled: true }),
      ]);
      /** As they were read last. */
      let ready: Vm[] = [];
      const countReady = async () => {
        ready = (await all()).filter((vm) => condition(vm, 'Ready')?.status === 'True');
        return ready.length;
      };
      const refused = async () => (await all()).filter(isRefused);
      await expect.poll(countReady, eventually).toBe(nodeCount);
      expect(new Set(ready.map(({ status }) => status?.node)).size).toBe(nodeCount);
      await expect.poll(async () => (await refused()).length, eventually).toBe(vmCount - nodeCount);
      // kube-scheduler says it of the pod that a killed operator pinned to a node that was taken meanwhile; that pod goes.
      const sentences = async () => [
        ...new Set((await refused()).map((vm) => condition(vm, 'Scheduled')?.message)),
      ];
      await expect
        .poll(sentences, eventually)
        .toEqual([`0/${nodeCount} nodes are available: ${nodeCount} GPU passthrough in use.`]);
      await Promise.all(two.map((operator) => operator.stop()));
      await expect.poll(() => [seen.holders(), seen.used.size], eventually).toEqual([nodeCount, nodeCount]);
      await seen.stop();
      expect(seen.violations).toEqual([]);
      expect(seen.events()).toBeGreaterThan(nodeCount * 2);
    },
    timeout,
  );
});
