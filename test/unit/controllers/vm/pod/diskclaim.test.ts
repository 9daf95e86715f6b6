import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { PersistentVolumeClaim, Pod } from '../../../../../src/api/core.ts';
import type { ObservedPowerState, VmSpec } from '../../../../../src/api/vm.ts';
import { bootClaim, buildClaim } from '../../../../../src/controllers/vm/facts/claim.ts';
import { buildPod } from '../../../../../src/controllers/vm/pod/pod.ts';
import { leaveClaims, obtainClaims } from '../../../../../src/controllers/vm/pod/diskclaim.ts';
import { Svc3Error } from '../../../../../src/errors.ts';
import { storedMeta } from '../../../../support/storedmeta.ts';
import { vmSettings } from '../../../../support/operator.ts';
import { aPod, aVm, effective, podInput } from '../builders.ts';

/** What is in the namespace: claims by name, and VMs by name with their UID. */
let claims: Map<string, PersistentVolumeClaim>;
let others: Map<string, string>;
let pods: Map<string, Pod>;
const create = vi.fn();
const patch = vi.fn();
const remove = vi.fn();
const client = {
  create,
  patch,
  delete: remove,
  get: async ({ plural }: { plural: string }, name: string) => {
    const uid = others.get(name);
    const found = { vms: uid && otherVm(name, uid), pods: pods.get(name) }[plural] ?? claims.get(name);
    if (found === undefined || found === '') throw new Svc3Error('NotFound', `${name} not found`);
    return found;
  },
} as never;

const settings = vmSettings();
const names = (kept: { name: string }[]) => kept.map(({ name }) => name);
const persistent = { ...effective, disk: { storage: 'Persistent' as const, size: '1Gi' } };
const vm = (disk: VmSpec['disk'] = {}) => aVm({ spec: { disk: { storage: 'Persistent', ...disk } } });

/** A VM that boots from a claim of this name, unless it has given it up; or one whose pod has it as data disk, and whose next one has another. */
function otherVm(name: string, uid: string) {
  if (uid === 'has-another-next') {
    const disks = (claimName: string) => [{ name: 'logs', claimName }];
    const status = { effective: { ...effective, disks: disks('data') } };
    return aVm({ metadata: { name, uid }, spec: { disks: disks('another') }, status });
  }
  const claimName = uid === 'has-another' ? 'another' : 'data';
  return aVm({ metadata: { name, uid }, spec: { disk: { storage: 'Persistent', claimName } } });
}

/** The claim that a VM of this name and UID made for itself. */
function claimOf(name: string, uid: string, more: Partial<PersistentVolumeClaim['metadata']> = {}) {
  const one = aVm({ metadata: { name, uid } });
  const made = buildClaim(one, bootClaim(one, persistent), settings);
  return {
    ...made,
    metadata: { ...storedMeta(made.metadata), uid: 'claim-uid', ...more },
  } as PersistentVolumeClaim;
}

beforeEach(() => {
  claims = new Map();
  others = new Map([['web', 'vm-uid']]);
  pods = new Map();
  for (const mock of [create, patch, remove]) mock.mockReset();
  create.mockImplementation(async (_resource, object: PersistentVolumeClaim) => {
    if (claims.has(object.metadata.name)) throw new Svc3Error('AlreadyExists', 'there is one');
    return object;
  });
});

const obtain = (disk?: VmSpec['disk']) => obtainClaims(client, vm(disk), persistent, settings);

