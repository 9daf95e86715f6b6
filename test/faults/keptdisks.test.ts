import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { PersistentVolumeClaim } from '../../src/api/core.ts';
import { finalizer } from '../../src/api/meta.ts';
import { configMaps, images, persistentVolumeClaims, vms } from '../../src/api/resources.ts';
import { storageClasses } from '../support/resources.ts';
import type { VmSpecInput } from '../../src/api/vm.ts';
import { isSvc3Error } from '../../src/errors.ts';
import { slow, type VmNamespace, type VmWorld, vmWorld } from '../integration/vm/harness.ts';
import { bindClaim } from '../support/claims.ts';
import { startVmOperator, type TestOperator } from '../support/operator.ts';
import { RunnerStandIn } from '../support/runnerstandin.ts';

/** A Persistent disk went with its VM, whatever deleted it, and nothing could boot from it again. */

let world: VmWorld;
let operator: TestOperator;
/** Of every VM with a volume. */
const runner = new RunnerStandIn(() => world.kubelet);

beforeAll(async () => {
  world = await vmWorld();
  await world.kubelet.addNode({ name: 'n1' });
  // kube-scheduler waits for a volume of this class as long as the pod is there.
  await world.client.create(storageClasses, {
    metadata: { name: 'waiting' },
    provisioner: 'example.com/none',
    volumeBindingMode: 'WaitForFirstConsumer',
  });
  operator = await startVmOperator(world.client, { storageClassName: 'waiting' }, runner.parts);
});

afterAll(async () => {
  await operator?.stop();
  await world?.stop();
});

const own = 'svc3-vm-vm';
const persistent = (disk: VmSpecInput['disk'] = {}): VmSpecInput => ({
  disk: { storage: 'Persistent', size: '1Gi', ...disk },
});

function claim({ name: namespace }: VmNamespace, name = own): Promise<PersistentVolumeClaim | undefined> {
  return world.client.get(persistentVolumeClaims, name, namespace).catch((error: unknown) => {
    if (isSvc3Error(error, 'NotFound')) return undefined;
    throw error;
  });
}

const make = (
  { name: namespace }: VmNamespace,
  name: string,
  labels: Record<string, string>,
  more: object = {},
) =>
  world.client.create(persistentVolumeClaims, {
    metadata: { name, namespace, labels, ...more },
    spec: {
      accessModes: ['ReadWriteOnce'],
      storageClassName: 'waiting',
      resources: { requests: { storage: '2Gi' } },
    },
  });

/** The VM has its pod, which never starts: nobody provisions volumes here. With a guest: test/life/keptdisk.test.ts. */
async function deployed(space: VmNamespace, name: string, spec: VmSpecInput): Promise<string> {
  const { metadata } = await space.deploy(name, spec);
  await expect.poll(async () => (await space.pod(name))?.metadata.uid, slow).toBeDefined();
  return metadata.uid;
}

/** Deleted by its start deadline, which is brought forward to its first second. */
async function expire(space: VmNamespace, name: string): Promise<void> {
  const body = { spec: { startDeadlineSeconds: 1 } };
  await world.client.patch(vms, { name, namespace: space.name }, { type: 'merge', body });
  await space.untilGone(name);
}

const mounted = async (space: VmNamespace, name: string) =>
  (await space.pod(name))?.spec.volumes?.find((volume) => volume.name === 'state')?.persistentVolumeClaim
    ?.claimName;

const stalled = (space: VmNamespace, name: string, reason: string, message: string) =>
  space.until(name, 'Stalled', { status: 'True', reason, message: expect.stringContaining(message) });

describe('a VM that is deleted', () => {
  test('leaves its Persistent disk, which nobody owns', async () => {
    const space = await world.namespace('retained');
    const uid = await deployed(space, 'vm', persistent());
    expect((await claim(space))?.metadata).toMatchObject({
      annotations: { 'svc3.dev/vm-uid': uid },
      labels: { 'svc3.dev/vm': 'vm', 'svc3.dev/disk': 'true' },
    });
    expect((await claim(space))?.metadata.ownerReferences).toBeUndefined();
    await space.remove('vm');
    expect((await claim(space))?.metadata.deletionTimestamp).toBeUndefined();
    await expect.poll(() => space.events('vm'), slow).toContain('DiskKept');
  });

  test('takes its disk along where whenDeleted is Delete, also where that is said at last', async () => {
    const space = await world.namespace('dropped');
    await deployed(space, 'vm', persistent({ whenDeleted: 'Delete' }));
    await space.remove('vm');
    await expect.poll(() => claim(space), slow).toBeUndefined();

    await deployed(space, 'late', persistent());
    // Events of a namespace are written in order.
    await expect.poll(() => space.events('late'), slow).toContain('Scheduled');
    expect(await space.events('vm')).not.toContain('DiskKept');
    const body = { spec: { disk: { whenDeleted: 'Delete' } } };
    await world.client.patch(vms, { name: 'late', namespace: space.name }, { type: 'merge', body });
    await space.remove('late');
    await expect.poll(() => claim(space, 'svc3-vm-late'), slow).toBeUndefined();
  });

  test('leaves its disk where whenDeleted was taken out again', async () => {
    const space = await world.namespace('takenout');
    await deployed(space, 'vm', persistent({ whenDeleted: 'Delete' }));
    const frozen = async () => (await space.vm('vm')).status?.effective?.disk?.whenDeleted;
    await expect.poll(frozen, slow).toBe('Delete');
    const body = { spec: { disk: { whenDeleted: null } } };
    await world.client.patch(vms, { name: 'vm', namespace: space.name }, { type: 'merge', body });
    await space.remove('vm');
    expect((await claim(space))?.metadata).not.toHaveProperty('deletionTimestamp');
    await expect.poll(() => space.events('vm'), slow).toContain('DiskKept');
  });

  test('by its start deadline takes the disk along that was made for it, and leaves one that it named', async () => {
    const space = await world.namespace('expired');
    await deployed(space, 'vm', persistent());
    await expire(space, 'vm');
    await expect.poll(() => claim(space), slow).toBeUndefined();

    await deployed(space, 'first', persistent());
    await space.remove('first');
    await deployed(space, 'second', persistent({ claimName: 'svc3-vm-first' }));
    await expire(space, 'second');
    expect((await claim(space, 'svc3-vm-first'))?.metadata.deletionTimestamp).toBeUndefined();
  });
});

