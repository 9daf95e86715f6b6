import { afterAll, beforeAll, expect, test } from 'vitest';
import { finalizer } from '../../src/api/meta.ts';
import { images } from '../../src/api/resources.ts';
import { messageOf } from '../../src/errors.ts';
import {
  anImage,
  becomesReady,
  diskOf,
  imageCluster,
  soon,
  startImageOperator,
  type ImageCluster,
  type ImageOperator,
} from '../integration/image/harness.ts';
import { type OwnControlPlane, ownControlPlane } from '../support/controlplane.ts';
import { etcdOf } from '../support/etcd.ts';
import type { RegistryClient } from '../../src/registry/client.ts';

/**
 * kube-apiserver decides on a DELETE by what it has read before: a finalizer that is written in between does not hold the object. What lies in the
 * store stayed there. The race cannot be won on request, so the key is taken from etcd, which looks the same to every watch.
 *
 * What a new list is without says nothing: an etcd that was restored from a backup lacks the Images made since, whose disks would be deleted. It has those
 * deleted since, whose names others may have had.
 */
let own: OwnControlPlane;
let cluster: ImageCluster;
let operator: ImageOperator;
let store: RegistryClient;

beforeAll(async () => {
  own = await ownControlPlane();
  cluster = await imageCluster({ auth: 'basic' }, own);
  store = cluster.openStore();
  operator = startImageOperator(cluster.client, cluster.settings);
});

afterAll(async () => {
  await operator?.stop();
  await store?.close();
  await cluster?.remove();
});

async function takeFromEtcd(namespace: string, name: string): Promise<void> {
  const etcd = etcdOf(own);
  expect(await etcd.delete(`/registry/svc3.dev/images/${namespace}/${name}`)).toBe(true);
  etcd.close();
}

async function readyImage(namespace: string, size: string) {
  await cluster.client.create(images, anImage(namespace, 'blank', { blank: { size } }));
  return becomesReady(cluster.client, namespace, 'blank');
}

const digestIn = (namespace: string, digest = '') => store.digestOf(`svc3/${namespace}/blank`, digest);

test('what an Image had in the store goes with it, although its finalizer did not hold it', async () => {
  const namespace = await cluster.namespace();
  const { digest } = await readyImage(namespace, '1G');
  const { metadata } = await cluster.client.get(images, 'blank', namespace);
  expect(metadata.finalizers).toEqual([finalizer]);
  expect(await digestIn(namespace, digest)).toBe(digest);
  await takeFromEtcd(namespace, 'blank');
  await expect.poll(() => digestIn(namespace, digest), soon).toBeUndefined();
});

test('the next Image of its name keeps its disk', async () => {
  const namespace = await cluster.namespace();
  const before = await readyImage(namespace, '1G');
  await takeFromEtcd(namespace, 'blank');
  const after = await readyImage(namespace, '2G');
  expect(after.digest).not.toBe(before.digest);
  expect(await diskOf(store, after.reference ?? '')).not.toHaveLength(0);
  await cluster.client.delete(images, { name: 'blank', namespace });
  await expect.poll(() => digestIn(namespace, after.digest), soon).toBeUndefined();
});

test('an Image that a restored etcd has brought back leaves what was stored under its name since', async () => {
  const namespace = await cluster.namespace();
  const { digest, reference = '' } = await readyImage(namespace, '1G');
  const purged = `sha256:${'a'.repeat(64)}`;
  const key = { name: 'blank', namespace };
  // As it was before it was deleted, and another was made under its name.
  const status = { digest: purged, reference: reference.replace(digest ?? '', purged) };
  await cluster.client.patch(images, key, { type: 'merge', body: { status } }, { subresource: 'status' });
  await cluster.client.delete(images, key);
  const left = () => cluster.client.get(images, 'blank', namespace).catch(messageOf);
  await expect.poll(left, soon).toContain('not found');
  expect(await digestIn(namespace, digest)).toBe(digest);
  expect(await digestIn(namespace, 'latest')).toBe(digest);
  expect(operator.logged()).toContain('KeptInStore');
});

test('an Image that a new list is without leaves its disk in the store', async () => {
  const namespace = await cluster.namespace();
  const { digest } = await readyImage(namespace, '1G');
  await own.stopApiServer();
  await takeFromEtcd(namespace, 'blank');
  await own.startApiServer();
  // Seen, made and deleted by an operator that has listed anew.
  const later = await cluster.namespace();
  const other = await readyImage(later, '1G');
  await cluster.client.delete(images, { name: 'blank', namespace: later });
  await expect.poll(() => digestIn(later, other.digest), soon).toBeUndefined();
  expect(operator.logged()).toContain('list or watch failed');
  expect(await digestIn(namespace, digest)).toBe(digest);
});
