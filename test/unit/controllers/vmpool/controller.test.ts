import { beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import type { Node } from '../../../../src/api/core.ts';
import type { Image, ImageStatus } from '../../../../src/api/image.ts';
import type { KubeObject, Resource } from '../../../../src/api/object.ts';
import { images, isos, nodes, pods, secrets, vmConfigs, vmPools } from '../../../../src/api/resources.ts';
import type { VmConfig, VmConfigStatus } from '../../../../src/api/vmconfig.ts';
import type { Controller } from '../../../../src/controller/controller.ts';
import { createVmPoolController } from '../../../../src/controllers/vmpool/controller.ts';
import type { Change } from '../../../../src/kube/types.ts';
import { vmSettings } from '../../../support/operator.ts';
import { storedMeta } from '../../../support/storedmeta.ts';
import { withFakeTimers } from '../../timers.ts';
import { FakeInformers } from '../fakeinformers.ts';
import { anImage, condition, digest } from '../image/builders.ts';
import { aConfig, condition as configCondition } from '../vmconfig/builders.ts';
import { aNode, aPool, aStandby } from './builders.ts';

let informers: FakeInformers;
let controller: Controller;
/** Says that the credentials of a namespace have changed. */
let changeCredentials: (namespace: string) => void;
const resolver = { onCredential: (changed: (namespace: string) => void) => (changeCredentials = changed) };
/** Pools that a pass was made over. */
let woken: Set<string>;

function aController(): Controller {
  const nothing = () => undefined;
  return createVmPoolController(
    {
      client: { delete: async () => undefined },
      informers: informers.asInformers(),
      gate: { isHeld: () => true, assertHeld: nothing },
      metrics: {
        controllers: { workqueue: nothing, queued: nothing, worked: nothing, reconciled: nothing },
      },
      settings: vmSettings(),
    } as unknown as Parameters<typeof createVmPoolController>[0],
    { shared: { resolver } } as unknown as Parameters<typeof createVmPoolController>[1],
  );
}

function run(one: Controller): void {
  const stopping = new AbortController();
  const running = one.run(stopping.signal);
  onTestFinished(async () => {
    stopping.abort();
    await running;
  });
}

beforeEach(() => {
  informers = new FakeInformers();
  controller = aController();
  run(controller);
  woken = new Set();
  const cache = informers.of(vmPools);
  const pool = aPool();
  cache.objects = [pool, { ...pool, metadata: { ...pool.metadata, namespace: 'other' } }];
  // A pass asks for the one that it is about, finds none and has nothing to do.
  cache.get = (name, namespace) => void woken.add(`${namespace}/${name}`);
});

async function wokenBy<T extends KubeObject>(resource: Resource<T>, change: Change<T>): Promise<string[]> {
  informers.of(resource).tell(change);
  await expect.poll(() => controller.pending()).toBe(0);
  return [...woken].toSorted();
}
const updated = <T extends KubeObject>(old: T, object: T): Change<T> => ({ kind: 'updated', old, object });

const working = (progress: number): ImageStatus => ({
  progress,
  conditions: [condition('Ready', 'False', 'Working')],
});
const golden = (status: ImageStatus): Image => anImage({ upload: {} }, status);
const ready = golden({
  digest,
  reference: `store.example.com/team/disk@${digest}`,
  conditions: [condition('Ready', 'True', 'Stored')],
});

test.each([images, isos])(
  'pools are left alone where one of the $plural is further, and looked at where it is ready',
  async (resource) => {
    const disks = resource as typeof images;
    expect(await wokenBy(disks, updated(golden(working(10)), golden(working(11))))).toEqual([]);
    expect(await wokenBy(disks, updated(golden(working(11)), ready))).toEqual(['team/ci']);
  },
);

test('pools are looked at where an Image comes or goes', async () => {
  expect(await wokenBy(images, { kind: 'added', object: ready })).toEqual(['team/ci']);
  woken.clear();
  expect(await wokenBy(images, { kind: 'deleted', object: ready })).toEqual(['team/ci']);
});

test('pools are left alone where the status of a VMConfig changes, and looked at where its spec does', async () => {
  const said: VmConfigStatus = { conditions: [configCondition('Ready', 'True', 'Resolved')] };
  const config = aConfig({ image: 'disk' });
  expect(await wokenBy(vmConfigs, updated(config, { ...config, status: said }))).toEqual([]);
  const changed: VmConfig = { ...config, metadata: { ...config.metadata, generation: 4 } };
  expect(await wokenBy(vmConfigs, updated(config, changed))).toEqual(['team/ci']);
});

const taintedBy = (key: string) => aNode({ taints: [{ key, effect: 'NoSchedule' }] });

test.each<[what: string, is: Node, looked: string[]]>([
  ['are looked at where a node gets a taint', taintedBy('karpenter.sh/disrupted'), ['other/ci', 'team/ci']],
  ['are left alone where that passes by itself', taintedBy('node.kubernetes.io/disk-pressure'), []],
  ['are looked at where a node is cordoned', aNode({ isCordoned: true }), ['other/ci', 'team/ci']],
  ['are left alone where a node says that it is there', aNode(), []],
])('all pools %s', async (_what, is, looked) => {
  withFakeTimers();
  informers.of(nodes).tell(updated(aNode(), is));
  await vi.runAllTimersAsync();
  vi.useRealTimers();
  await expect.poll(() => controller.pending()).toBe(0);
  expect([...woken].toSorted()).toEqual(looked);
});

test('pools are looked at where the pull Secret of their namespace comes or changes, or a login of a registry', async () => {
  const name = 'svc3-registry-credentials';
  const secret = { metadata: storedMeta({ name, namespace: 'team' }) };
  const tell = informers.of(secrets, `metadata.name=${name}`);
  for (const change of [
    () => tell.tell({ kind: 'added', object: secret }),
    () => tell.tell(updated(secret, secret)),
    () => changeCredentials('team'),
  ]) {
    woken.clear();
    change();
    await expect.poll(() => controller.pending()).toBe(0);
    expect([...woken]).toEqual(['team/ci']);
  }
});

test('what is left of a pool that is gone is looked at by who leads later, and nothing else of such pools', async () => {
  const later = aController();
  const { metadata, ...left } = aStandby('1');
  informers.of(pods).objects = [{ ...left, metadata: { ...metadata, ownerReferences: [] } }];
  informers.of(vmPools).objects = [];
  for (const key of ['team/ci', 'team/without-pods']) later.enqueue(key);
  woken.clear();
  run(later);
  await expect.poll(() => later.pending()).toBe(0);
  expect([...woken]).toEqual(['team/ci']);
});