describe('the claim of a VM', () => {
  test('is none where its disk is in its pod', async () => {
    expect(await obtainClaims(client, aVm(), effective, settings)).toEqual({ kind: 'own' });
    expect(create).not.toHaveBeenCalled();
  });

  test('is made for it, or is the one that was made before', async () => {
    expect(await obtain()).toEqual({ kind: 'own' });
    claims.set('svc3-vm-web', claimOf('web', 'vm-uid'));
    expect(await obtain()).toEqual({ kind: 'own' });
    expect(create).toHaveBeenCalledTimes(1);
  });

  test('that is there is had where a quota has no room for another', async () => {
    claims.set('svc3-vm-web', claimOf('web', 'vm-uid'));
    create.mockRejectedValue(new Svc3Error('Forbidden', 'exceeded quota'));
    expect(await obtain()).toEqual({ kind: 'own' });
  });

  test.each([
    ['is gone', undefined],
    ['has given its name to another', 'another-uid'],
  ])('is deleted at once where the VM %s by then, finalizer or not', async (_what, uid) => {
    create.mockImplementation(async (_resource, object: PersistentVolumeClaim) => {
      if (uid === undefined) others.delete('web');
      else others.set('web', uid);
      return { ...object, metadata: { ...object.metadata, uid: 'made-uid' } };
    });
    await expect(obtain()).rejects.toMatchObject({ reason: 'Conflict' });
    const key = { name: 'svc3-vm-web', namespace: 'team' };
    expect(remove.mock.calls.map((call) => call.slice(1))).toEqual([[key, { uid: 'made-uid' }]]);
  });

  test('may have been made by somebody else in the same moment', async () => {
    create.mockImplementation(async () => {
      claims.set('svc3-vm-web', claimOf('web', 'before'));
      throw new Svc3Error('AlreadyExists', 'there is one');
    });
    expect(await obtain()).toMatchObject({ kind: 'foreign' });
  });

  test('says which image its disk is made on, from the beginning', async () => {
    await obtain();
    expect(create.mock.calls[0]?.[1].metadata.annotations).toEqual({
      'svc3.dev/vm-uid': 'vm-uid',
      'svc3.dev/disk-image': effective.image,
    });
  });

  describe('that was made for a pod which never came to be, says which image the first one has', () => {
    const other = 'r/other@sha256:1';
    const made = (spec: PersistentVolumeClaim['spec'] = {}) => {
      const annotations = { 'svc3.dev/vm-uid': 'vm-uid', 'svc3.dev/disk-image': other };
      const claim = claimOf('web', 'vm-uid', { annotations });
      return { ...claim, spec: { ...claim.spec, ...spec } };
    };
    const written = () => patch.mock.calls.map(([, , { body }]) => body.metadata);

    test.each([
      ['alone where there is no volume yet', {}, effective.image],
      [
        'beside the one before, which may have had the volume',
        { volumeName: 'pv' },
        `${effective.image},${other}`,
      ],
    ])('%s', async (_what, spec, image) => {
      claims.set('svc3-vm-web', made(spec));
      expect(await obtain()).toEqual({ kind: 'own' });
      const { resourceVersion } = made().metadata;
      expect(written()).toEqual([
        { uid: 'claim-uid', resourceVersion, annotations: { 'svc3.dev/disk-image': image } },
      ]);
    });

    test('and no later one, which is none of another image', async () => {
      claims.set('svc3-vm-web', made());
      const placed = aVm({ spec: { disk: { storage: 'Persistent' } }, status: { effective: persistent } });
      expect(await obtainClaims(client, placed, persistent, settings)).toEqual({ kind: 'own' });
      expect(patch).not.toHaveBeenCalled();
    });

    test('unless that may not be written, and not where it has changed meanwhile', async () => {
      claims.set('svc3-vm-web', made());
      patch.mockRejectedValueOnce(new Svc3Error('Forbidden', 'no'));
      expect(await obtain()).toEqual({ kind: 'own' });
      patch.mockRejectedValueOnce(new Svc3Error('Conflict', 'changed'));
      await expect(obtain()).rejects.toMatchObject({ reason: 'Conflict' });
    });
  });

  test('is not that of a VM of its name that was deleted', async () => {
    claims.set('svc3-vm-web', claimOf('web', 'before'));
    expect(await obtain()).toMatchObject({
      kind: 'foreign',
      message: expect.stringContaining('was deleted'),
    });
    expect(patch).not.toHaveBeenCalled();
  });

  test('that went away between two looks is looked for again', async () => {
    create.mockRejectedValue(new Svc3Error('AlreadyExists', 'there is one'));
    await expect(obtain()).rejects.toMatchObject({ reason: 'Conflict' });
  });

  test('that cannot be made is told with the words of who refuses it', async () => {
    create.mockRejectedValue(new Svc3Error('Forbidden', 'exceeded quota'));
    await expect(obtain()).rejects.toThrow('exceeded quota');
  });
});

