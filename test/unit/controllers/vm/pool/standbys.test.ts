import { describe, expect, test, onTestFinished, vi } from 'vitest';
import type { Node, Pod } from '../../../../../src/api/core.ts';
import type { EffectiveSettings, Vm } from '../../../../../src/api/vm.ts';
import type { VmPool } from '../../../../../src/api/vmpool.ts';
import { isStandby, poolIndex } from '../../../../../src/controllers/vm/facts/standby.ts';
import { Neighbourhood } from '../../../../../src/controllers/vm/pool/neighbourhood.ts';
import { Standbys } from '../../../../../src/controllers/vm/pool/standbys.ts';
import { Inventory } from '../../../../../src/placement/inventory.ts';
import { ranges } from '../../../placement/builders.ts';
import { aNode, aPool, aPoolVm, aStandby, ownedBy } from '../../vmpool/builders.ts';
import { aVm, effective } from '../builders.ts';

interface World {
  pods: Pod[];
  pools: VmPool[];
  vms: Vm[];
  node: Node | undefined;
  standbys: Standbys;
  delete(pod: Pod): void;
}

function aWorld(given: Partial<Pick<World, 'pods' | 'pools' | 'node'>> = {}): World {
  const told: ((change: { kind: 'deleted'; object: Pod }) => void)[] = [];
  const world: World = {
    pods: [aStandby('1'), aStandby('2')],
    pools: [aPool()],
    vms: [],
    node: aNode(),
    ...given,
    standbys: undefined as never,
    delete(pod) {
      world.pods = world.pods.filter((one) => one !== pod);
      for (const tell of told) tell({ kind: 'deleted', object: pod });
    },
  };
  const caches = {
    pods: {
      byIndex: (_index: string, key: string) => world.pods.filter((pod) => poolIndex.pool(pod).includes(key)),
      onChange: (tell: (typeof told)[number]) => void told.push(tell),
    },
    vms: {
      byIndex: (_index: string, key: string) =>
        world.vms.filter(({ metadata, status }) => `${metadata.namespace}/${status?.podName}` === key),
    },
    pools: {
      get: (name: string, namespace: string) =>
        world.pools.find(({ metadata }) => metadata.name === name && metadata.namespace === namespace),
      list: (namespace: string) => world.pools.filter(({ metadata }) => metadata.namespace === namespace),
    },
    nodes: { get: () => world.node },
  };
  world.standbys = new Standbys(caches, new Neighbourhood(new Inventory(ranges)));
  return world;
}

const chosen = ({ standbys }: World, name: string) => standbys.ofPool(aPoolVm(name))?.metadata.name;

describe('a VM that names its pool', () => {
  test('gets a guest of its own, and the same VM has one only', () => {
    const world = aWorld();
    expect(chosen(world, 'a')).toBe('svc3-pool-1');
    expect(chosen(world, 'b')).toBe('svc3-pool-2');
    expect(chosen(world, 'a')).toBe('svc3-pool-1');
    expect(chosen(world, 'c')).toBeUndefined();
  });

  test('gets the guest of one that is forgotten', () => {
    const world = aWorld({ pods: [aStandby('1')] });
    chosen(world, 'a');
    world.standbys.forget('uid-of-a');
    expect(chosen(world, 'b')).toBe('svc3-pool-1');
  });

  test('leaves alone what the status of another VM names', () => {
    const world = aWorld({ pods: [aStandby('1')] });
    world.vms = [aPoolVm('before', { status: { podName: 'svc3-pool-1' } })];
    expect(chosen(world, 'a')).toBeUndefined();
    expect(world.standbys.holderOf(aStandby('1'))).toBe('uid-of-before');
  });

  test('is not kept waiting for a guest whose pod has gone', () => {
    const world = aWorld({ pods: [aStandby('1')] });
    chosen(world, 'a');
    const [gone] = world.pods;
    if (gone !== undefined) world.delete(gone);
    expect(world.standbys.holderOf(aStandby('1'))).toBeUndefined();
  });

  const taint = { key: 'karpenter.sh/disrupted', effect: 'NoSchedule' };
  const other = { key: 'team', value: 'x', effect: 'NoSchedule' };
  const passing = { key: 'node.kubernetes.io/memory-pressure', effect: 'NoSchedule' };
  const tolerating = {
    pods: [aStandby('1', { settings: { tolerations: [{ key: taint.key, operator: 'Exists' }] } })],
  };

  const another = aPool({ template: { image: effective.image, cpu: 2 } });
  test.each<[sentence: string, given: Parameters<typeof aWorld>[0]]>([
    ['boots still', { pods: [aStandby('1', { isIdle: false })] }],
    ['is on a cordoned node', { node: aNode({ isCordoned: true }) }],
    ['is on a lost node', { node: aNode({ isLost: true }) }],
    ['is on a node that is gone', { node: undefined }],
    ['is on a node of another namespace', { node: aNode({ reservedFor: 'others' }) }],
    ['is on a node with a taint', { node: aNode({ taints: [taint] }) }],
    [
      'is on a node with another taint than it tolerates',
      { ...tolerating, node: aNode({ taints: [taint, other] }) },
    ],
    ['is another VM’s', { pods: [ownedBy(aPoolVm('other'), aStandby('1'))] }],
    ['was made from another template', { pods: [aStandby('1', { pool: another })] }],
    ['has settings that cannot be read', { pods: [withSettings(aStandby('1'), '?')] }],
    ['is of a pool that is gone', { pools: [] }],
    ['is of a pool that is being deleted', { pools: [terminating(aPool())] }],
    ['is being deleted', { pods: [terminating(aStandby('1'))] }],
  ])('gets none that %s', (_sentence, given) => {
    expect(chosen(aWorld(given), 'a')).toBeUndefined();
  });

  test('gets one that is on a node of its own namespace', () => {
    expect(chosen(aWorld({ node: aNode({ reservedFor: 'team' }) }), 'a')).toBe('svc3-pool-1');
  });

  test.each<[sentence: string, given: Parameters<typeof aWorld>[0]]>([
    ['that the guest tolerates', { ...tolerating, node: aNode({ taints: [taint] }) }],
    ['that only prefers others', { node: aNode({ taints: [{ ...taint, effect: 'PreferNoSchedule' }] }) }],
    ['that Kubernetes takes off again', { node: aNode({ taints: [passing] }) }],
  ])('gets one that is on a node with a taint %s', (_sentence, given) => {
    expect(chosen(aWorld(given), 'a')).toBe('svc3-pool-1');
  });

  test('of another namespace gets none of this one', () => {
    const vm = aPoolVm('a');
    const elsewhere = { ...vm, metadata: { ...vm.metadata, namespace: 'other' } };
    expect(aWorld().standbys.ofPool(elsewhere)).toBeUndefined();
  });
});

