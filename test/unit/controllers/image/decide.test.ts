import { describe, expect, test } from 'vitest';
import type { Image, ImageStatus } from '../../../../src/api/image.ts';
import type { WorkFailed } from '../../../../src/api/worker.ts';
import { decide, isGivenUp, type Observed, type Plan } from '../../../../src/controllers/image/decide.ts';
import { requestOf, workId } from '../../../../src/controllers/image/names.ts';
import { anImage, aVmSource, condition, digest, done, observed } from './builders.ts';

const failed = (reason: WorkFailed['reason']): WorkFailed => ({ result: 'Failed', reason, message: 'why' });
const remote: Image['spec']['source'] = { remote: { reference: 'r.example.com/a:1' } };
const saveMemory: Image['spec']['source'] = { vm: { name: 'vm', mode: 'SaveWithMemory' } };
const save: Image['spec']['source'] = { vm: { name: 'vm', mode: 'Save' } };
/** An Image of which the commit `two` is asked for. */
const committing = (status: Image['status'], metadata: Partial<Image['metadata']> = {}): Image => {
  const image = anImage(remote, { digest, ...status }, metadata);
  return { ...image, spec: { ...image.spec, commit: { vm: 'vm', request: 'two' } } };
};
/** The VM was reverted without it. */
const abandoned = (image: Image): Image => {
  const annotations = { 'svc3.dev/save-abandoned': workId(image, requestOf(image) ?? '') };
  return { ...image, metadata: { ...image.metadata, annotations } };
};
const deleted = { deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: ['svc3.dev/cleanup'] };
const stalled = [condition('Ready', 'False', 'DiskRefused'), condition('Stalled', 'True', 'DiskRefused')];