describe('a claim that a VM names', () => {
  const named = { claimName: 'data' };

  test('is missed in words', async () => {
    expect(await obtain(named)).toEqual({
      kind: 'missing',
      message: 'disk.claimName: claim data does not exist',
    });
    expect(create).not.toHaveBeenCalled();
  });

  test('becomes its own, unless another VM takes it in the same moment', async () => {
    claims.set('data', claimOf('db', 'gone', { name: 'data', resourceVersion: '7' }));
    expect(await obtain(named)).toEqual({ kind: 'own' });
    expect(patch.mock.calls[0]?.[2].body.metadata).toMatchObject({
      uid: 'claim-uid',
      resourceVersion: '7',
      labels: { 'svc3.dev/vm': 'web' },
      annotations: { 'svc3.dev/vm-uid': 'vm-uid' },
    });
    // It goes on to say which image its disk was made on.
    expect(patch.mock.calls[0]?.[2].body.metadata.annotations).not.toHaveProperty('svc3.dev/disk-image');
    patch.mockRejectedValue(new Svc3Error('Conflict', 'it has changed'));
    await expect(obtain(named)).rejects.toMatchObject({ reason: 'Conflict' });
  });

  test('stays with the VM that has it, but not with another of its name', async () => {
    claims.set('data', claimOf('db', 'db-uid', { name: 'data' }));
    others.set('db', 'db-uid');
    expect(await obtain(named)).toEqual({
      kind: 'foreign',
      message: 'disk.claimName: claim data is the disk of VM db',
    });
    expect(patch).not.toHaveBeenCalled();
    others.set('db', 'another');
    expect(await obtain(named)).toEqual({ kind: 'own' });
  });

  test('stays with the pod of a VM that was deleted, on a node that does not answer, until it has ended', async () => {
    claims.set('data', claimOf('db', 'db-uid', { name: 'data' }));
    const owner = { apiVersion: 'svc3.dev/v1', kind: 'VM', name: 'db', uid: 'db-uid', controller: true };
    const name = 'svc3-vm-db';
    const left = aPod({ nodeName: 'n1', metadata: { name, ownerReferences: [owner] } });
    pods.set(name, left);
    expect(await obtain(named)).toEqual({
      kind: 'foreign',
      message:
        'disk.claimName: claim data is the disk of VM db, which was deleted and whose pod svc3-vm-db has not ended',
    });
    // Also where the VM was deleted with --cascade=orphan.
    const madeFor = aVm({ metadata: { name: 'db', uid: 'db-uid' } });
    const { metadata, spec } = buildPod(podInput({ vm: madeFor }));
    pods.set(name, { metadata: storedMeta({ ...metadata, ownerReferences: [] }), spec });
    expect(await obtain(named)).toMatchObject({ kind: 'foreign' });
    pods.set(name, { ...left, status: { phase: 'Failed' } });
    expect(await obtain(named)).toEqual({ kind: 'own' });
    // Of another VM of that name.
    pods.set(name, aPod({ nodeName: 'n1', metadata: { name } }));
    expect(await obtain(named)).toEqual({ kind: 'own' });
  });

  test('stays with the VM whose pod has it, whatever the next one is to have under that name', async () => {
    claims.set('data', claimOf('db', 'has-another-next', { name: 'data' }));
    others.set('db', 'has-another-next');
    expect(await obtain(named)).toMatchObject({ kind: 'foreign' });
    expect(patch).not.toHaveBeenCalled();
  });

  test('is free once the VM that had it has another', async () => {
    claims.set('data', claimOf('db', 'has-another', { name: 'data' }));
    others.set('db', 'has-another');
    expect(await obtain(named)).toEqual({ kind: 'own' });
  });

  test('is its own already', async () => {
    claims.set('data', claimOf('web', 'vm-uid', { name: 'data' }));
    expect(await obtain(named)).toEqual({ kind: 'own' });
    expect(patch).not.toHaveBeenCalled();
  });
});

