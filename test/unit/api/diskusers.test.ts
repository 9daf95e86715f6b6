import { describe, expect, test } from 'vitest';
import {
  diskUsers,
  type PossibleUsers,
  refuseWhileUsed,
  type UsedDisk,
  usedDisk,
  usesSameDisks,
} from '../../../src/api/diskusers.ts';
import type { Image, ImageStatus } from '../../../src/api/image.ts';
import type { Vm, VmStatus } from '../../../src/api/vm.ts';
import type { VmConfig } from '../../../src/api/vmconfig.ts';
import type { VmPool } from '../../../src/api/vmpool.ts';
import { storedMeta } from '../../support/storedmeta.ts';
import { anImage, condition } from '../controllers/image/builders.ts';
import { aCondition, aVm, effective } from '../controllers/vm/builders.ts';

const digest = (letter: string) => `sha256:${letter.repeat(64)}`;
const repository = 'store.example.com/team/golden';
const golden: UsedDisk = {
  field: 'image',
  name: 'golden',
  namespace: 'team',
  repositories: [repository],
  isStored: true,
  isBeingMade: false,
  deletionTimestamp: undefined,
};
const empty: UsedDisk = { ...golden, isStored: false };

const named = (name: string, given: Parameters<typeof aVm>[0]) => aVm({ ...given, metadata: { name } });
const running = (name: string, reference: string) =>
  named(name, {
    spec: { image: 'golden' },
    status: { effective: { ...effective, image: reference } },
  });
/** As it was called before the address of the store changed. */
const placed = (name: string, from: { imageName: string; imageNamespace?: string }) =>
  named(name, {
    spec: { image: 'golden' },
    status: { effective: { ...effective, ...from, image: `store:5000/team/golden@${digest('a')}` } },
  });
const pool = (template: object, more: object = {}): VmPool => ({
  metadata: storedMeta({ name: 'ci', namespace: 'team', ...more }),
  spec: { template, minIdle: 1, standby: 'Suspended', serveConfig: false },
});
/** A pool that names another image by now. */
const guestsFrom = (reference: string): VmPool => ({
  ...pool({ image: 'other' }),
  status: { images: [reference] },
});
const config: VmConfig = {
  metadata: storedMeta({ name: 'small' }),
  spec: { image: 'golden', iso: 'golden' },
};

const usersOf = (
  disk: UsedDisk,
  { vms = [], pools = [], disks = [], claims = [] }: Partial<Omit<PossibleUsers, 'config'>>,
) =>
  diskUsers(disk, {
    vms,
    pools,
    disks,
    claims,
    config: (name, namespace) => (name === 'small' && namespace === 'team' ? config : undefined),
  });

describe('a claim whose VM is gone', () => {
  const claimOn = (image: string, more: object = {}) => ({
    metadata: storedMeta({
      name: 'svc3-vm-db',
      namespace: 'team',
      annotations: { 'svc3.dev/vm-uid': 'db-uid', 'svc3.dev/disk-image': image },
      ...more,
    }),
  });
  const made = claimOn(`${repository}@${digest('a')}`);

  test('uses the image that its disk was made on, whatever version of it', () => {
    expect(usersOf(golden, { claims: [made] })).toBe('claim svc3-vm-db');
    const others = claimOn(`r.example.com/other@${digest('c')},${repository}@${digest('b')}`, { name: 'b' });
    expect(usersOf(golden, { claims: [made, others] })).toBe('claims b, svc3-vm-db');
  });

  test.each([
    ['was made on another image', golden, claimOn(`${repository}-2@${digest('a')}`)],
    ['says nothing', golden, claimOn('')],
    ['is of another namespace', golden, claimOn(repository, { namespace: 'ci' })],
    ['is being deleted', golden, claimOn(repository, { deletionTimestamp: '2026-11-01T10:00:00Z' })],
    ['is asked for an ISO', { ...golden, field: 'iso' as const }, made],
  ])('uses nothing where it %s', (_what, disk, claim) => {
    expect(usersOf(disk, { claims: [claim] })).toBeUndefined();
  });

  test('is named only where its VM is not', () => {
    const there = running('web', `${repository}@${digest('a')}`);
    const vm = { ...there, metadata: { ...there.metadata, uid: 'db-uid' } };
    expect(usersOf(golden, { vms: [vm], claims: [made] })).toBe('VM web');
  });
});