describe('what is decided for a disk', () => {
  test.each<[string, Observed, Partial<Plan> & { kind: Plan['kind'] }]>([
    [
      'a remote one is pulled',
      observed(anImage(remote)),
      { kind: 'work', work: { kind: 'pull', reference: 'r.example.com/a:1' } },
    ],
    [
      'a blank one is made',
      observed(anImage({ blank: { size: '1Gi' } })),
      { kind: 'work', work: { kind: 'blank', size: '1Gi' } },
    ],
    [
      'one that is there is left alone',
      observed(anImage(remote, { digest })),
      { kind: 'stored', cleanUp: false },
    ],
    [
      'pods that outlived their work are taken away',
      observed(anImage(remote, { digest }), { hasPods: true }),
      { kind: 'stored', cleanUp: true },
    ],
    [
      'an upload that has not come is waited for',
      observed(anImage({ upload: {} }), { request: undefined }),
      { kind: 'await', verdict: { reason: 'AwaitingUpload' } } as never,
    ],
    [
      'an upload that came is inspected',
      observed(anImage({ upload: {} }), { request: 'b'.repeat(64) }),
      { kind: 'work', work: { kind: 'upload', digest: `sha256:${'b'.repeat(64)}` } },
    ],
    [
      'an upload that was taken over is done',
      observed(anImage({ upload: {} }, { digest, request: 'x' }), { request: 'x' }),
      { kind: 'stored' },
    ],
    [
      'a commit that was carried out is done',
      observed(committing({ commitRequest: 'two' }), { request: 'commit/vm/two' }),
      { kind: 'stored' },
    ],
    [
      'a new commit is carried out',
      observed(committing({ commitRequest: 'one' }), { request: 'commit/vm/two', vmSource: aVmSource() }),
      { kind: 'work', work: { kind: 'export', vm: 'vm', source: { uid: 'u' } } } as never,
    ],
    [
      'a commit of a VM that runs from something else is refused',
      observed(committing({}), { vmSource: aVmSource({ commitRefusal: 'it runs from x' }) }),
      { kind: 'refuse', verdict: { reason: 'CommitRefused', message: 'it runs from x' } } as never,
    ],
    [
      'a commit of a VM that does not exist is refused',
      observed(committing({})),
      { kind: 'refuse', verdict: { reason: 'SourceNotFound' } } as never,
    ],
    [
      'a commit of a VM that went meanwhile is refused, whoever has its name now',
      observed(committing({ vmUid: 'before' }), { vmSource: aVmSource() }),
      { kind: 'refuse', verdict: { reason: 'SourceDeleted' } } as never,
    ],
    [
      'a commit of a VM that comes while that of another is under way is carried out',
      observed(committing({ vmUid: 'other', vmRequest: 'one' }), { vmSource: aVmSource() }),
      { kind: 'work', work: { kind: 'export', vm: 'vm', source: { uid: 'u' } } } as never,
    ],
    [
      'a commit of a VM that went meanwhile is refused, also where another was under way before',
      observed(committing({ vmUid: 'before', vmRequest: 'two' }), { vmSource: aVmSource() }),
      { kind: 'refuse', verdict: { reason: 'SourceDeleted' } } as never,
    ],
    [
      'a commit of a VM that is being deleted is tried',
      observed(committing({}, { creationTimestamp: '2026-01-02T00:00:00Z' }), {
        vmSource: aVmSource({ deletionTimestamp: '2026-01-01T00:00:00Z' }),
      }),
      { kind: 'work' },
    ],
    [
      'a save that was asked for before the VM was deleted goes on',
      observed(anImage(save, undefined, { creationTimestamp: '2026-01-01T00:00:00Z' }), {
        vmSource: aVmSource({ deletionTimestamp: '2026-01-01T00:00:00Z' }),
      }),
      { kind: 'work' },
    ],
    [
      'a save that was asked for after the VM was deleted is refused',
      observed(anImage(save, undefined, { creationTimestamp: '2026-01-01T00:00:01Z' }), {
        vmSource: aVmSource({ deletionTimestamp: '2026-01-01T00:00:00Z' }),
      }),
      { kind: 'refuse', verdict: { reason: 'SourceDeleted' } } as never,
    ],
    [
      'a save of a VM that went meanwhile is refused',
      observed(anImage(save, { vmUid: 'u' })),
      { kind: 'refuse', verdict: { reason: 'SourceDeleted' } } as never,
    ],
    [
      'a save of a disk that went with its pod is refused: the next pod has another',
      observed(anImage(save, { vmUid: 'u', vmPodUid: 'before' }), { vmSource: aVmSource({ podUid: 'now' }) }),
      {
        kind: 'refuse',
        verdict: { reason: 'SourceDeleted', message: expect.stringContaining('went with its pod') },
      } as never,
    ],
    [
      'so is one with memory',
      observed(anImage(saveMemory, { vmUid: 'u', vmPodUid: 'before' }), {
        vmSource: aVmSource({ podUid: 'now' }),
      }),
      { kind: 'refuse', verdict: { reason: 'SourceDeleted' } } as never,
    ],
    [
      'and a commit',
      observed(committing({ vmUid: 'u', vmRequest: 'two', vmPodUid: 'before' }), {
        vmSource: aVmSource({ podUid: 'now' }),
      }),
      { kind: 'refuse', verdict: { reason: 'SourceDeleted' } } as never,
    ],
    [
      'what is known of the pod for a commit before says nothing of this one',
      observed(committing({ vmUid: 'u', vmRequest: 'one', vmPodUid: 'before' }), {
        vmSource: aVmSource({ podUid: 'now' }),
      }),
      { kind: 'work' },
    ],
    [
      'a save goes on in the pod that it began in',
      observed(anImage(save, { vmUid: 'u', vmPodUid: 'now' }), { vmSource: aVmSource({ podUid: 'now' }) }),
      { kind: 'work' },
    ],
    [
      'a save of a VM whose pod is gone waits until there is another, which says what became of the disk',
      observed(anImage(save, { vmUid: 'u', vmPodUid: 'before' }), {
        vmSource: aVmSource({ runner: undefined }),
      }),
      { kind: 'say', verdict: { reason: 'SourceNotReady' } } as never,
    ],
    [
      'a save that was asked for before the VM had a pod is made of the first one',
      observed(anImage(save, { vmUid: 'u' }), { vmSource: aVmSource({ podUid: 'now' }) }),
      { kind: 'work' },
    ],
    ...[anImage(save, { vmUid: 'u' }), anImage(save), committing({ vmUid: 'u', vmRequest: 'two' })].map(
      (image): [string, Observed, never] => [
        `a ${image.spec.commit === undefined ? 'save' : 'commit'} that its VM was reverted without is refused: ${image.status?.vmUid}`,
        observed(abandoned(image), { vmSource: aVmSource() }),
        {
          kind: 'refuse',
          verdict: { reason: 'SourceDeleted', message: 'VM vm was reverted before its disk was saved' },
        } as never,
      ],
    ),
    [
      'a save that its VM was reverted without is refused where there is no store either',
      observed(abandoned(anImage(save)), { path: undefined }),
      { kind: 'refuse', verdict: { reason: 'SourceDeleted' } } as never,
    ],
    [
      'a save that its VM was reverted without is stored where its worker is done',
      observed(abandoned(anImage(save, { vmUid: 'u' })), {
        worker: { phase: 'Done', result: done },
        vmSource: aVmSource(),
      }),
      { kind: 'finish' },
    ],
    [
      'a commit goes on where the VM was reverted without the one before',
      observed(
        committing(
          {},
          { annotations: { 'svc3.dev/save-abandoned': workId(committing({}), 'commit/vm/one') } },
        ),
        { vmSource: aVmSource() },
      ),
      { kind: 'work' },
    ],
    [
      'a save of the VM that was meant is made',
      observed(anImage(save, undefined, { annotations: { 'svc3.dev/saved-vm': 'u' } }), {
        vmSource: aVmSource(),
      }),
      { kind: 'work' },
    ],
    [
      'a save of a VM that went before anybody had looked is refused, whoever has its name now',
      observed(anImage(save, undefined, { annotations: { 'svc3.dev/saved-vm': 'before' } }), {
        vmSource: aVmSource(),
      }),
      { kind: 'refuse', verdict: { reason: 'SourceDeleted' } } as never,
    ],
    [
      'a save of a VM that the cache does not show yet is waited for',
      observed(anImage(save, undefined, { annotations: { 'svc3.dev/saved-vm': 'u' } })),
      { kind: 'say', verdict: { reason: 'SourceNotFound' } } as never,
    ],
    [
      'a save that was asked for after the VM was deleted is refused, also where that very one was meant',
      observed(
        anImage(save, undefined, {
          creationTimestamp: '2026-01-01T00:00:01Z',
          annotations: { 'svc3.dev/saved-vm': 'u' },
        }),
        { vmSource: aVmSource({ deletionTimestamp: '2026-01-01T00:00:00Z' }) },
      ),
      { kind: 'refuse', verdict: { reason: 'SourceDeleted' } } as never,
    ],
    [
      'a commit of a VM that went before anybody had looked is refused, whoever has its name now',
      observed(committing({}, { annotations: { 'svc3.dev/committed-vm': 'two/before' } }), {
        vmSource: aVmSource(),
      }),
      { kind: 'refuse', verdict: { reason: 'SourceDeleted' } } as never,
    ],
    [
      'a commit says nothing of the VM of the next one',
      observed(
        committing(
          {},
          { annotations: { 'svc3.dev/committed-vm': 'one/before', 'svc3.dev/saved-vm': 'before' } },
        ),
        { vmSource: aVmSource() },
      ),
      { kind: 'work' },
    ],
    [
      'a save that was refused stays refused',
      observed(anImage(save, { conditions: [condition('Stalled', 'True', 'SourceDeleted')] }), {
        vmSource: aVmSource(),
      }),
      { kind: 'stored' },
    ],
    [
      'a disk that was refused is not looked at again',
      observed(anImage(remote, { conditions: stalled })),
      { kind: 'stored' },
    ],
    [
      'another upload after a refused one is looked at',
      observed(anImage({ upload: {} }, { conditions: stalled, request: 'a' }), { request: 'b' }),
      { kind: 'work' },
    ],
    [
      'without a store nothing can be made',
      observed(anImage(remote), { path: undefined }),
      { kind: 'say', verdict: { reason: 'StoreMissing' } } as never,
    ],
    [
      'pods of an older request end first',
      observed(anImage(remote), { hasPods: true, hasOldPods: true }),
      { kind: 'stopWorkers' },
    ],
    [
      'work that failed waits for its time',
      observed(anImage(remote), { retryAt: 1_000_500 }),
      { kind: 'say', requeueAfterMs: 500 },
    ],
    [
      'a running worker is watched',
      observed(anImage(remote), { hasPods: true, worker: { phase: 'Running', message: 'm', address: 'a' } }),
      { kind: 'watch' },
    ],
    [
      'a worker that cannot begin and would be another by now makes room for it',
      observed(anImage(remote), { hasPods: true, worker: { phase: 'Outdated' } }),
      { kind: 'stopWorkers' },
    ],
    [
      'a worker that is done is believed',
      observed(anImage(remote), { hasPods: true, worker: { phase: 'Done', result: done } }),
      { kind: 'finish', result: done },
    ],
    [
      'a disk that a worker refused stays refused',
      observed(anImage(remote), {
        worker: { phase: 'Failed', failure: failed('DiskRefused'), finishedAt: 0 },
      }),
      { kind: 'refuse' },
    ],
    [
      'an upload that a worker did not find is lost for good',
      observed(anImage({ upload: {} }), {
        worker: { phase: 'Failed', failure: failed('UploadLost'), finishedAt: 0 },
      }),
      { kind: 'refuse' },
    ],
    [
      'a worker that failed waits for its time',
      observed(anImage(remote), {
        retryAt: 1_000_500,
        worker: { phase: 'Failed', failure: failed('WorkerFailed'), finishedAt: 0 },
      }),
      { kind: 'say', requeueAfterMs: 500 },
    ],
    [
      'a worker that failed is made anew',
      observed(anImage(remote), {
        worker: { phase: 'Failed', failure: failed('WorkerFailed'), finishedAt: 0 },
      }),
      { kind: 'retry' },
    ],
    [
      'a source that is missing stalls the copy',
      observed(anImage({ image: { name: 'x' } })),
      {
        kind: 'say',
        verdict: { reason: 'SourceNotFound', message: 'Image x does not exist' },
      } as never,
    ],
    [
      'a worker on its way out is waited for, until its node is taken for lost',
      observed(anImage(remote), { hasPods: true, worker: { phase: 'Deleting', lostAt: 1_000_500 } }),
      { kind: 'say', requeueAfterMs: 500 },
    ],
    [
      'a worker that never ends is given up with its node',
      observed(anImage(remote), { hasPods: true, worker: { phase: 'Deleting', lostAt: 1_000_000 } }),
      { kind: 'stopWorkers' },
    ],
    [
      'a source that is being deleted stalls the copy, and that is said',
      observed(anImage({ image: { name: 'x' } }), { copySource: { state: 'Leaving', status: { digest } } }),
      {
        kind: 'say',
        verdict: { reason: 'SourceNotFound', message: expect.stringMatching(/^Image x is being deleted/) },
      } as never,
    ],
    [
      'a source that waits for its copy is copied',
      observed(anImage({ image: { name: 'x' } }), { copySource: { state: 'Ready', status: { digest } } }),
      { kind: 'work', work: { kind: 'copy', from: 'x' } } as never,
    ],
    [
      'a source that is being made is waited for',
      observed(anImage({ image: { name: 'x' } }), { copySource: { state: 'NotReady', status: {} } }),
      { kind: 'say', verdict: { reason: 'SourceNotReady' } } as never,
    ],
    [
      'a VM that is missing stalls the save',
      observed(anImage({ vm: { name: 'x', mode: 'Save' } })),
      { kind: 'say', verdict: { reason: 'SourceNotFound' } } as never,
    ],
    [
      'a VM without a runner is waited for',
      observed(anImage({ vm: { name: 'x', mode: 'Save' } }), {
        vmSource: aVmSource({ runner: undefined }),
      }),
      { kind: 'say', verdict: { reason: 'SourceNotReady' } } as never,
    ],
    [
      'a VM that is suspended on its disk is waited for, and that is said',
      observed(anImage({ vm: { name: 'x', mode: 'Save' } }), {
        vmSource: aVmSource({ runner: undefined, powerState: 'Suspended' }),
      }),
      {
        kind: 'say',
        verdict: {
          reason: 'SourceNotReady',
          message: 'VM x is suspended on its disk, which is saved once the VM goes on',
        },
      } as never,
    ],
    [
      'the memory of a VM that runs is saved with its disk',
      observed(anImage(saveMemory), { vmSource: aVmSource() }),
      { kind: 'work', work: { kind: 'export' } } as never,
    ],
    [
      'a VM whose memory can never be saved refuses the save, in its words',
      observed(anImage(saveMemory), { vmSource: aVmSource({ memoryRefusal: 'disks: no' }) }),
      { kind: 'refuse', verdict: { reason: 'MemoryRefused', message: 'VM vm: disks: no' } },
    ],
    [
      'a VM that is off is waited for where its memory is wanted, and that is said',
      observed(anImage(saveMemory), { vmSource: aVmSource({ powerState: 'Stopped' }) }),
      {
        kind: 'say',
        verdict: { reason: 'SourceNotReady', message: 'VM vm is Stopped: its memory is saved once it runs' },
      } as never,
    ],
    [
      'and not where it is being deleted',
      observed(anImage(saveMemory), {
        vmSource: aVmSource({ powerState: 'Stopped', deletionTimestamp: '2027-01-01T00:00:00Z' }),
      }),
      { kind: 'refuse', verdict: { reason: 'MemoryRefused' } } as never,
    ],
    [
      'deletion waits for the VMs that use it',
      observed(anImage(remote, { digest }, deleted), { users: 'VMs a, b' }),
      { kind: 'say', verdict: { reason: 'InUse', message: 'in use by VMs a, b' } },
    ],
    [
      'deletion ends the work first',
      observed(anImage(remote, undefined, deleted), { hasPods: true }),
      { kind: 'stopWorkers' },
    ],
    ['deletion empties the store', observed(anImage(remote, { digest }, deleted)), { kind: 'purge' }],
    [
      'deletion without a store lets go',
      observed(anImage(remote, undefined, deleted), { path: undefined }),
      { kind: 'release' },
    ],
  ])('%s', (_title, given, plan) => {
    expect(decide(given)).toMatchObject(plan);
  });
});