describe('the claims of data disks', () => {
  const logs = { name: 'logs', size: '5Gi', storageClassName: 'fast' };
  const kept = { name: 'kept', claimName: 'archive' };
  const withDisks = (...disks: NonNullable<VmSpec['disks']>) =>
    obtainClaims(client, aVm({ spec: { disks } }), { ...effective, disks }, settings);

  test('are made, each for itself and under its own name', async () => {
    expect(await withDisks(logs)).toEqual({ kind: 'own' });
    expect(create.mock.calls.map(([, claim]) => claim)).toMatchObject([
      {
        metadata: { name: 'svc3-vm-web.logs', annotations: { 'svc3.dev/vm-uid': 'vm-uid' } },
        spec: { storageClassName: 'fast', resources: { requests: { storage: '5632Mi' } } },
      },
    ]);
  });

  test('that are missing or another disk of the VM are told with the field', async () => {
    expect(await withDisks(logs, kept)).toEqual({
      kind: 'missing',
      message: 'disks[kept].claimName: claim archive does not exist',
    });
    expect(await withDisks(kept, { ...kept, name: 'again' })).toEqual({
      kind: 'foreign',
      message: 'disks[again].claimName: claim archive is another disk of this VM',
    });
    claims.set('svc3-vm-web.logs', claimOf('web', 'before', { name: 'svc3-vm-web.logs' }));
    expect(await withDisks(logs)).toMatchObject({
      kind: 'foreign',
      message: expect.stringContaining('disks[logs].claimName svc3-vm-web.logs'),
    });
  });

  test('grow with what is asked for, and only those', async () => {
    const name = 'svc3-vm-web.logs';
    claims.set(name, claimOf('web', 'vm-uid', { name, resourceVersion: '7' }));
    expect(await withDisks(logs)).toEqual({ kind: 'own' });
    expect(patch.mock.calls[0]?.slice(1)).toEqual([
      { name, namespace: 'team' },
      {
        type: 'merge',
        body: {
          metadata: { uid: 'claim-uid', resourceVersion: '7' },
          spec: { resources: { requests: { storage: '5632Mi' } } },
        },
      },
    ]);
    patch.mockReset();
    expect(await withDisks({ ...logs, size: '512Mi' })).toEqual({ kind: 'own' });
    expect(patch).not.toHaveBeenCalled();
  });

  test('that must not grow are told with the way back', async () => {
    const name = 'svc3-vm-web.logs';
    claims.set(name, claimOf('web', 'vm-uid', { name }));
    patch.mockRejectedValueOnce(new Svc3Error('Forbidden', 'exceeded quota'));
    await expect(withDisks(logs)).rejects.toMatchObject({
      reason: 'Forbidden',
      message:
        'exceeded quota; for the size of before take disks[logs] out of spec.disks and add it with that size: its claim stays',
    });
    patch.mockRejectedValueOnce(new Svc3Error('BadRequest', 'a policy denies it'));
    await expect(withDisks(logs)).rejects.toThrow('a policy denies it; for the size of before');
    patch.mockRejectedValueOnce(new Svc3Error('Conflict', 'it has changed'));
    await expect(withDisks(logs)).rejects.toMatchObject({ reason: 'Conflict', message: 'it has changed' });
  });

  test('stay or go with the VM, each as it says', async () => {
    const disks = [{ ...logs, whenDeleted: 'Delete' as const }, kept];
    claims.set('svc3-vm-web.logs', claimOf('web', 'vm-uid', { name: 'svc3-vm-web.logs' }));
    claims.set('archive', claimOf('web', 'vm-uid', { name: 'archive' }));
    expect(names(await leaveClaims(client, aVm({ spec: { disks } })))).toEqual(['archive']);
    expect(remove.mock.calls.map(([, { name }]) => name)).toEqual(['svc3-vm-web.logs']);
  });
});

