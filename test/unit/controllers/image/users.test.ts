import { describe, expect, test } from 'vitest';
import type { Vm } from '../../../../src/api/vm.ts';
import type { VmConfig } from '../../../../src/api/vmconfig.ts';
import {
  repositoryPathOf,
  referenceOf,
  storeRegistry,
  storeScheme,
} from '../../../../src/controllers/image/repositorypath.ts';
import { usersOf } from '../../../../src/controllers/image/users.ts';

const store = { url: 'http://store.example.com:5000/disks/', prefix: 'svc3' };

describe('the repository path of a disk', () => {
  test('is a repository for each name of a namespace, ISOs apart', () => {
    expect(repositoryPathOf(store, 'Image', 'team', 'a')).toEqual({
      registry: 'store.example.com:5000',
      repository: 'disks/svc3/team/a',
    });
    expect(repositoryPathOf(store, 'ISO', 'team', 'a').repository).toBe('disks/svc3/team/iso/a');
    expect(repositoryPathOf({ url: 'r.example.com', prefix: '' }, 'Image', 'team', 'a').repository).toBe(
      'team/a',
    );
    expect(referenceOf(repositoryPathOf(store, 'Image', 'team', 'a'), 'sha256:1')).toBe(
      'store.example.com:5000/disks/svc3/team/a@sha256:1',
    );
  });

  test('is reached as the address says', () => {
    expect([storeRegistry(store), storeScheme(store)]).toEqual(['store.example.com:5000', 'http']);
    expect(storeScheme({ url: 'r.example.com', prefix: '' })).toBe('https');
  });
});

describe('the users of a disk', () => {
  const disk = {
    kind: 'Image',
    name: 'a',
    namespace: 'team',
    repository: 'r/svc3/team/a',
    isStored: true,
  } as const;
  const aVm = (name: string, spec: object, effective?: object): Vm =>
    ({
      metadata: { name, namespace: 'team' },
      spec,
      ...(effective === undefined ? {} : { status: { effective } }),
    }) as unknown as Vm;
  const config = { metadata: { name: 'c' }, spec: { image: 'a' } } as unknown as VmConfig;

  test.each<[string, Vm, string[]]>([
    [
      'a VM that runs any version of it',
      aVm('x', { image: 'a' }, { image: 'r/svc3/team/a@sha256:0' }),
      ['x'],
    ],
    ['a VM that names it and is not placed', aVm('x', { image: 'a' }), ['x']],
    ['a VM whose VMConfig names it', aVm('x', { config: 'c' }), ['x']],
    ['no VM that runs another', aVm('x', { image: 'a' }, { image: 'r/svc3/other/a@sha256:0' }), []],
    ['no VM whose own image is another', aVm('x', { config: 'c', image: 'b' }), []],
    ['no VM that has an ISO of its name', aVm('x', { image: 'b', iso: 'a' }), []],
  ])('include %s', (_what, vm, users) => {
    expect(usersOf(disk, [vm], (name) => (name === 'c' ? config : undefined))).toEqual(users);
  });

  test('that has nothing in the store are those that run from one of its name before', () => {
    const empty = { ...disk, isStored: false };
    const vms = [
      aVm('waits', { image: 'a' }),
      aVm('runs', { image: 'a' }, { image: 'r/svc3/team/a@sha256:0' }),
    ];
    expect(usersOf(empty, vms, () => undefined)).toEqual(['runs']);
  });

  test('of an ISO are those that have it in their drive', () => {
    const iso = {
      kind: 'ISO',
      name: 'a',
      namespace: 'team',
      repository: 'r/svc3/team/iso/a',
      isStored: true,
    } as const;
    expect(usersOf(iso, [aVm('x', { image: 'b', iso: 'a' })], () => undefined)).toEqual(['x']);
  });

  test("elsewhere are those whose VMConfig of this namespace names it; their names are nobody else's to know", () => {
    const elsewhere = (name: string, spec: object): Vm =>
      ({ metadata: { name, namespace: 'ci' }, spec: { config: 'c', ...spec } }) as unknown as Vm;
    const configOf = (name: string, namespace: string) =>
      name === 'c' && namespace === 'team' ? config : undefined;
    const vms = [
      elsewhere('one', { configNamespace: 'team' }),
      elsewhere('two', { configNamespace: 'team' }),
      elsewhere('own-config', {}),
      elsewhere('own-image', { configNamespace: 'team', image: 'a' }),
      aVm('here', { image: 'a' }),
    ];
    expect(usersOf(disk, vms, configOf)).toEqual(['here', 'of namespace ci']);
  });
});
