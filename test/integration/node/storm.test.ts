import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Pod } from '../../../src/api/core.ts';
import { vms } from '../../../src/api/resources.ts';
import type { Vm } from '../../../src/api/vm.ts';
import { isSvc3Error } from '../../../src/errors.ts';
import { createLineSplitter } from '../../../src/kube/lines.ts';
import type { KubeClient } from '../../../src/kube/types.ts';
import { withFaults } from '../../support/faultclient.ts';
import { startVmOperator } from '../../support/operator.ts';
import { type VmNamespace, type VmWorld, vmWorld } from '../vm/harness.ts';

/** `NODESxVMS`; at full size 50x500. */
const size = /^(\d+)x(\d+)$/.exec(process.env['SVC3_STORM'] ?? '20x100') ?? [];
const nodeCount = Number(size[1]);
const vmCount = Number(size[2]);
const timeout = 60_000 + vmCount * 1_000;
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

/** An operator that dies every few hundred milliseconds without finishing anything, and is started again. */
async function dyingOperator(client: KubeClient, deaths: number, seed: number): Promise<void> {
  let random = seed;
  for (let i = 0; i < deaths; i++) {
    random = (random * 1_103_515_245 + 12_345) % 2_147_483_648;
    const faulty = withFaults(client, () => 'none');
    const operator = await startVmOperator(faulty.client, { gpuPassthroughEnabled: true });
    await delay(100 + (random % 400));
    faulty.crash();
    await operator.stop();
  }
}

const condition = (vm: Vm, type: string) => vm.status?.conditions?.find((one) => one.type === type);

describe('at most one GPU VM per x86 node (spec: Limits)', () => {
  test(
    `holds for ${vmCount} VMs on ${nodeCount} nodes thrown by two operators that crash all the time`,
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
      await Promise.all([deploying, dyingOperator(client, 8, 1), dyingOperator(client, 8, 2)]);
      const two = await Promise.all([
        startVmOperator(client, { gpuPassthroughEnabled: true }),
        startVmOperator(client, { gpuPassthroughEnabled: true }),
      ]);
      const all = async () => (await client.list(vms, { namespace: space.name })).items;
      /** As they were read last. */
      let ready: Vm[] = [];
      const countReady = async () => {
        ready = (await all()).filter((vm) => condition(vm, 'Ready')?.status === 'True');
        return ready.length;
      };
      const refused = async () =>
        (await all()).filter((vm) =>
          condition(vm, 'Scheduled')?.message.includes(`0/${nodeCount} nodes are available`),
        );
      const eventually = { timeout: timeout - 20_000, interval: 250 };
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