describe('the disk of a VM that goes', () => {
  test('is left to nobody, or deleted where that is wanted', async () => {
    claims.set('svc3-vm-web', claimOf('web', 'vm-uid'));
    expect(names(await leaveClaims(client, vm()))).toEqual(['svc3-vm-web']);
    expect(remove).not.toHaveBeenCalled();
    expect(await leaveClaims(client, vm({ whenDeleted: 'Delete' }))).toEqual([]);
    expect(remove.mock.calls[0]?.slice(1)).toEqual([
      { name: 'svc3-vm-web', namespace: 'team' },
      { uid: 'claim-uid' },
    ]);
  });

  const noted = (image: string | undefined) => ({
    annotations: {
      'svc3.dev/vm-uid': 'vm-uid',
      ...(image === undefined ? {} : { 'svc3.dev/disk-image': image }),
    },
  });
  interface Left {
    /** What the VM says of the claim; undefined: it was made for it. */
    readonly claimName?: string;
    /** What is noted there. */
    readonly image?: string;
    readonly powerState?: ObservedPowerState;
  }
  const own = effective.image;
  const other = 'r/other@sha256:1';

  test.each<[what: string, left: Left, written: string | undefined, known: string | undefined]>([
    ['nothing more where it says it already', { image: own, powerState: 'Stopped' }, undefined, own],
    ['its own where an earlier build has made it', {}, own, own],
    ['its own where it has taken it, and run', { claimName: 'data', powerState: 'Stopped' }, own, own],
    ['none where it has taken it, and never ran', { claimName: 'data' }, undefined, undefined],
    [
      'that of before where it has failed on it',
      { claimName: 'data', image: other, powerState: 'Failed' },
      undefined,
      other,
    ],
    [
      'its own as well where another was noted before it had a pod, though it has failed',
      { image: other, powerState: 'Failed' },
      `${own},${other}`,
      `${own} or ${other}`,
    ],
    [
      'both where it may have reverted it',
      { claimName: 'data', image: other, powerState: 'Stopped' },
      `${own},${other}`,
      `${own} or ${other}`,
    ],
  ])('says on which image of the VM it was made: %s', async (_what, left, written, known) => {
    const { claimName, image, powerState } = left;
    const name = claimName ?? 'svc3-vm-web';
    claims.set(name, claimOf('web', 'vm-uid', { name, ...noted(image) }));
    const status = { effective: persistent, ...(powerState === undefined ? {} : { powerState }) };
    const disk = { storage: 'Persistent' as const, ...(claimName === undefined ? {} : { claimName }) };
    const [kept] = await leaveClaims(client, aVm({ spec: { disk }, status }));
    expect(kept?.image).toBe(known);
    expect(patch.mock.calls.map(([, , { body }]) => body.metadata)).toEqual(
      written === undefined ? [] : [{ uid: 'claim-uid', annotations: { 'svc3.dev/disk-image': written } }],
    );
  });

  test.each(['Forbidden', 'Conflict', 'NotFound'] as const)(
    'is left also where that may not be written: %s',
    async (reason) => {
      claims.set('svc3-vm-web', claimOf('web', 'vm-uid', noted(undefined)));
      patch.mockRejectedValue(new Svc3Error(reason, 'no'));
      const status = { effective: persistent };
      const gone = aVm({ spec: { disk: { storage: 'Persistent' } }, status });
      expect(names(await leaveClaims(client, gone))).toEqual(['svc3-vm-web']);
      patch.mockRejectedValue(new Svc3Error('Timeout', 'no answer'));
      await expect(leaveClaims(client, gone)).rejects.toThrow('no answer');
    },
  );

  test('is nothing to a VM that has none, or whose name another disk has', async () => {
    expect(await leaveClaims(client, vm({ whenDeleted: 'Delete' }))).toEqual([]);
    claims.set('svc3-vm-web', claimOf('web', 'before'));
    expect(await leaveClaims(client, vm({ whenDeleted: 'Delete' }))).toEqual([]);
    expect(remove).not.toHaveBeenCalled();
  });

  test('that may not be deleted is told of, with what can be done', async () => {
    claims.set('svc3-vm-web', claimOf('web', 'vm-uid'));
    remove.mockRejectedValue(new Svc3Error('Forbidden', 'a policy denies it'));
    await expect(leaveClaims(client, vm({ whenDeleted: 'Delete' }))).rejects.toMatchObject({
      reason: 'Forbidden',
      message:
        'claim svc3-vm-web may not be deleted: a policy denies it; allow it, or set disk.whenDeleted to Retain',
    });
    const neverRan = { ...vm().metadata, annotations: { 'svc3.dev/never-ran': 'true' } };
    await expect(leaveClaims(client, aVm({ ...vm(), metadata: neverRan }))).rejects.toThrow(
      'a policy denies it; allow it, or take annotation svc3.dev/never-ran off the VM',
    );
    remove.mockRejectedValue(new Svc3Error('Timeout', 'no answer'));
    await expect(leaveClaims(client, vm({ whenDeleted: 'Delete' }))).rejects.toThrow(/^no answer$/);
  });

  test.each(['NotFound', 'Conflict'] as const)('may be gone already: %s', async (reason) => {
    claims.set('svc3-vm-web', claimOf('web', 'vm-uid'));
    remove.mockRejectedValue(new Svc3Error(reason, reason));
    expect(await leaveClaims(client, vm({ whenDeleted: 'Delete' }))).toEqual([]);
  });
});
