import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { PersistentVolumeClaim } from '../../src/api/core.ts';
import { persistentVolumeClaims, vms } from '../../src/api/resources.ts';
import { slow, type VmNamespace, type VmWorld, vmWorld } from '../integration/vm/harness.ts';
import { startVmOperator, type TestOperator } from '../support/operator.ts';

/** A claim `svc3-vm-x` that is not the VM's became its disk; the disk of a deleted namesake booted. */

let world: VmWorld;
let operator: TestOperator;

beforeAll(async () => {
  world = await vmWorld();
  await world.kubelet.addNode({ name: 'n1' });
  operator = await startVmOperator(world.client);
});

afterAll(async () => {
  await operator?.stop();
  await world?.stop();
});

const persistent = { disk: { storage: 'Persistent', size: '1Gi' } } as const;
const ours = { 'svc3.dev/disk': 'true' };

/** A claim under the name that VM `vm` uses, as somebody else would have made it. */
function makeClaim(
  { name: namespace }: VmNamespace,
  labels: Record<string, string> = {},
): Promise<PersistentVolumeClaim> {
  return world.client.create(persistentVolumeClaims, {
    metadata: { name: 'svc3-vm-vm', namespace, labels },
    spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
  });
}

const claimOf = ({ name }: VmNamespace) => world.client.get(persistentVolumeClaims, 'svc3-vm-vm', name);

/** Finalizers of the claim: with one of its own it stays until that is taken away. */
async function setFinalizers({ name: namespace }: VmNamespace, finalizers: string[]): Promise<void> {
  const body = { metadata: { finalizers } };
  const key = { name: 'svc3-vm-vm', namespace };
  await world.client.patch(persistentVolumeClaims, key, { type: 'merge', body });
}

const hold = (space: VmNamespace) => setFinalizers(space, ['example.com/held']);
const letGo = (space: VmNamespace) => setFinalizers(space, []);

async function removeClaim(space: VmNamespace): Promise<void> {
  const { uid } = (await claimOf(space)).metadata;
  await world.client.delete(persistentVolumeClaims, { name: 'svc3-vm-vm', namespace: space.name });
  const uidNow = () =>
    claimOf(space).then(
      ({ metadata }) => metadata.uid,
      () => undefined,
    );
  await expect.poll(uidNow, slow).not.toBe(uid);
}

/** The VM had a pod, on a claim of its own. Nobody provisions volumes here, so kube-scheduler turns the pod away. */
async function untilOnOwnClaim(space: VmNamespace): Promise<void> {
  const message = expect.stringContaining('unbound immediate PersistentVolumeClaims');
  await space.until('vm', 'Scheduled', { status: 'False', reason: 'Unschedulable', message });
  const { metadata } = await claimOf(space);
  expect(metadata.annotations?.['svc3.dev/vm-uid']).toBe((await space.vm('vm')).metadata.uid);
  expect(metadata.deletionTimestamp).toBeUndefined();
}

describe('a claim of the name that a VM uses for its disk', () => {
  test('is never mounted where nobody made it for the VM: the VM is stalled and says whose move it is', async () => {
    const space = await world.namespace('foreign');
    const before = await makeClaim(space);
    await space.deploy('vm', persistent);
    await space.until('vm', 'Stalled', { status: 'True', reason: 'ClaimConflict' });
    expect((await space.condition('vm', 'Stalled')).message).toBe(
      'claim svc3-vm-vm exists and does not belong to this VM; delete it, or give the VM another name',
    );
    expect(await space.condition('vm', 'Reconciling')).toEqual({});
    expect(await space.pod('vm')).toBeUndefined();
    expect((await claimOf(space)).metadata).toEqual(before.metadata);
    await expect.poll(() => space.events('vm'), slow).toContain('ClaimConflict');

    await removeClaim(space);
    const touched = { metadata: { labels: { touched: 'true' } } };
    await world.client.patch(vms, { name: 'vm', namespace: space.name }, { type: 'merge', body: touched });
    await untilOnOwnClaim(space);
    expect(await space.condition('vm', 'Stalled')).toEqual({});
  });

  test('does not become ours by carrying our labels', async () => {
    const space = await world.namespace('labelled');
    const before = await makeClaim(space, ours);
    await space.deploy('vm', persistent);
    await space.until('vm', 'Stalled', { reason: 'ClaimConflict' });
    expect((await claimOf(space)).metadata.resourceVersion).toBe(before.metadata.resourceVersion);
    await removeClaim(space);
    await untilOnOwnClaim(space);
  });

  test('is waited for where it goes with a VM of the same name: its disk never boots again', async () => {
    const space = await world.namespace('namesake');
    await space.deploy('vm', { disk: { ...persistent.disk, whenDeleted: 'Delete' } });
    await untilOnOwnClaim(space);
    const { uid } = (await claimOf(space)).metadata;
    await hold(space);
    await space.remove('vm');
    await space.deploy('vm', persistent);
    await space.until('vm', 'Scheduled', { status: 'False', reason: 'ClaimTerminating' });
    expect((await space.condition('vm', 'Scheduled')).message).toBe(
      'claim svc3-vm-vm is being deleted; a new disk is made when it is gone',
    );
    expect(await space.condition('vm', 'Stalled')).toEqual({});
    expect(await space.pod('vm')).toBeUndefined();
    await letGo(space);
    await untilOnOwnClaim(space);
    expect((await claimOf(space)).metadata.uid).not.toBe(uid);
  });

  test('is waited for where it is being deleted, whoever made it', async () => {
    const space = await world.namespace('going');
    await makeClaim(space, ours);
    await hold(space);
    await world.client.delete(persistentVolumeClaims, { name: 'svc3-vm-vm', namespace: space.name });
    await space.deploy('vm', persistent);
    await space.until('vm', 'Scheduled', { status: 'False', reason: 'ClaimTerminating' });
    expect(await space.pod('vm')).toBeUndefined();
    await letGo(space);
    await untilOnOwnClaim(space);
  });
});
