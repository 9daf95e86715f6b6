import { describe, expect, test } from 'vitest';
import type { PersistentVolumeClaim } from '../../../src/api/core.ts';
import type { PossibleUsers } from '../../../src/api/diskusers.ts';
import type { Image, ImageStatus } from '../../../src/api/image.ts';
import type { Resource } from '../../../src/api/object.ts';
import { images } from '../../../src/api/resources.ts';
import type { Vm } from '../../../src/api/vm.ts';
import type { VmConfig } from '../../../src/api/vmconfig.ts';
import type { VmPool } from '../../../src/api/vmpool.ts';
import { Svc3Error } from '../../../src/errors.ts';
import type { KubeClient } from '../../../src/kube/types.ts';
import { deleteDisk } from '../../../src/usecases/diskdeletion.ts';
import type { Waited, Waiter } from '../../../src/usecases/waiter.ts';
import { storedMeta } from '../../support/storedmeta.ts';
import { anImage, condition, digest } from '../controllers/image/builders.ts';
import { aVm } from '../controllers/vm/builders.ts';

const nobody: PossibleUsers = { vms: [], pools: [], disks: [], claims: [], config: () => undefined };
const stored: ImageStatus = { digest, conditions: [condition('Ready', 'True', 'Stored')] };
const deleted = { deletionTimestamp: '2026-11-01T10:00:00Z' };
const notReady = (reason: string, message: string): ImageStatus => ({
  ...stored,
  conditions: [{ ...condition('Ready', 'False', reason), message }],
});

/** A deletion of Image `disk`, which is seen like `seen` afterwards; undefined: it is gone. */
async function deletion(seen: Image | undefined, users: PossibleUsers = nobody) {
  const deletions: unknown[] = [];
  const caller = {
    delete: async (...asked: unknown[]) => void deletions.push(asked.slice(1)),
  } as unknown as KubeClient;
  let isOver: boolean | undefined;
  const wait = (async (_resource: unknown, _start: unknown, { done }: { done(object: Image): boolean }) => {
    if (seen === undefined) return { kind: 'gone' };
    isOver = done(seen);
    return { kind: isOver ? 'done' : 'timeout', object: seen } satisfies Waited<Image>;
  }) as unknown as Waiter;
  const environment = { caller, resource: images, field: 'image', users: async () => users, wait } as const;
  const goesOn = await deleteDisk(environment, anImage({ blank: { size: '1G' } }, stored));
  return { goesOn, deletions, isOver };
}

test('an Image that is deleted is gone, with its name, when that is said', async () => {
  const { goesOn, deletions } = await deletion(undefined);
  expect(goesOn).toBeUndefined();
  expect(deletions).toEqual([[{ name: 'disk', namespace: 'team' }, { uid: 'uid-1' }]]);
});

test('one that the operator keeps for its users is not waited for, and they are named', async () => {
  const held = anImage({ blank: { size: '1G' } }, notReady('InUse', 'in use by VM of namespace ci'), deleted);
  const { goesOn, isOver } = await deletion(held);
  expect(isOver).toBe(true);
  expect(goesOn).toBe('deletion of image disk has begun: in use by VM of namespace ci');
});

test.each<[what: string, seen: Image, goesOn: string]>([
  [
    'its store does not answer',
    anImage({ blank: { size: '1G' } }, notReady('RegistryUnreachable', 'no route'), deleted),
    'deletion of image disk has begun: no route',
  ],
  [
    'its worker has not ended',
    anImage({ upload: {} }, { conditions: [condition('Ready', 'False', 'Working')] }, deleted),
    'deletion of image disk has begun',
  ],
  [
    'nobody has seen that it is being deleted',
    anImage({ blank: { size: '1G' } }, stored),
    'deletion of image disk has begun',
  ],
])('how it goes on is said where it takes long because %s', async (_what, seen, goesOn) => {
  expect(await deletion(seen)).toMatchObject({ goesOn, isOver: false });
});

