import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { images, persistentVolumeClaims, vmConfigs, vmPools, vms } from '../../../src/api/resources.ts';
import type { Submitted } from '../../../src/api/object.ts';
import type { Vm } from '../../../src/api/vm.ts';
import type { VmPool } from '../../../src/api/vmpool.ts';
import { createExpectations } from '../../../src/controller/expectations.ts';
import { applyStatus } from '../../../src/controller/status.ts';
import type { Disk } from '../../../src/controllers/image/caches.ts';
import { ImageReconciler } from '../../../src/controllers/image/reconciler.ts';
import { createNamespaceRegistries } from '../../../src/controllers/image/registries.ts';
import { StartWaits } from '../../../src/controllers/startwaits.ts';
import { WorkBackoff } from '../../../src/controllers/image/workbackoff.ts';
import { createLiveUsers } from '../../../src/controllers/image/users.ts';
import { VanishedDisks } from '../../../src/controllers/image/vanished.ts';
import type { RegistryClient } from '../../../src/registry/client.ts';
import {
  anImage,
  becomesReady,
  diskOf,
  imageCluster,
  readyOf,
  soon,
  startImageOperator,
  type ImageCluster,
} from './harness.ts';

let cluster: ImageCluster;
let store: RegistryClient;

beforeAll(async () => {
  cluster = await imageCluster();
  store = cluster.openStore();
});

afterAll(async () => {
  await store?.close();
  await cluster?.remove();
});

function start(): void {
  const operator = startImageOperator(cluster.client, cluster.settings);
  onTestFinished(() => operator.stop());
}

const blank = (namespace: string, size: string) => anImage(namespace, 'disk', { blank: { size } });

/** An operator whose cache still shows the object as it was. */
function lagging(shown: Disk): ImageReconciler {
  const { client, settings } = cluster;
  const none = { list: () => [], byIndex: () => [], get: () => undefined };
  const caches = {
    disks: { ...none, get: () => shown },
    vms: none,
    vmConfigs: none,
    vmPools: none,
    claims: none,
    nodes: none,
    pods: none,
    podsOf: () => [],
  } as never;
  return new ImageReconciler({
    kind: 'Image',
    client,
    settings,
    recorder: { event: () => undefined },
    log: pino({ level: 'silent' }),
    caches,
    expected: createExpectations<Disk>(),
    backoff: new WorkBackoff(),
    startWaits: new StartWaits(() => 0),
    vanished: new VanishedDisks(),
    liveUsers: createLiveUsers(client, 'Image', caches),
    openRunner: undefined,
    registries: createNamespaceRegistries(client, settings.store),
    monotonic: () => performance.now(),
    now: () => new Date(),
  });
}

describe('the name of an Image', () => {
  test('cannot be used again until its disk is gone from the store, and then holds the new disk only', async () => {
    const { client, registry } = cluster;
    const namespace = await cluster.namespace();
    const key = { name: 'disk', namespace };
    start();
    await client.create(images, blank(namespace, '1Gi'));
    const before = await becomesReady(client, namespace, 'disk');
    await registry.kill();
    await client.delete(images, key);
    await expect.poll(() => readyOf(client, namespace, 'disk'), soon).toContain('RegistryUnreachable');
    await expect(client.create(images, blank(namespace, '2Gi'))).rejects.toMatchObject({
      reason: 'AlreadyExists',
      message: expect.stringContaining('is being deleted'),
    });
    await registry.restart();
    await expect.poll(() => readyOf(client, namespace, 'disk'), soon).toBe('gone');
    await client.create(images, blank(namespace, '2Gi'));
    const after = await becomesReady(client, namespace, 'disk');
    expect(after).toMatchObject({ size: '2Gi' });
    const repository = `svc3/${namespace}/disk`;
    expect(await store.digestOf(repository, before.digest ?? '')).toBeUndefined();
    expect(await store.digestOf(repository, 'latest')).toBe(after.digest);
  });

  test('that is used again keeps its disk, though an operator that lags behind still deletes the one before', async () => {
    const { client } = cluster;
    const namespace = await cluster.namespace();
    const key = { name: 'disk', namespace };
    start();
    await client.create(images, blank(namespace, '1Gi'));
    await becomesReady(client, namespace, 'disk');
    const old = await client.get(images, 'disk', namespace);
    await client.delete(images, key);
    await expect.poll(() => readyOf(client, namespace, 'disk'), soon).toBe('gone');
    await client.create(images, blank(namespace, '2Gi'));
    const status = await becomesReady(client, namespace, 'disk');
    const deletionTimestamp = '2026-01-01T00:00:00Z';
    const shown = { ...old, metadata: { ...old.metadata, deletionTimestamp } };
    await lagging(shown).reconcile(`${namespace}/disk`, AbortSignal.timeout(30_000));
    expect((await diskOf(store, status.reference ?? '')).length).toBeGreaterThan(0);
    expect(await store.digestOf(`svc3/${namespace}/disk`, 'latest')).toBe(status.digest);
  });

  test.each<[string, (namespace: string) => Promise<unknown>, string]>([
    [
      'a VM',
      (namespace) =>
        cluster.client.create(vms, { metadata: { name: 'late', namespace }, spec: { image: 'disk' } } as Vm),
      'VM late',
    ],
    [
      'a pool whose VMConfig names it',
      async (namespace) => {
        const { client } = cluster;
        await client.create(vmConfigs, { metadata: { name: 'ci', namespace }, spec: { image: 'disk' } });
        await client.create(vmPools, {
          metadata: { name: 'late', namespace },
          spec: { minIdle: 1, template: { config: 'ci' } },
        } as unknown as Submitted<VmPool>);
      },
      'VMPool late',
    ],
    [
      'a pool whose guests were made from it before',
      async (namespace) => {
        const { client } = cluster;
        const { status } = await client.get(images, 'disk', namespace);
        const pool = await client.create(vmPools, {
          metadata: { name: 'late', namespace },
          spec: { minIdle: 1, template: { image: 'another' } },
        } as unknown as Submitted<VmPool>);
        await applyStatus(client, vmPools, pool, { images: [status?.reference ?? ''] });
      },
      'VMPool late',
    ],
    [
      'a copy',
      (namespace) => cluster.client.create(images, anImage(namespace, 'late', { image: { name: 'disk' } })),
      'Image late',
    ],
    [
      'the claim of a VM that is gone',
      async (namespace) => {
        const { client } = cluster;
        const { status } = await client.get(images, 'disk', namespace);
        await client.create(persistentVolumeClaims, {
          metadata: {
            name: 'late',
            namespace,
            labels: { 'svc3.dev/disk': 'true' },
            annotations: { 'svc3.dev/disk-image': status?.reference ?? '' },
          },
          spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
        });
      },
      'claim late',
    ],
  ])('stays with its disk for %s that an operator which lags behind does not know', async (_, use, user) => {
    const { client } = cluster;
    const namespace = await cluster.namespace();
    const key = { name: 'disk', namespace };
    const operator = startImageOperator(client, cluster.settings);
    onTestFinished(() => operator.stop());
    await client.create(images, blank(namespace, '1Gi'));
    const status = await becomesReady(client, namespace, 'disk');
    await operator.stop();
    await use(namespace);
    await client.delete(images, key);
    const shown = await client.get(images, 'disk', namespace);
    await lagging(shown).reconcile(`${namespace}/disk`, AbortSignal.timeout(30_000));
    expect(await readyOf(client, namespace, 'disk')).toBe(`InUse: in use by ${user}`);
    expect(await store.digestOf(`svc3/${namespace}/disk`, 'latest')).toBe(status.digest);
  });
});
