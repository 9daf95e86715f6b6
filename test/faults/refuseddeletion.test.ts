import { beforeAll, expect, test } from 'vitest';
import { clusterRoles, vms } from '../../src/api/resources.ts';
import type { KubeClient } from '../../src/kube/types.ts';
import { deleteVm } from '../../src/usecases/deletion.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../support/cluster.ts';
import { identity } from '../support/identity.ts';

/** A `svc3 vm delete --delete-disk` that was refused had told the VM that its disk goes: the next plain deletion destroyed that. */
let cluster: TestCluster;
let namespace: string;

beforeAll(async () => {
  cluster = await testCluster();
  namespace = await uniqueNamespace(cluster.client, 'refused');
});

/** What a VM with a disk that stays says of it, and whether it is being deleted, after a deletion with the disk that fails. */
async function afterDeletion(name: string, caller: KubeClient, refusal: RegExp) {
  const { client } = cluster;
  const spec = { image: 'registry.example.com/debian:12', disk: { storage: 'Persistent' } } as const;
  await client.create(vms, { metadata: { name, namespace }, spec: { powerState: 'Running', ...spec } });
  const find = () => client.get(vms, name, namespace);
  const wait = () => Promise.reject(new Error('it is not waited for'));
  const options = { wait: false, deleteDisk: true, warn: () => undefined };
  await expect(deleteVm({ caller, find, wait }, { name, namespace }, options)).rejects.toThrow(refusal);
  const { metadata, spec: left } = await find();
  await client.delete(vms, { name, namespace });
  return { disk: left.disk, deletionTimestamp: metadata.deletionTimestamp };
}

test('a deletion with the disk that its caller may not do leaves the disk', async () => {
  const role = `${namespace}-changer`;
  const rules = [{ apiGroups: ['svc3.dev'], resources: ['vms'], verbs: ['patch'] }];
  await cluster.client.create(clusterRoles, { metadata: { name: role }, rules });
  const changer = cluster.client.withToken(await identity(cluster.client, 'changer', { namespace, role }));
  const left = await afterDeletion('forbidden', changer, /cannot delete resource "vms"/);
  expect(left).toEqual({ disk: { storage: 'Persistent' } });
});

test('one that fails after it was tried leaves the disk: a try deletes nothing', async () => {
  const { client } = cluster;
  const told: unknown[] = [];
  const failing: KubeClient = {
    ...client,
    async patch(resource, key, patch, options) {
      const written = await client.patch(resource, key, patch, options);
      told.push(written);
      return written;
    },
    delete: (resource, key, options) =>
      options?.dryRun === true ? client.delete(resource, key, options) : Promise.reject(new Error('cut')),
  };
  expect(await afterDeletion('failed', failing, /^cut$/)).toEqual({ disk: { storage: 'Persistent' } });
  // It was told that its disk goes, and then that it stays.
  expect(told).toMatchObject([
    { spec: { disk: { storage: 'Persistent', whenDeleted: 'Delete' } } },
    { spec: { disk: { storage: 'Persistent' } } },
  ]);
});
