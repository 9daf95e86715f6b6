import { expect, test } from 'vitest';
import type { PossibleUsers } from '../../../src/api/diskusers.ts';
import type { Image, ImageStatus } from '../../../src/api/image.ts';
import { images } from '../../../src/api/resources.ts';
import type { KubeClient } from '../../../src/kube/types.ts';
import { deleteDisk } from '../../../src/usecases/diskdeletion.ts';
import type { Waited, Waiter } from '../../../src/usecases/waiter.ts';
import { anImage, condition, digest } from '../controllers/image/builders.ts';
import { aVm } from '../controllers/vm/builders.ts';

const nobody: PossibleUsers = { vms: [], pools: [], disks: [], config: () => undefined };
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
