import type { ObjectMeta } from '../../../../../src/api/object.ts';
import { describe, expect, test } from 'vitest';
import type { PersistentVolumeClaim } from '../../../../../src/api/core.ts';
import {
  bootClaim,
  bootNeeds,
  buildClaim,
  claimLack,
  claimsFor,
  claimsOf,
  grownStorage,
  holderOfNamed,
  holderOfOwn,
} from '../../../../../src/controllers/vm/facts/claim.ts';
import type { EffectiveSettings, Vm } from '../../../../../src/api/vm.ts';
import { vmSettings } from '../../../../support/operator.ts';
import { aVm, effective } from '../builders.ts';
import { storedMeta } from '../../../../support/storedmeta.ts';

const size = '10Gi';
const vm = aVm({ spec: { disk: { storage: 'Persistent', size } } });
const persistent = (disk: object = {}, more: object = {}): EffectiveSettings => ({
  ...effective,
  memory: '4Gi',
  ...more,
  disk: { storage: 'Persistent', ...disk },
});
const built = buildClaim(vm, bootClaim(vm, persistent({ size: '1Gi' })), vmSettings());
const own: PersistentVolumeClaim = { ...built, metadata: storedMeta(built.metadata) };

function withMetadata(metadata: ObjectMeta): PersistentVolumeClaim {
  return { ...own, metadata: { ...own.metadata, ...metadata } };
}

const markedFor = (uid: string, name: string) =>
  withMetadata({
    annotations: { 'svc3.dev/vm-uid': uid },
    labels: { ...own.metadata.labels, 'svc3.dev/vm': name },
  });
const owner = (more: object) => [{ apiVersion: 'v1', kind: 'StatefulSet', name: 'db', uid: 'db', ...more }];

describe('the claims of a VM', () => {
  const logs = { name: 'logs', size: '5Gi', whenDeleted: 'Delete' as const };
  const kept = { name: 'kept', claimName: 'archive' };
  const names = (claims: { name: string }[]) => claims.map(({ name }) => name);

  test('are those of its data disks, and of the disk that it boots from where that is Persistent', () => {
    const one = aVm({ spec: { disks: [logs, kept] } });
    expect(names(claimsFor(one, { ...effective, disks: [logs, kept] }))).toEqual([
      'svc3-vm-web.logs',
      'archive',
    ]);
    const persistent = { ...effective, disk: { storage: 'Persistent' as const }, disks: [logs] };
    expect(names(claimsFor(one, persistent))).toEqual(['svc3-vm-web', 'svc3-vm-web.logs']);
    expect(claimsFor(one, effective)).toEqual([]);
  });

  test('are both those that its pod has and those that its spec asks for, once each', () => {
    const one = aVm({
      spec: { disks: [kept] },
      status: { effective: { ...effective, disks: [logs, kept] } },
    });
    expect(names(claimsOf(one))).toEqual(['svc3-vm-web', 'svc3-vm-web.logs', 'archive']);
  });

  test('are both also where a disk of one name has another claim now, and go each for itself', () => {
    const before = { name: 'data', claimName: 'a', whenDeleted: 'Retain' as const };
    const now = { name: 'data', claimName: 'b', whenDeleted: 'Delete' as const };
    const goes = (...disks: NonNullable<Vm['spec']['disks']>) =>
      claimsOf(aVm({ spec: { disks }, status: { effective: { ...effective, disks: [before] } } }))
        .slice(1)
        .map(({ name, goesWithVm }) => [name, goesWithVm]);
    expect(goes(now)).toEqual([
      ['a', false],
      ['b', true],
    ]);
    // A disk that has another name is the same claim.
    expect(goes({ ...before, name: 'again', whenDeleted: 'Delete' })).toEqual([['a', true]]);
    expect(goes({ name: 'data', size: '1Gi' })).toEqual([
      ['a', false],
      ['svc3-vm-web.data', false],
    ]);
  });

  test('go with it as its spec says now, also where its pod was made before', () => {
    const frozen = { effective: { ...effective, disks: [logs] } };
    const goes = (disks?: Vm['spec']['disks']) =>
      claimsOf(aVm({ spec: disks === undefined ? {} : { disks }, status: frozen }))[1]?.goesWithVm;
    expect(goes()).toBe(true);
    expect(goes([{ ...logs, whenDeleted: 'Retain' }])).toBe(false);
    expect(goes([{ name: 'logs', size: '5Gi' }])).toBe(false);
    // Taken out, for another VM.
    expect(goes([])).toBe(false);
  });
});

