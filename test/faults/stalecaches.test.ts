import { afterAll, beforeAll, expect, test } from 'vitest';
import { objectNames } from '../../src/api/meta.ts';
import { images, pods, secrets, vms } from '../../src/api/resources.ts';
import type { KubeClient } from '../../src/kube/types.ts';
import {
  anImage,
  becomesReady,
  imageCluster,
  startImageOperator,
  type ImageCluster,
} from '../integration/image/harness.ts';
import { slow, type VmWorld, vmWorld } from '../integration/vm/harness.ts';
import { holdWatches } from '../support/heldwatches.ts';
import { startVmOperator } from '../support/operator.ts';

/**
 * After kube-apiserver had been away, an operator that had just become leader still had the caches of before: it put the status of an
 * Image that was Ready back to what it had seen last, made its disk a second time, and nobody knew the first one any more.
 */

interface Counting {
  readonly client: KubeClient;
  /** How many statuses of these kinds it was asked to write. */
  statuses(plural: string): number;
  /** How many objects of these kinds it was asked to make. */
  made(plural: string): number;
}

function counting(client: KubeClient): Counting {
  const counts = new Map<string, number>();
  const count = (what: string): void => void counts.set(what, (counts.get(what) ?? 0) + 1);
  return {
    statuses: (plural) => counts.get(`${plural}/status`) ?? 0,
    made: (plural) => counts.get(plural) ?? 0,
    client: {
      ...client,
      create(resource, object, options) {
        count(resource.plural);
        return client.create(resource, object, options);
      },
      apply(resource, object, options) {
        if (options?.subresource === 'status') count(`${resource.plural}/status`);
        return client.apply(resource, object, options);
      },
    },
  };
}

/** Changes the pull Secret, as a rotated credential does: every Image that is not done, by the cache, has a pass. */
async function passOverAll(client: KubeClient, namespace: string): Promise<void> {
  const annotations = { 'example.com/rotated': String(performance.now()) };
  const target = { name: objectNames.pullSecret, namespace };
  await client.patch(secrets, target, { type: 'merge', body: { metadata: { annotations } } });
}

let world: VmWorld;
let cluster: ImageCluster;

beforeAll(async () => {
  [world, cluster] = await Promise.all([vmWorld(), imageCluster()]);
  await world.kubelet.addNode({ name: 'n1' });
});

afterAll(async () => {
  await Promise.all([world?.stop(), cluster?.remove()]);
});

test('the status of a VM is not put back by an operator that has not seen its present one', async () => {
  const space = await world.namespace('stale');
  const watches = holdWatches(world.client);
  const counted = counting(watches.client);
  const operator = await startVmOperator(counted.client);
  try {
    await space.deploy('vm');
    await space.untilReady('vm');
    watches.hold('vms');
    // As the replica that led before.
    const { metadata, status } = await space.vm('vm');
    const { name, namespace, uid } = metadata;
    const newer = { ...status, warnings: ['written by the other replica'] };
    await world.client.apply(vms, { metadata: { name, namespace, uid }, status: newer } as never, {
      subresource: 'status',
    });
    const before = counted.statuses('vms');
    const pod = await space.pod('vm');
    await world.client.delete(pods, { name: pod?.metadata.name ?? '', namespace });
    await expect.poll(() => counted.statuses('vms'), slow).toBeGreaterThan(before);
    await space.untilReplaced('vm', pod);
    expect((await space.vm('vm')).status?.warnings).toEqual(['written by the other replica']);
    watches.release();
    await space.untilReady('vm');
  } finally {
    // One that is held does not end.
    watches.release();
    await operator.stop();
  }
});

test('a VM whose labels change while it starts has its warnings, settings and first status', async () => {
  const space = await world.namespace('labels');
  const { client } = world;
  let isLabelled = false;
  const operator = await startVmOperator({
    ...client,
    async create(resource, object) {
      const created = await client.create(resource, object);
      // As a tool that labels what it finds.
      if (resource.plural === pods.plural && !isLabelled) {
        isLabelled = true;
        const body = { metadata: { labels: { team: 'blue' } } };
        await client.patch(vms, { name: 'vm', namespace: space.name }, { type: 'merge', body });
      }
      return created;
    },
  });
  try {
    await space.deploy('vm', { ports: [{ nodePort: 10022, guestPort: 22 }] });
    await space.untilReady('vm');
    expect(isLabelled).toBe(true);
    expect((await space.vm('vm')).status?.warnings).toEqual([
      'ports: nodePort 10022 is not in the allowed range 20000-29999; the mapping is left out',
    ]);
  } finally {
    await operator.stop();
  }
});

test('the disk of an Image that is Ready is not made again by an operator that has not seen that it is', async () => {
  const namespace = await cluster.namespace();
  const watches = holdWatches(cluster.client);
  const counted = counting(watches.client);
  const operator = startImageOperator(counted.client, cluster.settings);
  try {
    const source = anImage(namespace, 'source', { blank: { size: '1Gi' } });
    await cluster.client.create(images, source);
    const { reference = '' } = await becomesReady(cluster.client, namespace, 'source');
    // What it hears last is what was before the disk was there.
    watches.holdFrom('images', '/pulled@sha256:');
    await cluster.client.create(images, anImage(namespace, 'pulled', { remote: { reference } }));
    const worker = async () => (await cluster.client.list(pods, { namespace })).items[0];
    const stored = await becomesReady(cluster.client, namespace, 'pulled');
    const { resourceVersion } = (await cluster.client.get(images, 'pulled', namespace)).metadata;
    const before = counted.made('pods');
    // The worker of the first time.
    expect(before).toBeGreaterThan(0);
    const conflicts = () => operator.logged().match(/met a newer object/g)?.length ?? 0;
    const met = conflicts();
    // What it has written is expected for a while, whatever the cache shows, and nothing else may call for a pass later.
    await expect
      .poll(async () => {
        await passOverAll(cluster.client, namespace);
        return conflicts();
      }, slow)
      .toBeGreaterThan(met + 1);
    expect(counted.made('pods')).toBe(before);
    const now = await cluster.client.get(images, 'pulled', namespace);
    expect([now.metadata.resourceVersion, now.status]).toEqual([resourceVersion, stored]);
    expect(await worker()).toBeUndefined();
  } finally {
    // One that is held does not end.
    watches.release();
    await operator.stop();
  }
});