describe('an image is in use by', () => {
  test.each<[what: string, vm: Vm, isUsed: boolean]>([
    ['a VM that runs from it', running('web', `${repository}@${digest('b')}`), true],
    ['a VM that runs from an earlier version of it', running('web', `${repository}@${digest('a')}`), true],
    ['a VM that runs from a tag of it', running('web', `${repository}:latest@${digest('b')}`), true],
    ['a VM that runs from a tag that nobody has pinned', running('web', `${repository}:latest`), true],
    [
      'a VM that writes its host otherwise',
      running('web', `Store.example.com/team/golden@${digest('b')}`),
      true,
    ],
    ['no VM that runs from another', running('web', `${repository}-2@${digest('b')}`), false],
    ['no VM that runs from a tag of another', running('web', `${repository}-2:latest@${digest('b')}`), false],
    ['a VM that was placed from it at another place', placed('web', { imageName: 'golden' }), true],
    [
      'no VM that was placed from one of its name elsewhere',
      placed('web', { imageName: 'golden', imageNamespace: 'ci' }),
      false,
    ],
    ['a VM that waits to be placed from it', named('web', { spec: { image: 'golden' } }), true],
    [
      'a VM that waits to be placed and names its place',
      named('web', { spec: { image: `${repository}@${digest('b')}` } }),
      true,
    ],
    [
      'a VM that waits to be placed and names a tag of its place',
      named('web', { spec: { image: `${repository}:latest` } }),
      true,
    ],
    ['one whose configuration names it', named('web', { spec: { image: undefined, config: 'small' } }), true],
    [
      'none whose own image overrides that',
      named('web', { spec: { image: 'other', config: 'small' } }),
      false,
    ],
    [
      'none whose configuration is not there',
      named('web', { spec: { image: undefined, config: 'gone' } }),
      false,
    ],
    ['none that has a medium of its name', named('web', { spec: { image: 'other', iso: 'golden' } }), false],
  ])('%s', (_what, vm, isUsed) => {
    expect(usersOf(golden, { vms: [vm] })).toBe(isUsed ? 'VM web' : undefined);
  });

  test.each<[what: string, pool: VmPool, isUsed: boolean]>([
    ['a pool of it', pool({ image: 'golden' }), true],
    ['a pool of its place', pool({ image: `${repository}@${digest('b')}` }), true],
    ['a pool of a tag of its place', pool({ image: `${repository}:latest@${digest('b')}` }), true],
    [
      'a pool whose guests were made from a tag of it',
      guestsFrom(`${repository}:latest@${digest('a')}`),
      true,
    ],
    ['a pool whose configuration names it', pool({ config: 'small' }), true],
    ['no pool whose own image overrides that', pool({ config: 'small', image: 'other' }), false],
    ['no pool of another namespace', pool({ image: 'golden' }, { namespace: 'ci' }), false],
    ['a pool whose guests were made from it before', guestsFrom(`${repository}@${digest('a')}`), true],
    ['no pool whose guests are of another', guestsFrom(`${repository}-2@${digest('a')}`), false],
    [
      'no pool that is being deleted',
      pool({ image: 'golden' }, { deletionTimestamp: '2027-01-01T00:00:00Z' }),
      false,
    ],
  ])('%s', (_what, one, isUsed) => {
    expect(usersOf(golden, { pools: [one] })).toBe(isUsed ? 'VMPool ci' : undefined);
  });

  test('VMs and pools, told apart', () => {
    expect(
      usersOf(golden, {
        vms: ['b', 'a'].map((name) => named(name, { spec: { image: 'golden' } })),
        pools: [pool({ image: 'golden' })],
      }),
    ).toBe('VMs a, b and VMPool ci');
  });
});

describe('while it is being deleted it is in use by', () => {
  const going = { ...golden, deletionTimestamp: '2026-11-01T10:00:00Z' };
  const told = (reason: string, spec: object = { image: 'golden' }, more: VmStatus = {}) => {
    const conditions = [aCondition('Scheduled', { status: 'False', reason })];
    return named('web', { spec, status: { ...more, conditions } });
  };
  const isPlaced = { effective: { ...effective, image: `${repository}@${digest('b')}` } };

  test.each<[what: string, vm: Vm, isUsed: boolean]>([
    ['a VM of which nothing is said yet', named('web', { spec: { image: 'golden' } }), true],
    ['a VM that waits for a node', told('Unschedulable'), true],
    ['no VM that waits until it is gone', told('ImageTerminating'), false],
    [
      'no VM that waits until the image of its configuration is gone',
      told('ImageTerminating', { image: undefined, config: 'small' }),
      false,
    ],
    [
      'a VM that names its place, and waits for a medium',
      told('ImageTerminating', { image: `${repository}:latest`, iso: 'other' }),
      true,
    ],
    ['a VM that ran from it, and waits for a medium', told('ImageTerminating', {}, isPlaced), true],
  ])('%s', (_what, vm, isUsed) => {
    expect(usersOf(going, { vms: [vm] })).toBe(isUsed ? 'VM web' : undefined);
  });

  test('it is in use again by the VM that waited, once it is another one that nobody deletes', () => {
    expect(usersOf(golden, { vms: [told('ImageTerminating')] })).toBe('VM web');
  });
});