describe('a claim under the name that a VM would make', () => {
  test.each<[sentence: string, claim: PersistentVolumeClaim, kind: string, message?: string]>([
    ['that was made for it is its own', own, 'own'],
    [
      'of a VM of this name before is left alone',
      markedFor('before', 'web'),
      'foreign',
      'go on with that disk',
    ],
    [
      'that another VM has is left alone',
      markedFor('other', 'other'),
      'foreign',
      'does not belong to this VM',
    ],
    ['that is being deleted goes away, also its own', withMetadata({ deletionTimestamp: 'now' }), 'going'],
    [
      "that nobody marked is somebody else's",
      withMetadata({ annotations: {} }),
      'foreign',
      'does not belong',
    ],
  ])('%s', (_sentence, claim, kind, message = '') => {
    const holder = holderOfOwn(claim, vm);
    expect(holder.kind).toBe(kind);
    expect('message' in holder ? holder.message : '').toContain(message);
  });
});

describe('a claim that a VM names', () => {
  test.each<[sentence: string, claim: PersistentVolumeClaim, expected: object]>([
    ['and has already is its own', own, { kind: 'own' }],
    [
      'and another had is free if that one is gone',
      markedFor('a', 'b'),
      { kind: 'free', last: { name: 'b', uid: 'a' } },
    ],
    ['and nobody had is free', withMetadata({ annotations: {} }), { kind: 'free', last: undefined }],
    [
      'and that has no label is not for it',
      withMetadata({ annotations: {}, labels: {} }),
      { kind: 'foreign', message: expect.stringContaining('no label svc3.dev/disk=true') },
    ],
    [
      'and that something controls is not for it',
      withMetadata({ annotations: {}, ownerReferences: owner({ controller: true }) }),
      { kind: 'foreign', message: expect.stringContaining('belongs to StatefulSet db') },
    ],
    [
      'and that something owns and does not control is free',
      withMetadata({ annotations: {}, ownerReferences: owner({}) }),
      { kind: 'free', last: undefined },
    ],
    [
      'and whose last VM cannot be found is not for it',
      withMetadata({ annotations: { 'svc3.dev/vm-uid': 'a' }, labels: { 'svc3.dev/disk': 'true' } }),
      { kind: 'foreign', message: expect.stringContaining('no label svc3.dev/vm') },
    ],
    [
      'and that is a block device is not for it',
      { ...withMetadata({ annotations: {} }), spec: { volumeMode: 'Block' } },
      { kind: 'foreign', message: expect.stringContaining('volumeMode Block') },
    ],
    [
      'and that is being deleted is not for it',
      withMetadata({ deletionTimestamp: 'now' }),
      { kind: 'foreign', message: expect.stringContaining('is being deleted') },
    ],
  ])('%s', (_sentence, claim, expected) => {
    expect(holderOfNamed(claim, vm)).toEqual(expected);
  });
});

describe('the claim that is made for a disk', () => {
  const requested = (bytes: string | undefined) =>
    buildClaim(vm, bootClaim(vm, persistent(bytes === undefined ? {} : { size: bytes })), vmSettings()).spec
      ?.resources?.requests?.['storage'];

  test.each([
    ['10Gi', '11Gi'],
    ['1Gi', '1127Mi'],
    // A small one by at least what tables and the runner's own files take.
    ['640Mi', '704Mi'],
    ['100Mi', '164Mi'],
    ['1', '65Mi'],
    [undefined, '22Gi'],
  ])('of %s is of %s: a tenth more, in whole Mi', (bytes, expected) => {
    expect(requested(bytes)).toBe(expected);
  });

  test('is marked as that of its VM, and belongs to nobody: it may outlive it', () => {
    expect(built).toEqual({
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: {
        name: 'svc3-vm-web',
        namespace: 'team',
        labels: {
          'svc3.dev/vm': 'web',
          'svc3.dev/disk': 'true',
          'app.kubernetes.io/part-of': 'svc3',
          'app.kubernetes.io/managed-by': 'svc3',
        },
        annotations: { 'svc3.dev/vm-uid': 'vm-uid', 'svc3.dev/disk-image': effective.image },
      },
      spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1127Mi' } } },
    });
  });

  test("is of the disk's class, else of the installation's", () => {
    const classOf = (own: string | undefined, of: string | undefined) =>
      buildClaim(
        vm,
        { name: 'x', size: '1Gi', storageClassName: own },
        vmSettings(of === undefined ? {} : { storageClassName: of }),
      ).spec?.storageClassName;
    expect([classOf('own', 'chart'), classOf(undefined, 'chart'), classOf(undefined, undefined)]).toEqual([
      'own',
      'chart',
      undefined,
    ]);
  });

  test('says what the VM says of its disk', () => {
    const disk = { storage: 'Persistent', size, storageClassName: 'fast', whenDeleted: 'Delete' } as const;
    expect(
      bootClaim(aVm({ spec: { disk: { ...disk, claimName: 'kept' } } }), { ...effective, disk }),
    ).toEqual({
      field: 'disk',
      name: 'kept',
      isNamed: true,
      size,
      storageClassName: 'fast',
      image: effective.image,
      goesWithVm: true,
    });
    expect(bootClaim(aVm(), undefined)).toMatchObject({
      name: 'svc3-vm-web',
      isNamed: false,
      goesWithVm: false,
    });
  });
});