test('one that is used is not deleted', async () => {
  const vms = [aVm({ metadata: { namespace: 'team' }, spec: { image: 'disk' } })];
  await expect(deletion(undefined, { ...nobody, vms })).rejects.toMatchObject({
    reason: 'Conflict',
    message: 'image disk is in use by VM web',
  });
});

describe('by what a cache knows', () => {
  const vm = (name: string, spec: Partial<Vm['spec']> = { image: 'disk' }, metadata: object = {}): Vm =>
    aVm({ metadata: { name, namespace: 'team', ...metadata }, spec });
  const config = (image: string): VmConfig => ({
    metadata: storedMeta({ name: 'small', namespace: 'team' }),
    spec: { image },
  });
  const pool = (template: VmPool['spec']['template']): VmPool => ({
    metadata: storedMeta({ name: 'ci', namespace: 'team' }),
    spec: { template, minIdle: 1, standby: 'Suspended', serveConfig: false },
  });
  const copy = (status: ImageStatus) =>
    anImage({ image: { name: 'disk' } }, status, { name: 'copy', uid: 'uid-2' });
  const reference = `store.example.com/team/disk@${digest}`;
  const disk = (uid = 'uid-1') => anImage({ blank: { size: '1G' } }, { ...stored, reference }, { uid });
  /** That of VM `a`. */
  const claim: PersistentVolumeClaim = {
    metadata: storedMeta({
      name: 'svc3-vm-a',
      namespace: 'team',
      annotations: { 'svc3.dev/vm-uid': vm('a').metadata.uid, 'svc3.dev/disk-image': reference },
    }),
  };
  const byConfig = (): Vm => vm('a', { image: undefined, config: 'small' });

  /** The deletion of a disk that a cache has, with users that it has, where kube-apiserver has these objects; which it deletes, or what it refuses. */
  async function deletionBy(
    known: Partial<PossibleUsers>,
    there: readonly (Image | Vm | VmPool | VmConfig | PersistentVolumeClaim)[],
  ) {
    const looked: string[] = [];
    const deleted: string[] = [];
    const find = async <T>({ plural }: Resource<never>, name: string) => {
      looked.push(`${plural}/${name}`);
      const found = there.find((object) => kindOf(object) === plural && object.metadata.name === name);
      if (found === undefined) throw new Svc3Error('NotFound', `${plural} "${name}" not found`);
      return found as T;
    };
    const live = { get: find } as unknown as KubeClient;
    const caller = {
      async delete(resource: Resource<never>, { name }: { name: string }, { uid }: { uid: string }) {
        const { metadata } = (await find(resource, name)) as Image;
        if (metadata.uid !== uid) throw new Svc3Error('Conflict', 'the UID in the precondition is another');
        deleted.push(uid);
      },
    } as unknown as KubeClient;
    const wait: Waiter = async () => ({ kind: 'gone' });
    const users = async () => ({ ...nobody, ...known });
    const environment = { caller, live, resource: images, field: 'image', users, wait } as const;
    const refusal = await deleteDisk(environment, disk()).catch((error: Error) => error.message);
    return { refusal, deleted, looked };
  }

  function kindOf(object: Image | Vm | VmPool | VmConfig | PersistentVolumeClaim): string {
    if (object.spec === undefined) return 'persistentvolumeclaims';
    if ('template' in object.spec) return 'vmpools';
    if ('source' in object.spec) return 'images';
    return object.metadata.name === 'small' ? 'vmconfigs' : 'vms';
  }

  test.each<
    [
      what: string,
      known: Partial<PossibleUsers>,
      there: readonly (Image | Vm | VmPool | VmConfig | PersistentVolumeClaim)[],
    ]
  >([
    ['VM that is gone', { vms: [vm('a')] }, []],
    ['VM that is another by now', { vms: [vm('a')] }, [vm('a', { image: 'other' }, { uid: 'new' })]],
    ['VM whose VMConfig is gone', { vms: [byConfig()], config: () => config('disk') }, [byConfig()]],
    [
      'VM whose VMConfig names another by now',
      { vms: [byConfig()], config: () => config('disk') },
      [byConfig(), config('other')],
    ],
    ['pool that is gone', { pools: [pool({ image: 'disk' })] }, []],
    ['pool that names another by now', { pools: [pool({ image: 'disk' })] }, [pool({ image: 'other' })]],
    [
      'pool whose VMConfig names another by now',
      { pools: [pool({ config: 'small' })], config: () => config('disk') },
      [pool({ config: 'small' }), config('other')],
    ],
    ['copy that is there by now', { disks: [copy({})] }, [copy(stored)]],
    ['copy that is gone', { disks: [copy({})] }, []],
    ['claim that is gone', { claims: [claim] }, []],
  ])('one is not kept for a %s', async (_what, known, there) => {
    expect(await deletionBy(known, [disk(), ...there])).toMatchObject({
      refusal: undefined,
      deleted: ['uid-1'],
    });
  });

  test.each<
    [
      what: string,
      known: Partial<PossibleUsers>,
      there: readonly (Image | Vm | VmPool | VmConfig | PersistentVolumeClaim)[],
      by: string,
    ]
  >([
    ['a VM', { vms: [vm('a')] }, [vm('a')], 'VM a'],
    [
      'a VM by its VMConfig',
      { vms: [byConfig()], config: () => config('disk') },
      [byConfig(), config('disk')],
      'VM a',
    ],
    ['a pool', { pools: [pool({ image: 'disk' })] }, [pool({ image: 'disk' })], 'VMPool ci'],
    [
      'a pool by its VMConfig',
      { pools: [pool({ config: 'small' })], config: () => config('disk') },
      [pool({ config: 'small' }), config('disk')],
      'VMPool ci',
    ],
    ['a copy', { disks: [copy({})] }, [copy({})], 'Image copy'],
    ['a claim', { claims: [claim] }, [claim], 'claim svc3-vm-a'],
    ['the claim of a VM that is gone', { vms: [vm('a')], claims: [claim] }, [claim], 'claim svc3-vm-a'],
    [
      'those who are left',
      { vms: [vm('a'), vm('b'), vm('c')], pools: [pool({ image: 'disk' })] },
      [vm('b'), vm('c')],
      'VMs b, c and VMPool ci',
    ],
  ])('one is kept for %s', async (_what, known, there, by) => {
    expect(await deletionBy(known, [disk(), ...there])).toMatchObject({
      refusal: `image disk is in use by ${by}`,
      deleted: [],
    });
  });

  test('no more is looked at than says that one is used', async () => {
    const all = ['a', 'b', 'c'].map((name) => vm(name));
    expect((await deletionBy({ vms: all }, [disk(), ...all])).looked).toEqual(['images/disk', 'vms/a']);
  });

  test('so many that use it no more are asked for; who is beyond them is believed', async () => {
    const all = Array.from({ length: 60 }, (_, index) => vm(`vm-${index}`));
    const { refusal, deleted, looked } = await deletionBy({ vms: all }, [disk()]);
    expect(refusal).toContain('in use by VMs vm-50, vm-51');
    expect(deleted).toEqual([]);
    expect(looked).toHaveLength(51);
  });

  test('one that was made anew is deleted, where nobody uses that', async () => {
    expect(await deletionBy({}, [disk('new')])).toMatchObject({ refusal: undefined, deleted: ['new'] });
    const users = { vms: [vm('a')] };
    expect(await deletionBy(users, [disk('new'), vm('a')])).toMatchObject({ deleted: [] });
  });

  test('one that is gone is not found', async () => {
    expect(await deletionBy({ vms: [vm('a')] }, [])).toMatchObject({ refusal: 'images "disk" not found' });
  });
});