describe('a disk that the store does not delete', () => {
  const deletionTimestamp = '2026-11-01T10:00:00Z';
  const after = (minutes: number) => Date.parse(deletionTimestamp) + minutes * 60_000;
  const isOver = (reason: string, minutes: number, status?: ImageStatus) =>
    isGivenUp(
      { disk: anImage({ blank: { size: '1G' } }, status, { deletionTimestamp }), now: after(minutes) },
      { reason, message: '' },
    );

  test('goes at once where it was never stored and the store refuses, and after an outage of 5 min', () => {
    expect(isOver('RegistryDenied', 0)).toBe(true);
    expect(isOver('DeletionRefused', 0)).toBe(true);
    expect(isOver('RegistryUnreachable', 5)).toBe(false);
    expect(isOver('RegistryUnreachable', 5.1)).toBe(true);
  });

  test('stays where it was stored', () => {
    expect(isOver('RegistryDenied', 60, { digest })).toBe(false);
    expect(isOver('RegistryUnreachable', 60, { digest })).toBe(false);
  });

  /** What is said of it, and how many minutes after its deletion it began that it is worked on. */
  const said = (reason: string, minutes: number): ImageStatus => ({
    digest,
    conditions: [
      condition('Ready', 'False', reason),
      {
        ...condition('Reconciling', 'True', 'Progressing'),
        lastTransitionTime: new Date(after(minutes)).toISOString(),
      },
    ],
  });

  test.each<[string, boolean, number, ImageStatus]>([
    ['for less than an hour', false, 59.9, said('DeletionRefused', 0)],
    ['for an hour', true, 60, said('DeletionRefused', 0)],
    ['for less than an hour since nobody uses it', false, 119, said('DeletionRefused', 60)],
    ['for an hour since nobody uses it', true, 120, said('DeletionRefused', 60)],
    ['for less than an hour since its deletion', false, 59.9, said('DeletionRefused', -60)],
    ['for the first time after an outage', false, 120, said('RegistryUnreachable', 0)],
    ['for the first time', false, 120, { digest }],
  ])('goes where it has been refused %s: %s', (_how, isIt, minutes, status) => {
    expect(isOver('DeletionRefused', minutes, status)).toBe(isIt);
  });
});