describe('a VM that somebody has replaced by a manifest without our finalizer', () => {
  test('has it back also while it is suspended on its disk, which goes where it is to go', async () => {
    const space = await world.namespace('replaced');
    const patched = (body: object) =>
      world.client.patch(vms, { name: 'vm', namespace: space.name }, { type: 'merge', body });
    runner.become({ powerState: 'Running' });
    await make(space, 'data', { 'svc3.dev/disk': 'true' });
    await bindClaim(world.client, space.name, 'data');
    const disk = persistent({ claimName: 'data', whenDeleted: 'Delete' });
    await space.deploy('vm', { ...disk, suspendTo: 'Disk' });
    await space.untilReady('vm');
    await patched({ spec: { powerState: 'Suspended' } });
    await expect.poll(async () => (await space.vm('vm')).status?.suspendedTo, slow).toBe('Disk');
    await expect.poll(() => space.pod('vm'), slow).toBeUndefined();
    await patched({ metadata: { finalizers: null } });
    await expect.poll(async () => (await space.vm('vm')).metadata.finalizers, slow).toEqual([finalizer]);
    await space.remove('vm');
    await expect.poll(() => claim(space, 'data'), slow).toBeUndefined();
  });
});

describe('the disk of a VM that was deleted', () => {
  /** Others write to a claim as well. */
  const ofSvc3 = ({ metadata }: Partial<PersistentVolumeClaim> = {}) => ({
    uid: metadata?.uid,
    labels: metadata?.labels,
    annotations: Object.entries(metadata?.annotations ?? {}).filter(([key]) => key.startsWith('svc3.dev/')),
  });

  test('does not become that of a VM of the same name, which says what to do', async () => {
    const space = await world.namespace('samename');
    await deployed(space, 'vm', persistent());
    await space.remove('vm');
    const before = ofSvc3(await claim(space));
    await space.deploy('vm', persistent());
    const message = 'deploy the VM with disk.claimName svc3-vm-vm to go on with that disk';
    await stalled(space, 'vm', 'ClaimConflict', message);
    expect(ofSvc3(await claim(space))).toEqual(before);
    await world.client.delete(persistentVolumeClaims, { name: own, namespace: space.name });
    // Its end wakes the VM, long before it would look again.
    await expect.poll(() => mounted(space, 'vm'), slow).toBe(own);
  });

  test('becomes that of the VM that names it, and of one alone', async () => {
    const space = await world.namespace('named');
    await deployed(space, 'vm', persistent());
    await stillTaken(space);
    await space.remove('vm');
    const uid = (await claim(space))?.metadata.uid;
    const next = await deployed(space, 'next', persistent({ claimName: own }));
    expect(await mounted(space, 'next')).toBe(own);
    expect((await claim(space))?.metadata).toMatchObject({
      uid,
      annotations: { 'svc3.dev/vm-uid': next },
      labels: { 'svc3.dev/vm': 'next' },
    });
    expect(await claim(space, 'svc3-vm-next')).toBeUndefined();
    await space.deploy('late', persistent({ claimName: own }));
    await stalled(space, 'late', 'ClaimConflict', `claim ${own} is the disk of VM next`);
    expect(await space.pod('late')).toBeUndefined();
  });

  test('is not taken to another version of its image, which there is by now', async () => {
    const space = await world.namespace('versions');
    const key = { name: 'debian', namespace: space.name };
    await world.client.create(images, { metadata: key, spec: { source: { upload: {} } } });
    const version = async (letter: string) => {
      const reference = `registry.example.com/${space.name}/debian@sha256:${letter.repeat(64)}`;
      const ready = { type: 'Ready', status: 'True', reason: 'Stored', message: '' };
      const conditions = [{ ...ready, lastTransitionTime: '2026-11-01T10:00:00Z' }];
      const status = { reference, architecture: 'amd64', conditions };
      await world.client.patch(images, key, { type: 'merge', body: { status } }, { subresource: 'status' });
      return reference;
    };
    const first = await version('a');
    await deployed(space, 'vm', { ...persistent(), image: 'debian' });
    await space.remove('vm');
    const second = await version('b');
    await deployed(space, 'new', { ...persistent(), image: 'debian' });
    await deployed(space, 'next', { ...persistent({ claimName: own }), image: 'debian' });
    const runs = async (name: string) => (await space.vm(name)).status?.effective?.image;
    await expect.poll(() => runs('new'), slow).toBe(second);
    await expect.poll(() => runs('next'), slow).toBe(first);
    expect((await space.vm('next')).status?.warnings).toEqual([
      `image debian has another version by now than the disk of claim ${own} was made on: the VM has that one, ${first}`,
    ]);
    expect((await claim(space))?.metadata.annotations).toMatchObject({ 'svc3.dev/disk-image': first });
  });

  async function stillTaken(space: VmNamespace): Promise<void> {
    await space.deploy('early', persistent({ claimName: own }));
    await stalled(space, 'early', 'ClaimConflict', `claim ${own} is the disk of VM vm`);
    await space.remove('early');
    expect((await claim(space))?.metadata.labels).toMatchObject({ 'svc3.dev/vm': 'vm' });
  }
});