describe('while it is copied it is in use by', () => {
  const asked = '2026-11-01T10:00:00Z';
  const copy = (status?: ImageStatus, metadata: Partial<Image['metadata']> = {}) =>
    anImage({ image: { name: 'golden' } }, status, { name: 'mine', creationTimestamp: asked, ...metadata });
  const stalled = (reason: string): ImageStatus => ({ conditions: [condition('Stalled', 'True', reason)] });

  test.each<[what: string, copy: Image, isUsed: boolean]>([
    ['a copy that has not begun', copy(), true],
    ['a copy that is being made', copy({ conditions: [condition('Ready', 'False', 'Working')] }), true],
    ['a copy that waits for a credential', copy(stalled('RegistryDenied')), true],
    ['no copy that is done', copy({ digest: digest('c') }), false],
    ['no copy that was refused', copy(stalled('DiskRefused')), false],
    ['no copy that no store is there for', copy(stalled('StoreMissing')), false],
    ['no copy that is being deleted', copy(undefined, { deletionTimestamp: asked }), false],
    ['no copy of another', anImage({ image: { name: 'other' } }, undefined, { name: 'mine' }), false],
    ['no copy of another namespace', copy(undefined, { namespace: 'ci' }), false],
    ['no copy of itself', copy(undefined, { name: 'golden' }), false],
  ])('%s', (_what, one, isUsed) => {
    expect(usersOf(golden, { disks: [one] })).toBe(isUsed ? 'Image mine' : undefined);
  });

  test.each<[what: string, disk: Partial<UsedDisk>, isUsed: boolean]>([
    ['a copy, where it is still being made itself', { isStored: false, isBeingMade: true }, true],
    ['no copy, where nothing of it will come', { isStored: false }, false],
    ['a copy that was asked for before its deletion', { deletionTimestamp: '2026-11-01T10:00:01Z' }, true],
    ['a copy that was asked for in the same second', { deletionTimestamp: asked }, true],
    ['no copy that came too late', { deletionTimestamp: '2026-11-01T09:59:59Z' }, false],
  ])('%s', (_what, disk, isUsed) => {
    expect(usersOf({ ...golden, ...disk }, { disks: [copy()] })).toBe(isUsed ? 'Image mine' : undefined);
  });

  test('copies beside VMs, and an ISO by other ISOs', () => {
    const vms = [named('web', { spec: { image: 'golden' } })];
    expect(usersOf(golden, { vms, disks: [copy()] })).toBe('VM web and Image mine');
    expect(usersOf({ ...golden, field: 'iso' }, { disks: [copy()] })).toBe('ISO mine');
  });

  test.each<[what: string, status: ImageStatus | undefined, metadata: object, isBeingMade: boolean]>([
    ['being made from the beginning', undefined, {}, true],
    ['not being made where it waits for somebody', stalled('AwaitingUpload'), {}, false],
    ['not being made once it is there', { digest: digest('c') }, {}, false],
    ['not being made any more once it is being deleted', undefined, { deletionTimestamp: asked }, false],
  ])('one is %s', (_what, status, metadata, isBeingMade) => {
    expect(usedDisk(anImage({ upload: {} }, status, metadata), 'image')).toMatchObject({ isBeingMade });
  });
});

describe('one that holds nothing yet', () => {
  test('is nothing that could be started from', () => {
    const vms = [named('waits', { spec: { image: 'golden' } })];
    expect(usersOf(empty, { vms, pools: [pool({ image: 'golden' })] })).toBeUndefined();
  });

  test('is in use by what runs from one of its name before', () => {
    const vms = [
      named('waits', { spec: { image: 'golden' } }),
      running('runs', `${repository}@${digest('a')}`),
    ];
    expect(usersOf(empty, { vms })).toBe('VM runs');
    expect(usersOf({ ...empty, repositories: [] }, { vms })).toBe('VM runs');
  });
});

