import { beforeAll, expect, test } from 'vitest';
import { vms } from '../../src/api/resources.ts';
import { clusterRoles } from '../support/resources.ts';
import type { Vm } from '../../src/api/vm.ts';
import type { KubeClient } from '../../src/kube/types.ts';
import { deleteVm } from '../../src/usecases/deletion.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../support/cluster.ts';
import { identity } from '../support/identity.ts';
import { effective } from '../unit/controllers/vm/builders.ts';

/** A `svc3 vm delete --delete-disk` that was refused had told the VM that its disk goes: the next plain deletion destroyed that. */
let cluster: TestCluster;
let namespace: string;

beforeAll(async () => {
  cluster = await testCluster();
  namespace = await uniqueNamespace(cluster.client, 'refused');
});

/** What a VM with a disk that stays says of it, and whether it is being deleted, after a deletion with the disk that fails. */
async function afterDeletion(name: string, caller: KubeClient, refusal: RegExp, given: Partial<Vm> = {}) {
  const { client } = cluster;
  const spec = { image: 'registry.example.com/debian:12', disk: { storage: 'Persistent' } } as const;
  await client.create(vms, {
    metadata: { name, namespace },
    spec: { powerState: 'Running', ...spec, ...given.spec },
  });
  if (given.status !== undefined)
    await client.patch(
      vms,
      { name, namespace },
      { type: 'merge', body: { status: given.status } },
      { subresource: 'status' },
    );
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

/** Patches, and tries deletions, but deletes nothing. */
function failing(told: unknown[] = []): KubeClient {
  const { client } = cluster;
  return {
    ...client,
    async patch(resource, key, patch, options) {
      const written = await client.patch(resource, key, patch, options);
      told.push(written);
      return written;
    },
    delete: (resource, key, options) =>
      options?.dryRun === true ? client.delete(resource, key, options) : Promise.reject(new Error('cut')),
  };
}

test('one that fails after it was tried leaves the disk: a try deletes nothing', async () => {
  const told: unknown[] = [];
  expect(await afterDeletion('failed', failing(told), /^cut$/)).toEqual({ disk: { storage: 'Persistent' } });
  // It was told that its disk goes, and then that it stays.
  expect(told).toMatchObject([
    { spec: { disk: { storage: 'Persistent', whenDeleted: 'Delete' } } },
    { spec: { disk: { storage: 'Persistent' } } },
  ]);
});

test('one that fails leaves the disk of a VM with a config, which has to say so once it has been placed', async () => {
  const spec = { config: 'small', powerState: 'Running' } as const;
  const placed = { spec, status: { effective: { ...effective, disk: { storage: 'Persistent' } } } } as const;
  expect(await afterDeletion('placed', failing(), /^cut$/, placed)).toEqual({
    disk: { storage: 'Persistent', whenDeleted: 'Retain' },
  });
});