describe('a VM that is made again from what was saved of it', () => {
  const asked = (space: VmNamespace, revertRequest: string) =>
    world.client.patch(
      vms,
      { name: 'db', namespace: space.name },
      { type: 'merge', body: { spec: { revertRequest } } },
    );

  test('does not revert the disk that it names once more, and does so when that is asked for', async () => {
    const space = await world.namespace('rescued');
    runner.forget();
    runner.become({ powerState: 'Running' });
    await make(space, 'db-old', { 'svc3.dev/disk': 'true' });
    await bindClaim(world.client, space.name, 'db-old');
    await space.deploy('db', { ...persistent({ claimName: 'db-old' }), revertRequest: 'by mistake' });
    await space.untilReady('db');
    expect(runner.verbs).toEqual([]);
    expect((await space.vm('db')).status?.revertRequest).toBe('by mistake');
    await asked(space, 'now');
    await expect.poll(async () => (await space.vm('db')).status?.revertRequest, slow).toBe('now');
    expect(runner.verbs).toEqual(['revert']);
  });
});

describe('a claim that a VM names', () => {
  test('is taken where its label says that it may, and waited for where it is not there', async () => {
    const space = await world.namespace('claims');
    await space.deploy('vm', persistent({ claimName: 'data' }));
    await stalled(space, 'vm', 'ClaimNotFound', 'claim data does not exist');
    await make(space, 'data', { 'svc3.dev/disk': 'true' });
    await expect.poll(() => mounted(space, 'vm'), slow).toBe('data');
    await expect.poll(() => space.condition('vm', 'Stalled'), slow).toEqual({});
  });

  test('is never one that nobody gave for it, or that something else controls', async () => {
    const space = await world.namespace('others');
    const before = await make(space, 'plain', {});
    await space.deploy('vm', persistent({ claimName: 'plain' }));
    await stalled(space, 'vm', 'ClaimConflict', 'has no label svc3.dev/disk=true');
    const { metadata: db } = await world.client.create(configMaps, {
      metadata: { name: 'db', namespace: space.name },
    });
    const owner = { apiVersion: 'v1', kind: 'ConfigMap', name: 'db', uid: db.uid, controller: true };
    await make(space, 'of-db', { 'svc3.dev/disk': 'true' }, { ownerReferences: [owner] });
    await space.deploy('other', persistent({ claimName: 'of-db' }));
    await stalled(space, 'other', 'ClaimConflict', 'belongs to ConfigMap db');
    expect((await claim(space, 'plain'))?.metadata.resourceVersion).toBe(before.metadata.resourceVersion);
  });

  test.each<[field: string, disk: VmSpecInput['disk'], message: string]>([
    ['without storage Persistent', { claimName: 'c' }, 'claimName needs storage Persistent'],
    [
      'beside a StorageClass',
      { claimName: 'c', storage: 'Persistent', storageClassName: 's' },
      'excludes storageClassName',
    ],
    [
      'on an Ephemeral disk',
      { storage: 'Ephemeral', whenDeleted: 'Delete' },
      'whenDeleted needs storage Persistent',
    ],
  ])('is refused %s', async (_title, disk, message) => {
    const space = { name: 'default' };
    const vm = { metadata: { name: 'refused', namespace: space.name }, spec: { image: 'debian', disk } };
    await expect(world.client.create(vms, vm as never)).rejects.toThrow(message);
  });

  test('cannot be changed afterwards', async () => {
    const space = await world.namespace('fixed');
    await space.deploy('vm', persistent({ claimName: 'data' }));
    const body = { spec: { disk: { claimName: 'other' } } };
    const key = { name: 'vm', namespace: space.name };
    await expect(world.client.patch(vms, key, { type: 'merge', body })).rejects.toThrow('cannot change');
  });
});