test('a place whose registry has a port is told apart from its tags', () => {
  const local = { ...golden, repositories: ['store:5000/team/golden'] };
  const vms = [
    running('web', `store:5000/team/golden:latest@${digest('b')}`),
    running('other', 'store:5000/team/gold'),
  ];
  expect(usersOf(local, { vms })).toBe('VM web');
});

test('an ISO is in use by those that have it in their drive', () => {
  const vms = [named('web', { spec: { image: 'other', iso: 'golden' } })];
  expect(usersOf({ ...golden, field: 'iso' }, { vms })).toBe('VM web');
});

describe('an ISO is in use by', () => {
  const iso = { ...golden, field: 'iso' } as const;
  const placedWith = (medium: string | undefined, spec: object) => {
    const settings = medium === undefined ? effective : { ...effective, iso: medium };
    return named('web', { spec: { image: 'other', ...spec }, status: { effective: settings } });
  };
  const there = `${repository}@${digest('b')}`;

  test.each<[what: string, vm: Vm, isUsed: boolean]>([
    ['a VM that has it in its drive', placedWith(there, { iso: 'golden' }), true],
    ['a VM that has it from its configuration', placedWith(there, { config: 'small' }), true],
    ['a VM that gets it at its next start', placedWith(undefined, { iso: 'golden' }), true],
    ['a VM that is not placed yet', named('web', { spec: { image: undefined, config: 'small' } }), true],
    [
      'no VM that was placed before its configuration named it',
      placedWith(undefined, { config: 'small' }),
      false,
    ],
    ['no VM that has ejected it', placedWith(undefined, { config: 'small', iso: '' }), false],
    // It has no pod, and its settings stay as they were until there is one.
    ['no VM that goes on without it', placedWith(there, { config: 'small', iso: '' }), false],
    [
      'no VM that has ejected it before it was placed',
      named('web', { spec: { config: 'small', iso: '' } }),
      false,
    ],
  ])('%s', (_what, vm, isUsed) => {
    expect(usersOf(iso, { vms: [vm] })).toBe(isUsed ? 'VM web' : undefined);
  });
});

test('ten are named, in the order of their names, and the rest is counted', () => {
  const vms = Array.from({ length: 12 }, (_, i) =>
    named(`vm-${String(11 - i).padStart(2, '0')}`, { spec: { image: 'golden' } }),
  );
  expect(usersOf(golden, { vms })).toBe(
    'VMs vm-00, vm-01, vm-02, vm-03, vm-04, vm-05, vm-06, vm-07, vm-08, vm-09 and 2 more',
  );
});

test("VMs elsewhere whose configuration here names it are users; their names are nobody else's to know", () => {
  const elsewhere = (name: string, spec: object) =>
    aVm({ metadata: { name, namespace: 'ci' }, spec: { image: undefined, config: 'small', ...spec } });
  const vms = [
    elsewhere('one', { configNamespace: 'team' }),
    elsewhere('two', { configNamespace: 'team' }),
    elsewhere('own-config', {}),
    elsewhere('own-image', { configNamespace: 'team', image: 'golden' }),
    named('here', { spec: { image: 'golden' } }),
  ];
  expect(usersOf(golden, { vms })).toBe('VMs here, of namespace ci');
});

test('a deletion is refused with who uses it', () => {
  const disk = usedDisk(
    {
      metadata: storedMeta({ name: 'golden', namespace: 'team' }),
      spec: { source: { upload: {} } },
      status: { reference: `${repository}@${digest('b')}`, digest: digest('b') },
    },
    'image',
  );
  expect(disk).toEqual(golden);
  const users = {
    vms: [],
    pools: [pool({ image: 'golden' })],
    disks: [],
    claims: [],
    config: () => undefined,
  };
  expect(() => refuseWhileUsed(disk, users)).toThrow(
    expect.objectContaining({
      reason: 'Conflict',
      message: 'image golden is in use by VMPool ci',
      details: {
        group: 'svc3.dev',
        kind: 'images',
        name: 'golden',
        causes: [{ field: 'image', message: 'in use by VMPool ci' }],
      },
    }),
  );
  expect(() => refuseWhileUsed(disk, { ...users, pools: [] })).not.toThrow();
});