describe('a VM that names the VMConfig of a pool', () => {
  const metadata = [{ name: 'stage', value: 'old' }];
  const pool = aPool({ template: { config: 'builder' }, serveConfig: true });
  const vm = aVm({ spec: { config: 'builder' } });
  const served = (
    asked: Partial<EffectiveSettings>,
    given: { vm?: Vm; pool?: VmPool; settings?: object } = {},
  ) =>
    aWorld({
      pools: [given.pool ?? pool],
      pods: [aStandby('1', { pool: given.pool ?? pool, settings: given.settings ?? {} })],
    }).standbys.ofConfig(given.vm ?? vm, { ...effective, ...asked }) !== undefined;

  test('gets a guest that is as one booted for it', () => {
    expect(served({})).toBe(true);
  });

  test.each<[what: string, asked: Partial<EffectiveSettings>]>([
    [
      'all switches as they are',
      { scheduler: 'Spread', tagRequired: false, netBoost: true, legacyIO: false },
    ],
    ['that its disk is Ephemeral', { disk: { storage: 'Ephemeral' } }],
    ['nothing of its disk', { disk: {} }],
    ['what becomes of a disk that it has not', { disk: { storage: 'Ephemeral', whenDeleted: 'Retain' } }],
    ['that it is suspended in memory', { suspendTo: 'Memory' }],
    ['that it is shut down at the end of its pod', { onEviction: 'Shutdown' }],
    ['that its services have ports of the node', { nodePorts: { ssh: 'Enabled', screenshare: 'Enabled' } }],
    ['empty lists', { ports: [], tolerations: [], topologySpreadConstraints: [], metadata: [] }],
    ['nothing of its screen', { display: {} }],
    ['its memory in Ki', { memory: '262144Ki' }],
    ['its memory as a number', { memory: '268435456' }],
    ['its memory with a fraction', { memory: '0.25Gi' }],
  ])(
    'gets one where it says what holds anyway, as clients do that send all their defaults: %s',
    (_, said) => {
      expect(served(said)).toBe(true);
      expect(served({}, { settings: said })).toBe(true);
    },
  );

  test('gets one where both say the same in other words', () => {
    expect(served({ memory: '4096Mi' }, { settings: { memory: '4Gi' } })).toBe(true);
    expect(served({ disk: { size: '8192Mi' } }, { settings: { disk: { size: '8Gi' } } })).toBe(true);
    const ports = [
      { guestPort: 80, protocol: 'TCP' },
      { guestPort: 53, protocol: 'UDP' },
    ] as const;
    expect(served({ ports: [...ports] }, { settings: { ports: ports.toReversed() } })).toBe(true);
    const taint = { key: 'ci', value: 'x' };
    const tolerations = [{ ...taint, operator: 'Equal' as const }];
    expect(served({ tolerations }, { settings: { tolerations: [taint] } })).toBe(true);
  });

  test('gets one that an earlier build made without what is left of a port that is not allowed', () => {
    const rest = { guestPort: 80, protocol: 'TCP' } as const;
    const portsNotAllowed = [{ ...rest, nodePort: 30_080 }];
    expect(served({ ports: [rest], portsNotAllowed }, { settings: { portsNotAllowed } })).toBe(true);
    const other = { ...rest, guestPort: 81 };
    expect(served({ ports: [rest, other], portsNotAllowed }, { settings: { portsNotAllowed } })).toBe(false);
  });

  test.each<[what: string, asked: Partial<EffectiveSettings>]>([
    ['more CPUs', { cpu: 4 }],
    ['a little more memory', { memory: '256.001Mi' }],
    ['thousands for Ki', { memory: '262144k' }],
    ['the fullest node', { scheduler: 'Pack' }],
    ['another network card', { netBoost: false }],
    ['a disk of some size', { disk: { size: '8Gi' } }],
    ['that its disk goes with it', { disk: { whenDeleted: 'Delete' } }],
    ['a memory on the disk', { suspendTo: 'Disk' }],
    ['no port for SSH', { nodePorts: { ssh: 'Disabled', screenshare: 'Enabled' } }],
    ['to be ready without being asked', { readiness: { none: {} } }],
    ['a larger screen', { display: { width: 1920 } }],
    ['a port', { ports: [{ guestPort: 80, protocol: 'TCP' }] }],
  ])('gets none where it asks for something else: %s', (_, asked) => {
    expect(served(asked)).toBe(false);
    expect(served({}, { settings: asked })).toBe(false);
  });

  test('gets none of which a quantity is none, as somebody may have written who may write pods', () => {
    const pods = [withSettings(aStandby('1', { pool }), JSON.stringify({ ...effective, memory: 'much' }))];
    const { standbys } = aWorld({ pools: [pool], pods });
    expect(standbys.ofConfig(vm, effective)).toBeUndefined();
  });

  test('that none of hundreds suits reads what they say once, since they are alike; one that differs is judged by itself', () => {
    const pods = Array.from({ length: 500 }, (_, i) => aStandby(`${i}`, { pool }));
    const { standbys } = aWorld({ pools: [pool], pods });
    const read = vi.spyOn(JSON, 'parse');
    onTestFinished(() => read.mockRestore());
    expect(standbys.ofConfig(vm, { ...effective, cpu: 4 })).toBeUndefined();
    expect(read).toHaveBeenCalledOnce();
    const large = aStandby('large', { pool, settings: { cpu: 4 } });
    const world = aWorld({ pools: [pool], pods: [...pods, large] });
    expect(world.standbys.ofConfig(vm, { ...effective, cpu: 4 })).toBe(large);
  });

  test('gets none that was booted with what the VMConfig said to guests before', () => {
    expect(served({ metadata: [{ name: 'stage', value: 'new' }] }, { settings: { metadata } })).toBe(false);
    expect(served({}, { settings: { metadata } })).toBe(false);
    expect(served({ metadata }, { settings: { metadata } })).toBe(true);
  });

  test('gets one where it has its own deadline', () => {
    const own = { startDeadlineSeconds: 60 };
    const speaking = aVm({ spec: { config: 'builder', ...own } });
    expect(served({ ...own, metadata }, { vm: speaking, settings: { metadata } })).toBe(true);
  });

  test.each<[what: string, own: Partial<EffectiveSettings>]>([
    ['metadata', { metadata: [{ name: 'job', value: '7' }] }],
    ['keys', { sshAuthorizedKeys: ['ssh-ed25519 AAAA mine'] }],
  ])('gets none with %s of its own, which a guest without a hook would never learn of', (_, own) => {
    const speaking = aVm({ spec: { config: 'builder', ...own } });
    expect(served(own, { vm: speaking })).toBe(false);
    expect(
      served({ ...own, metadata: own.metadata ?? metadata }, { vm: speaking, settings: { metadata } }),
    ).toBe(false);
    expect(served(own, { vm: speaking, settings: own })).toBe(true);
  });

  test('gets none of a pool that serves only those who name it', () => {
    expect(served({}, { pool: aPool({ template: { config: 'builder' } }) })).toBe(false);
  });

  test('gets none with the VMConfig of another namespace', () => {
    expect(served({}, { vm: aVm({ spec: { config: 'builder', configNamespace: 'other' } }) })).toBe(false);
  });
});

test('pods of other VMs and of other makers are no guests of pools', () => {
  expect(isStandby(aStandby('1'))).toBe(true);
  const { metadata } = aStandby('1');
  expect(isStandby({ metadata: { ...metadata, name: 'mine' } })).toBe(false);
  expect(isStandby({ metadata: { ...metadata, labels: {} } })).toBe(false);
});

function terminating<T extends { metadata: object }>(object: T): T {
  return { ...object, metadata: { ...object.metadata, deletionTimestamp: '2026-11-01T10:00:00Z' } };
}

function withSettings(pod: Pod, text: string): Pod {
  const annotations = { ...pod.metadata.annotations, 'svc3.dev/effective': text };
  return { ...pod, metadata: { ...pod.metadata, annotations } };
}
