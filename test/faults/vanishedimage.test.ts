import { join } from 'node:path';
import { Client, credentials } from '@grpc/grpc-js';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { finalizer } from '../../src/api/meta.ts';
import { images } from '../../src/api/resources.ts';
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
import type { RegistryClient } from '../../src/registry/client.ts';

/**
 * kube-apiserver decides on a DELETE by what it has read before: a finalizer that is written in between does not hold the object. What lies in the
 * store stayed there. The race cannot be won on request, so the key is taken from etcd, which looks the same to every watch.
 */
let cluster: ImageCluster;
let operator: ImageOperator;
let store: RegistryClient;

beforeAll(async () => {
  cluster = await imageCluster();
  store = cluster.openStore();
  operator = startImageOperator(cluster.client, cluster.settings);
});

afterAll(async () => {
  await operator?.stop();
  await store?.close();
  await cluster?.remove();
});

/** `etcdserverpb.KV/DeleteRange`, on etcd's socket. */
async function takeFromEtcd(namespace: string, name: string): Promise<void> {
  const key = Buffer.from(`/registry/svc3.dev/images/${namespace}/${name}`);
  const [asIs, keyField, deletedOne] = [(bytes: Buffer) => bytes, 0x0a, [0x10, 0x01]];
  const etcd = new Client(
    `unix:${join(cluster.controlPlane.dir, 'etcd.sock')}`,
    credentials.createInsecure(),
  );
  const body = Buffer.from([keyField, key.length, ...key]);
  const answer = await new Promise<Buffer>((resolve, reject) => {
    etcd.makeUnaryRequest('/etcdserverpb.KV/DeleteRange', asIs, asIs, body, (error, reply) =>
      reply === undefined ? reject(error ?? new Error('no reply')) : resolve(reply),
    );
  });
  etcd.close();
  expect([...answer.subarray(-2)]).toEqual(deletedOne);
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
