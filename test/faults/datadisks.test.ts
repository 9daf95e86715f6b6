import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { PersistentVolumeClaim } from '../../src/api/core.ts';
import { persistentVolumeClaims, vms } from '../../src/api/resources.ts';
import { storageClasses } from '../support/resources.ts';
import type { VmSpecInput } from '../../src/api/vm.ts';
import { isSvc3Error } from '../../src/errors.ts';
import { slow, type VmNamespace, type VmWorld, vmWorld } from '../integration/vm/harness.ts';
import { startVmOperator, type TestOperator } from '../support/operator.ts';

/** Claims of data disks: made, taken, left and deleted. With a guest: test/integration/runner/datadisks.test.ts and test/life/datadisks.test.ts. */

let world: VmWorld;
let operator: TestOperator;

beforeAll(async () => {
  world = await vmWorld();
  await world.kubelet.addNode({ name: 'n1' });
  // kube-scheduler waits for a volume of this class as long as the pod is there.
  await world.client.create(storageClasses, {
    metadata: { name: 'waiting' },
    provisioner: 'example.com/none',
    volumeBindingMode: 'WaitForFirstConsumer',
  });
  operator = await startVmOperator(world.client, { storageClassName: 'waiting' });
});

afterAll(async () => {
  await operator?.stop();
  await world?.stop();
});

type Disks = NonNullable<VmSpecInput['disks']>;

function claim({ name: namespace }: VmNamespace, name: string): Promise<PersistentVolumeClaim | undefined> {
  return world.client.get(persistentVolumeClaims, name, namespace).catch((error: unknown) => {
    if (isSvc3Error(error, 'NotFound')) return undefined;
    throw error;
  });
}

const isThere = async (space: VmNamespace, name: string) =>
  [await claim(space, name)].map(
    (one) => one !== undefined && one.metadata.deletionTimestamp === undefined,
  )[0];

/** A claim that somebody made to be a VM's disk. */
function makeClaim({ name: namespace }: VmNamespace, name: string, labels: Record<string, string>) {
  return world.client.create(persistentVolumeClaims, {
    metadata: { name, namespace, labels },
    spec: {
      accessModes: ['ReadWriteOnce'],
      storageClassName: 'waiting',
      resources: { requests: { storage: '1Gi' } },
    },
  });
}

async function deployed(space: VmNamespace, name: string, disks: Disks) {
  await space.deploy(name, { disks });
  await expect.poll(async () => (await space.pod(name))?.metadata.uid, slow).toBeDefined();
}

const patch = ({ name: namespace }: VmNamespace, name: string, spec: object) =>
  world.client.patch(vms, { name, namespace }, { type: 'merge', body: { spec } });

const mark = { 'svc3.dev/disk': 'true' };
const logs = { name: 'logs', size: '1Gi' };
const own = 'svc3-vm-vm.logs';

describe('a VM with data disks', () => {
  test('leaves them or takes them along, each as its spec says at last, whatever its own disk is', async () => {
    const space = await world.namespace('datadisks');
    await makeClaim(space, 'archive', mark);
    const tmp = { name: 'tmp', size: '1Gi', whenDeleted: 'Delete' as const };
    await deployed(space, 'vm', [logs, tmp, { name: 'old', claimName: 'archive' }]);
    expect((await claim(space, 'archive'))?.metadata.labels).toMatchObject({ 'svc3.dev/vm': 'vm' });
    expect((await claim(space, own))?.spec).toMatchObject({ storageClassName: 'waiting' });
    await space.remove('vm');
    await expect.poll(() => isThere(space, 'svc3-vm-vm.tmp'), slow).toBe(false);
    expect([await isThere(space, own), await isThere(space, 'archive')]).toEqual([true, true]);
    await expect.poll(() => space.events('vm'), slow).toContain('DiskKept');

    await deployed(space, 'next', [{ name: 'logs', claimName: own }]);
    await patch(space, 'next', { disks: [{ name: 'logs', claimName: own, whenDeleted: 'Delete' }] });
    await space.remove('next');
    await expect.poll(() => isThere(space, own), slow).toBe(false);
  });

  test('that never ran takes along what was made for it, and leaves what was there', async () => {
    const space = await world.namespace('datadisks-expired');
    await makeClaim(space, 'archive', mark);
    await deployed(space, 'vm', [logs, { name: 'old', claimName: 'archive' }]);
    await patch(space, 'vm', { startDeadlineSeconds: 1 });
    await space.untilGone('vm');
    await expect.poll(() => isThere(space, own), slow).toBe(false);
    expect(await isThere(space, 'archive')).toBe(true);
  });

  test('is refused another claim, another size than a larger one, and any change while its pod has its own disk', async () => {
    const space = await world.namespace('datadisks-changes');
    await deployed(space, 'vm', [logs]);
    await expect.poll(async () => (await space.vm('vm')).status?.effective?.disks, slow).toEqual([logs]);
    for (const disks of [[], [logs, { name: 'more', size: '1Gi' }], [{ ...logs, size: '2Gi' }]])
      await expect(patch(space, 'vm', { disks })).rejects.toMatchObject({
        reason: 'Invalid',
        message: expect.stringContaining(
          'spec.disks: Forbidden: disks cannot change once the VM has been placed',
        ),
      });
    await patch(space, 'vm', { disks: [{ ...logs, whenDeleted: 'Delete' }] });
    await space.remove('vm');
    await expect.poll(() => isThere(space, own), slow).toBe(false);
  });
});

describe('a claim that a VM names as a data disk', () => {
  const stalled = (space: VmNamespace, name: string, reason: string, message: string) =>
    space.until(name, 'Stalled', { status: 'True', reason, message: expect.stringContaining(message) });

  test('has to be there, marked, and no disk of another VM', async () => {
    const space = await world.namespace('datadisks-named');
    const old = { name: 'old', claimName: 'archive' };
    await makeClaim(space, 'archive', {});
    await space.deploy('vm', { disks: [old] });
    await stalled(space, 'vm', 'ClaimConflict', 'claim archive has no label svc3.dev/disk=true');
    await space.remove('vm');
    await world.client.patch(
      persistentVolumeClaims,
      { name: 'archive', namespace: space.name },
      { type: 'merge', body: { metadata: { labels: mark } } },
    );
    await deployed(space, 'first', [old]);
    await space.deploy('second', { disks: [{ name: 'mine', claimName: 'archive' }] });
    await stalled(
      space,
      'second',
      'ClaimConflict',
      'disks[mine].claimName: claim archive is the disk of VM first',
    );
    expect(await space.pod('second')).toBeUndefined();
    await space.deploy('third', { disks: [logs, { name: 'mine', claimName: 'svc3-vm-first' }] });
    const missing = 'disks[mine].claimName: claim svc3-vm-first does not exist';
    await stalled(space, 'third', 'ClaimNotFound', missing);
    await space.remove('first');
    // Its end wakes the one that waits, long before it would look again.
    await expect.poll(async () => (await space.pod('second'))?.metadata.uid, slow).toBeDefined();
  });
});