test('a claim is grown where it is the disk of the VM, and only there', () => {
  const needs = bootNeeds(vm);
  expect(grownStorage(vm, own, needs)).toBe('11Gi');
  expect(grownStorage(vm, markedFor('before', 'vm'), needs)).toBeUndefined();
  expect(grownStorage(vm, withMetadata({ annotations: {} }), needs)).toBeUndefined();
  expect(grownStorage(vm, undefined, needs)).toBeUndefined();
  expect(grownStorage(vm, own, bootNeeds(aVm()))).toBeUndefined();
  expect(grownStorage(vm, own, { size: '1Gi' })).toBeUndefined();
  expect(grownStorage(vm, own, { size: '1025Mi' })).toBe('1128Mi');
  expect(grownStorage(vm, { ...own, spec: {} }, needs)).toBeUndefined();
});

test.each([
  ['a volume as large as was asked for', '1Gi', '1Gi', { storage: '11Gi', isAsked: false }],
  ['a volume that is not there yet', '11Gi', undefined, undefined],
  ['a volume that has not grown yet', '11Gi', '1Gi', { storage: '11Gi', isAsked: true }],
  ['a volume that has grown', '11Gi', '11Gi', undefined],
  ['a volume that had more from the start', '1Gi', '12Gi', undefined],
  [
    'a volume that had more from the start, and too little',
    '1Gi',
    '10Gi',
    { storage: '11Gi', isAsked: false },
  ],
])('what a claim lacks goes by its volume: %s', (_sentence, storage, capacity, lack) => {
  const claim: PersistentVolumeClaim = {
    ...own,
    spec: { ...own.spec, resources: { requests: { storage } } },
    status:
      capacity === undefined ? { phase: 'Pending' } : { phase: 'Bound', capacity: { storage: capacity } },
  };
  expect(claimLack(vm, claim, bootNeeds(vm))).toEqual(lack);
  expect(grownStorage(vm, claim, bootNeeds(vm))).toBe(lack?.isAsked === false ? '11Gi' : undefined);
});

describe('the memory of a guest that may be written to its claim', () => {
  const size = '10Gi';
  const storageOf = (of: Vm, settings: EffectiveSettings) =>
    buildClaim(of, bootClaim(of, settings), vmSettings()).spec?.resources?.requests?.['storage'];

  test.each([
    ['suspendTo: Disk of the VM', { suspendTo: 'Disk' }, {}, '15770Mi'],
    ['suspendTo: Disk of its VMConfig', { config: 'c' }, { suspendTo: 'Disk' }, '15770Mi'],
    ['suspendTo: Disk that the VM says no longer', {}, { suspendTo: 'Disk' }, '11Gi'],
    ['onEviction: Suspend of the VM', { onEviction: 'Suspend' }, {}, '15770Mi'],
    ['onEviction: Suspend of its VMConfig', {}, { onEviction: 'Suspend' }, '15770Mi'],
    [
      'suspendTo: Memory of the VM, whatever its VMConfig says',
      { config: 'c', suspendTo: 'Memory' },
      { suspendTo: 'Disk' },
      '11Gi',
    ],
    ['nothing', {}, {}, '11Gi'],
    ['a GPU', { suspendTo: 'Disk' }, { architecture: 'amd64', gpuPassthrough: 'Enabled' }, '11Gi'],
  ] as const)('has room there: %s', (_sentence, spec, settings, storage) => {
    expect(storageOf(aVm({ spec }), persistent({ size }, settings))).toBe(storage);
  });

  test('makes the claim grow when it is asked for later, where svc3 has made the claim', () => {
    const status = { effective: persistent({ size }) };
    const later = aVm({ spec: { suspendTo: 'Disk' }, status });
    const has = buildClaim(aVm(), bootClaim(aVm(), persistent({ size })), vmSettings());
    const claim = { ...has, metadata: storedMeta(has.metadata) };
    expect(grownStorage(later, claim, bootNeeds(later))).toBe('15770Mi');
    expect(grownStorage(aVm({ status }), claim, bootNeeds(aVm({ status })))).toBeUndefined();
    const disk = { storage: 'Persistent', claimName: claim.metadata.name } as const;
    const named = aVm({ spec: { suspendTo: 'Disk', disk }, status });
    expect(grownStorage(named, claim, bootNeeds(named))).toBeUndefined();
  });
});