describe('whether a VM uses the same disks', () => {
  const told = (reason: string, message = '') => [
    aCondition('Booted'),
    aCondition('Scheduled', { status: 'False', reason, message }),
  ];
  const placedFrom = { ...effective, imageName: 'golden', image: `${repository}@${digest('b')}` };
  const there = aVm({ spec: { image: 'golden' }, status: { effective: placedFrom } });
  const waiting = aVm({ spec: { image: 'golden' }, status: { conditions: told('PodRefused') } });
  const withStatus = (vm: Vm, status: Partial<VmStatus>): Vm => ({
    ...vm,
    status: { ...vm.status, ...status },
  });
  const withSpec = (vm: Vm, spec: Partial<Vm['spec']>): Vm => ({ ...vm, spec: { ...vm.spec, ...spec } });
  const running = (more: Partial<typeof placedFrom> & { iso?: string }): Vm =>
    withStatus(there, { effective: { ...placedFrom, ...more } });

  test.each<[what: string, before: Vm, now: Vm]>([
    ['is placed', waiting, there],
    ['is another of its name', there, { ...there, metadata: { ...there.metadata, uid: 'another' } }],
    ['runs from another image', there, running({ image: effective.image })],
    ['runs from an Image of another name', there, running({ imageName: 'other' })],
    ['runs from an Image of another namespace', there, running({ imageNamespace: 'ci' })],
    ['has another medium', there, running({ iso: 'r.example.com/setup' })],
    ['names another image', waiting, withSpec(waiting, { image: 'other' })],
    ['takes its medium out', waiting, withSpec(waiting, { iso: '' })],
    ['has another VMConfig', waiting, withSpec(waiting, { config: 'small' })],
    ['has one of another namespace', waiting, withSpec(waiting, { configNamespace: 'ci' })],
    [
      'is told that its image is being deleted',
      waiting,
      withStatus(waiting, { conditions: told('ImageTerminating') }),
    ],
  ])('is asked where it %s: not the same', (_what, before, now) => {
    expect([usesSameDisks(before, now), usesSameDisks(now, before)]).toEqual([false, false]);
  });

  test.each<[what: string, before: Vm, now: Vm]>([
    ['says something else', waiting, withStatus(waiting, { conditions: told('PodRefused', 'again') })],
    ['waits for something else', waiting, withStatus(waiting, { conditions: told('Unschedulable') })],
    ['is suspended', there, withStatus(there, { powerState: 'Suspended' })],
    ['is to be stopped', there, withSpec(there, { powerState: 'Stopped' })],
    ['is larger', there, running({ cpu: 2 })],
    [
      'is being deleted',
      there,
      { ...there, metadata: { ...there.metadata, deletionTimestamp: '2026-11-01T10:00:00Z' } },
    ],
  ])('is asked where it %s: the same', (_what, before, now) => {
    expect(usesSameDisks(before, now)).toBe(true);
  });

  /** Fields that are read of a VM, but those that are its own for ever. */
  function readOf(vms: readonly Vm[], read: (vm: Vm) => void): Set<string> {
    const fields = new Set<string>();
    const watched = <T extends object>(object: T, path: string): T =>
      new Proxy(object, {
        get(target, key): unknown {
          const value: unknown = Reflect.get(target, key);
          if (typeof key === 'symbol' || typeof value === 'function') return value;
          const at = /^\d+$/.test(key) ? path : `${path}.${key}`;
          if (typeof value === 'object' && value !== null) return watched(value, at);
          fields.add(at);
          return value;
        },
      });
    for (const vm of vms) read(watched(vm, 'vm'));
    for (const own of ['name', 'namespace']) fields.delete(`vm.metadata.${own}`);
    return fields;
  }

  test('is told by all that is read to find the users of a disk', () => {
    const iso = { ...golden, field: 'iso' } as const;
    const going = { ...golden, deletionTimestamp: '2026-11-01T10:00:00Z' };
    const unknown = { ...golden, repositories: [] };
    const vms = [
      there,
      waiting,
      running({ image: effective.image }),
      withSpec(waiting, { iso: 'golden' }),
      withStatus(waiting, { conditions: told('ImageTerminating') }),
      aVm({ spec: { image: undefined, config: 'small', configNamespace: 'team' } }),
    ];
    const byUsers = readOf(vms, (vm) => {
      for (const disk of [golden, iso, empty, unknown, going]) usersOf(disk, { vms: [vm] });
    });
    const byComparison = readOf(vms, (vm) => void usesSameDisks(vm, vm));
    expect([...byUsers]).toContain('vm.status.effective.imageNamespace');
    expect([...byComparison]).toEqual(expect.arrayContaining([...byUsers]));
  });
});
