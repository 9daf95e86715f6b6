import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Pod } from '../../../../src/api/core.ts';
import type { Image } from '../../../../src/api/image.ts';
import type { KubeObject } from '../../../../src/api/object.ts';
import type { EffectiveSettings, Vm, VmSpec, VmStatus } from '../../../../src/api/vm.ts';
import type { VmConfig, VmConfigSpec } from '../../../../src/api/vmconfig.ts';
import type { VmPool, VmPoolSpec } from '../../../../src/api/vmpool.ts';
import type { ReplaceReason } from '../../../../src/controllers/vm/decide.ts';
import { DeployBackoff } from '../../../../src/controllers/vm/deploybackoff.ts';
import type { VmExpectations } from '../../../../src/controllers/vm/expectations.ts';
import type { Pass } from '../../../../src/controllers/vm/pass.ts';
import { NextPod } from '../../../../src/controllers/vm/nextpod.ts';
import { NodeChoice } from '../../../../src/controllers/vm/nodechoice.ts';
import { PodCreation } from '../../../../src/controllers/vm/podcreation.ts';
import type { ClaimObserver } from '../../../../src/controllers/vm/pool/claimobserver.ts';
import { Neighbourhood } from '../../../../src/controllers/vm/pool/neighbourhood.ts';
import { PoolClaims, type PoolClaimsParts } from '../../../../src/controllers/vm/pool/poolclaims.ts';
import { type StandbyCaches, Standbys } from '../../../../src/controllers/vm/pool/standbys.ts';
import { buildPod } from '../../../../src/controllers/vm/pod/pod.ts';
import { powerStep } from '../../../../src/controllers/vm/runner/power.ts';
import type { ResolveSources } from '../../../../src/controllers/vm/resolve/resolve.ts';
import type { StatusDraft } from '../../../../src/controllers/vm/status/statusdraft.ts';
import { WaitingVms } from '../../../../src/controllers/vm/waiting.ts';
import { type ErrorReason, Svc3Error } from '../../../../src/errors.ts';
import type { KubeClient } from '../../../../src/kube/types.ts';
import { Inventory } from '../../../../src/placement/inventory.ts';
import { pinnedNode } from '../../../../src/placement/podfacts.ts';
import { storedMeta } from '../../../support/storedmeta.ts';
import { vmSettings } from '../../../support/operator.ts';
import { aNode, aPod, ranges } from '../../placement/builders.ts';
import { anImage } from '../image/builders.ts';
import { aPool, aPoolVm, aStandby } from '../vmpool/builders.ts';
import { aCondition, aPod as aVmPod, aVm, effective, podInput, runnerState } from './builders.ts';

const create = vi.fn<(resource: unknown, pod: Pod) => Promise<Pod>>();
const patch = vi.fn();
const woken = vi.fn();
const madePod = vi.fn();
/** As kube-apiserver has them. */
const liveImages = vi.fn<() => Promise<Image[]>>();
const claimed = vi.fn<ClaimObserver['claimed']>();
const choosePod = vi.fn<(vm: Vm, draft: StatusDraft) => Promise<undefined>>();
let nowMs: number;
let inventory: Inventory;
let waiting: WaitingVms;
let backoff: DeployBackoff;
/** Claims that kube-apiserver has, by name. */
let claims: Map<string, KubeObject>;

const client = {
  async create(resource: { plural: string }, object: Pod) {
    if (resource.plural === 'pods') return create(resource, object);
    if (claims.has(object.metadata.name)) throw new Svc3Error('AlreadyExists', 'there is one');
    return object;
  },
  patch,
  async get({ plural }: { plural: string }, name: string) {
    if (plural === 'vms') return aVm();
    const found = claims.get(name);
    if (found === undefined) throw new Svc3Error('NotFound', 'no such claim');
    return found;
  },
};

beforeEach(() => {
  nowMs = 0;
  claims = new Map();
  for (const mock of [create, patch, woken, madePod, claimed, choosePod, liveImages]) mock.mockReset();
  liveImages.mockResolvedValue([]);
  create.mockImplementation(async (_, pod) => ({ ...pod, metadata: storedMeta(pod.metadata) }));
  patch.mockImplementation(async (_, __, { body }) => ({ ...aVm(), metadata: body.metadata }));
  inventory = new Inventory(ranges);
  waiting = new WaitingVms(inventory, woken, { now: () => 0 });
  backoff = new DeployBackoff(() => nowMs);
});

interface Given {
  /** Guests that wait, for a VM of a pool and for one that knows of none. */
  readonly standbys?: Partial<Record<'ofPool' | 'ofConfig', () => Pod>> & {
    readonly forget?: (vmUid: string) => void;
  };
  readonly config?: VmConfig;
  /** Pools of the namespace in which no guest waits. */
  readonly pools?: readonly VmPool[];
}

/** No guest waits, and these pools are there. */
function emptyPools(pools: readonly VmPool[]): Standbys {
  const nothing = () => undefined;
  const caches: StandbyCaches = {
    pods: { byIndex: () => [], onChange: nothing },
    vms: { byIndex: () => [] },
    pools: { get: nothing, list: () => [...pools] },
    nodes: { get: nothing },
  };
  return new Standbys(caches, new Neighbourhood(inventory));
}

function podCreation(
  given: Parameters<typeof vmSettings>[0] = {},
  { standbys: there, config, pools = [] }: Given = {},
): PodCreation {
  const settings = vmSettings(given);
  const expectations = { madePod, wroteVm: () => undefined } as unknown as VmExpectations;
  const nothing = () => undefined;
  const standbys =
    there === undefined
      ? emptyPools(pools)
      : { ofPool: nothing, ofConfig: nothing, poolOfConfig: nothing, forget: nothing, ...there };
  const sources: ResolveSources = {
    vmConfig: () => config,
    image: nothing,
    iso: nothing,
    answer: nothing,
    settings,
  };
  const claimParts = {
    client,
    expectations,
    standbys,
    observer: { claimed, told: () => undefined },
    status: { choosePod },
    starts: undefined,
    monotonic: () => nowMs,
  };
  return new PodCreation({
    client: client as unknown as KubeClient,
    sources,
    settings,
    nodeChoice: new NodeChoice({
      inventory,
      waiting,
      backoff,
      whenFull: settings.whenFull,
      placed: undefined,
    }),
    nextPod: new NextPod({
      sources,
      settings,
      starts: undefined,
      controlKeys: () => 'key',
      kvmGroups: (node) => (node === undefined ? [1] : [2]),
      pullSecretVersion: () => '7',
    }),
    poolClaims: new PoolClaims(claimParts as unknown as PoolClaimsParts),
    expectations,
    nodes: { get: () => undefined },
    liveImages,
    starts: undefined,
  });
}

/** A VM that has been placed before, so that nothing of it has to be resolved. */
const placed = (more: VmStatus = {}, settings: Partial<EffectiveSettings> = {}): Vm =>
  aVm({
    metadata: { ...aVm().metadata, finalizers: ['svc3.dev/cleanup'] },
    status: { effective: { ...effective, ...settings }, ...more },
  });
const passOver = (vm: Vm, isSavedFirst = false): Pass => ({
  key: 'team/web',
  observed: { vm, isSavedFirst } as never,
  status: undefined,
});

async function deploy(vm: Vm, creation = podCreation()) {
  const pass = passOver(vm);
  const result = await creation.deploy(pass);
  const { scheduled, stalled } = pass.status?.conditions ?? {};
  return { result, scheduled, stalled };
}
const made = () => create.mock.calls[0]?.[1];
const nodeOfPod = () => /"values":\["(n\d)"\]/.exec(JSON.stringify(made()?.spec.affinity ?? {}))?.[1];
/** The end of a pod that was for a node: its kubelet has rejected it, or kube-scheduler does not bind it, for `podReason`. */
const turnedAway = (
  node: string,
  reason: ReplaceReason = 'RejectedByNode',
  podReason = reason === 'Unschedulable' ? 'Unschedulable' : 'NodeAffinity',
): Parameters<PodCreation['noteTurnedAway']>[1] => {
  const unbound = [{ type: 'PodScheduled', status: 'False', reason: podReason }];
  const pod =
    reason === 'Unschedulable'
      ? aVmPod({ status: { phase: 'Pending', conditions: unbound } })
      : aVmPod({ nodeName: node, status: { phase: 'Failed', reason: podReason } });
  return { kind: 'replace', pod, reason, node, message: 'the pod has ended' };
};
/** Whether something is assumed to be used on the node. */
const usedOn = (name: string) => inventory.node(name)?.used.some((amount) => amount > 0);

describe('a VM', () => {
  test('gets a pod on the node that was chosen, whose room is taken from then on', async () => {
    inventory.setNode(aNode('n1'));
    expect((await deploy(placed())).result).toBeUndefined();
    expect([made()?.metadata.name, nodeOfPod(), usedOn('n1')]).toEqual(['svc3-vm-web', 'n1', true]);
    expect(madePod).toHaveBeenCalledOnce();
  });

  test('is held before it has a pod, so that its deletion waits for the guest', async () => {
    inventory.setNode(aNode('n1'));
    const { finalizers: _, ...metadata } = placed().metadata;
    await deploy({ ...placed(), metadata });
    expect(patch.mock.calls[0]?.[2].body.metadata.finalizers).toEqual(['svc3.dev/cleanup']);
    expect(patch.mock.invocationCallOrder[0]).toBeLessThan(create.mock.invocationCallOrder[0] ?? 0);
  });

  test('that no node takes says so, and is woken when one does', async () => {
    const { result, scheduled } = await deploy(placed());
    expect(scheduled).toMatchObject({ status: 'False', reason: 'Unschedulable' });
    expect([result, create.mock.calls]).toEqual([{ requeueAfterMs: 60_000 }, []]);
    inventory.setNode(aNode('n1'));
    waiting.retry();
    expect(woken).toHaveBeenCalledWith('team/web');
  });

  test('that no node takes gets a pod for kube-scheduler where the installation wants that', async () => {
    await deploy(placed(), podCreation({ whenFull: 'Pod' }));
    expect(made()).toBeDefined();
    expect(nodeOfPod()).toBeUndefined();
  });

  test('waits for the report of a node that would take it, also where others are left to kube-scheduler', async () => {
    inventory.setNode(aNode('n1'));
    inventory.setPod(aPod('agent', 'n1', { cpu: 0, isNodeAgent: true }));
    const creation = podCreation({ whenFull: 'Pod' });
    const { scheduled } = await deploy(placed(), creation);
    expect([scheduled?.message, create.mock.calls]).toEqual([
      '0/1 nodes are available: 1 hardware virtualisation not reported yet.',
      [],
    ]);
    inventory.setNode(aNode('n1', { foundKvm: true, kvm: 1 }));
    waiting.retry();
    expect(woken).toHaveBeenCalledWith('team/web');
    await deploy(placed(), creation);
    expect([nodeOfPod(), made()?.spec.containers[0]?.resources?.limits]).toEqual([
      'n1',
      expect.objectContaining({ 'svc3.dev/kvm': '1' }),
    ]);
  });

  test('that is left to kube-scheduler asks for what the node can give that it names', async () => {
    inventory.setNode(aNode('n1', { cpu: 0, reportsEphemeralStorage: false }));
    inventory.setNode(aNode('n2', { kvm: 1 }));
    await deploy(placed({}, { nodeName: 'n1' }), podCreation({ whenFull: 'Pod' }));
    expect(Object.keys(made()?.spec.containers[0]?.resources?.requests ?? {})).toEqual(['cpu', 'memory']);
  });

  describe('whose pod is left to kube-scheduler and asks for hardware virtualisation', () => {
    const creation = () => podCreation({ whenFull: 'Pod' });
    const asking = (accelerator: 'kvm' | 'auto' = 'kvm') => {
      const { placement } = podInput();
      const pod = buildPod(podInput({ placement: { ...placement, node: undefined, accelerator } }));
      return { ...pod, metadata: storedMeta(pod.metadata) };
    };
    const big: Partial<EffectiveSettings> = { tag: 'big', tagRequired: true };
    const isMissing = (pod = asking()) =>
      creation().nodeForAnother(placed({}, big), pod, { ...effective, ...big }) !== undefined;

    beforeEach(() => inventory.setNode(aNode('n1', { kvm: 1 })));

    test('is made so while only others have it, as there is no node of its kind', async () => {
      await deploy(placed({}, big), creation());
      expect(made()?.spec.containers[0]?.resources?.limits).toMatchObject({ 'svc3.dev/kvm': '1' });
      expect(isMissing()).toBe(false);
    });

    test('asks in vain once the nodes of its kind have none, and one has room', () => {
      inventory.setNode(aNode('n2', { tags: ['big'] }));
      expect([isMissing(), isMissing(asking('auto'))]).toEqual([true, false]);
    });

    test.each<[what: string, node: Parameters<typeof aNode>[1]]>([
      ['has none has no room', { cpu: 0 }],
      ['has it has room', { kvm: 1 }],
      ['has it is full', { kvm: 1, cpu: 0 }],
      ['has not its device yet', { foundKvm: true }],
    ])('does not while a node of its kind that %s', (_what, node) => {
      inventory.setNode(aNode('n2', { tags: ['big'], ...node }));
      expect(isMissing()).toBe(false);
    });

    test.each<[what: string, node: Parameters<typeof aNode>[1]]>([
      ['is full', { kvm: 1, cpu: 0 }],
      ['has not reported yet', {}],
    ])('does not while one of two nodes of its kind %s, though the other has none', (_what, node) => {
      inventory.setNode(aNode('n2', { tags: ['big'] }));
      inventory.setNode(aNode('n3', { tags: ['big'], ...node }));
      inventory.setPod(aPod('agent', 'n3', { cpu: 0, isNodeAgent: true }));
      expect(isMissing()).toBe(false);
    });
  });

  test('with a disk of its own goes back to its node, and elsewhere where that turned it away', async () => {
    claims.set('svc3-vm-web', aClaim());
    inventory.setNode(aNode('n1', { cpu: 64 }));
    inventory.setNode(aNode('n2'));
    const vm = placed({ node: 'n2', powerState: 'Stopped' }, { disk: { storage: 'Persistent' } });
    await deploy(vm);
    expect(nodeOfPod()).toBe('n2');
    create.mockClear();
    const creation = podCreation();
    creation.noteTurnedAway(vm, turnedAway('n2'));
    nowMs += 60_000;
    await deploy(vm, creation);
    expect(nodeOfPod()).toBe('n1');
  });

  describe('whose node does not prepare its pod', () => {
    const pod = aVmPod({ nodeName: 'n1' });
    const onN1 = aPod('pod-uid', 'n1', { cpu: 1 });
    const unprepared = (node: string) => turnedAway(node, 'PodNotPrepared', '');
    const nodeSelectorTerms = [{ matchExpressions: [{ key: 'ssd', operator: 'Exists' as const }] }];
    const onlySsd = {
      affinity: {
        nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } },
      },
    };

    beforeEach(() => {
      inventory.setNode(aNode('n1'));
      inventory.setPod(onN1);
    });

    test.each<[boolean, string, () => unknown, Partial<EffectiveSettings>]>([
      [false, 'there is no other', () => undefined, {}],
      [true, 'there is one', () => inventory.setNode(aNode('n2')), {}],
      [false, 'the other is full', () => inventory.setNode(aNode('n2', { cpu: 0 })), {}],
      [false, 'it is to be on that node', () => inventory.setNode(aNode('n2')), { nodeName: 'n1' }],
      [
        false,
        'only that one has its GPU',
        () => inventory.setNode(aNode('n2')),
        { gpuPassthrough: 'Enabled' },
      ],
      [false, 'only that one has its label', () => inventory.setNode(aNode('n2')), onlySsd],
    ])('could be elsewhere: %s, where %s', (could, _sentence, happens, settings) => {
      inventory.setNode(aNode('n1', { labels: { ssd: '' } }));
      happens();
      expect(podCreation().hasOtherNode(placed({}, settings), pod)).toBe(could);
      expect(inventory.node('n1')?.used.some((amount) => amount > 0)).toBe(true);
    });

    test('is tried on each node once, however long that takes', async () => {
      inventory.setNode(aNode('n2'));
      const creation = podCreation();
      const vm = placed();
      expect(creation.hasOtherNode(vm, pod)).toBe(true);
      creation.noteTurnedAway(vm, unprepared('n1'));
      nowMs += 600_000;
      await deploy(vm, creation);
      expect(nodeOfPod()).toBe('n2');
      expect(creation.hasOtherNode(vm, aVmPod({ nodeName: 'n2' }))).toBe(false);
      creation.noteAlive('vm-uid', { isBound: true, isReady: true });
      expect(creation.hasOtherNode(vm, aVmPod({ nodeName: 'n2' }))).toBe(true);
    });
  });

  describe('with a disk of its own and another node that it may prefer', () => {
    const persistent = { disk: { storage: 'Persistent' as const, size: '1Gi' } };
    const withLabel = [{ key: 'ssd', operator: 'Exists' as const }];
    const affinity = {
      nodeAffinity: {
        preferredDuringSchedulingIgnoredDuringExecution: [
          { weight: 1, preference: { matchExpressions: withLabel } },
        ],
      },
    };
    const said = (spec: Partial<VmSpec>): Vm => {
      const vm = placed({ node: 'n2', powerState: 'Stopped' }, persistent);
      return {
        ...vm,
        metadata: { ...vm.metadata, generation: 2 },
        spec: { ...vm.spec, ...persistent, ...spec },
      };
    };

    beforeEach(() => {
      claims.set('svc3-vm-web', aClaim());
      inventory.setNode(aNode('n1', { tags: ['ssd'], labels: { ssd: '' } }));
      inventory.setNode(aNode('n2'));
      inventory.setPod(aPod('p', 'n1', { cpu: 4 }));
    });

    test.each<[change: string, spec: Partial<VmSpec>, node: string]>([
      ['a tag', { tag: 'ssd' }, 'n1'],
      ['what its affinity prefers', { affinity }, 'n1'],
      ['that nodes are to be packed', { scheduler: 'Pack' }, 'n1'],
      ['what holds anyway', { scheduler: 'Spread', tolerations: [] }, 'n2'],
      ['its PriorityClass', { priorityClassName: 'batch' }, 'n2'],
      ['another CPU', { cpu: 2 }, 'n2'],
    ])('goes where it is to be since it says %s', async (_change, spec, node) => {
      inventory.setPod(aPod('q', 'n2', { cpu: 1 }));
      await deploy(said(spec));
      expect(nodeOfPod()).toBe(node);
    });

    test('goes back where its volume cannot follow', async () => {
      const creation = podCreation();
      const pass = passOver(said({ tag: 'ssd' }));
      await creation.deploy(pass);
      expect(nodeOfPod()).toBe('n1');
      const vm = { ...said({ tag: 'ssd' }), status: { ...pass.status?.fields, powerState: 'Stopped' } } as Vm;
      creation.noteTurnedAway(vm, turnedAway('n1', 'Unschedulable'));
      inventory.setNode(aNode('n3', { tags: ['ssd'] }));
      create.mockClear();
      nowMs += 60_000;
      await deploy(vm, creation);
      expect(nodeOfPod()).toBe('n2');
    });
  });

  describe('whose volume is on a node that placement does not know', () => {
    const persistent = { disk: { storage: 'Persistent' as const } };
    /** One try after the other; kube-scheduler takes the pod on one node only. */
    async function triesUntil(home: string, vm: Vm, creation = podCreation()): Promise<string[]> {
      const tries: string[] = [];
      while (tries.at(-1) !== home && tries.length < 30) {
        create.mockClear();
        await deploy(vm, creation);
        const node = nodeOfPod() ?? '';
        tries.push(node);
        if (node !== home) creation.noteTurnedAway(vm, turnedAway(node, 'Unschedulable'));
        nowMs += backoff.waitMs('vm-uid') + 5_000;
      }
      return tries;
    }

    beforeEach(() => claims.set('svc3-vm-web', aClaim()));

    test('is tried on every node once, however long that takes', async () => {
      const names = Array.from({ length: 10 }, (_, i) => `n${i}`);
      for (const name of names) inventory.setNode(aNode(name));
      // The node of the first try stands in its status.
      expect(await triesUntil('n9', placed({ node: 'n0' }, persistent))).toEqual(names);
    });

    test('has all of them tried again once all have refused it', async () => {
      for (const name of ['n1', 'n2']) inventory.setNode(aNode(name));
      const creation = podCreation();
      const vm = placed({ node: 'n1' }, persistent);
      const tries = await triesUntil('n2', vm, creation);
      creation.noteTurnedAway(vm, turnedAway('n2', 'Unschedulable'));
      nowMs += 60_000;
      expect([...tries, ...(await triesUntil('n2', vm, creation))]).toEqual(['n1', 'n2', 'n1', 'n2']);
    });

    describe('and that is left to kube-scheduler where placement finds none', () => {
      /** The node that the next try is for; undefined where kube-scheduler is to find it. */
      async function nextTry(vm: Vm, creation: PodCreation): Promise<string | undefined> {
        create.mockClear();
        nowMs += backoff.waitMs('vm-uid');
        await deploy(vm, creation);
        expect(made()).toBeDefined();
        return nodeOfPod();
      }

      const ports = [{ guestPort: 80, nodePort: 20_000, protocol: 'TCP' as const }];
      const takePort = (node: string) =>
        inventory.setPod(aPod('p', node, { cpu: 0, ports: [{ port: 20_000, protocol: 'TCP' }] }));
      const asksForKvm = () => made()?.spec.containers[0]?.resources?.limits?.['svc3.dev/kvm'] === '1';
      const asksForPort = () => JSON.stringify(made()?.spec.containers).includes('20000');
      /** It knows of no node that has refused a VM. */
      const anotherLeader = () => {
        const own = backoff;
        backoff = new DeployBackoff(() => nowMs);
        const creation = podCreation({ whenFull: 'Pod' });
        backoff = own;
        return creation;
      };

      test.each<[what: string, status: VmStatus, nodes: string[]]>([
        ['that was only tried', {}, ['n1', 'n2']],
        ['that goes back first to where it was', { powerState: 'Stopped' }, ['n2', 'n1']],
      ])('gets a pod for it, %s, once every node that fits has refused it', async (_what, status, nodes) => {
        for (const name of ['n1', 'n2']) inventory.setNode(aNode(name));
        const creation = podCreation({ whenFull: 'Pod' });
        const vm = placed({ node: 'n2', ...status }, persistent);
        for (const node of nodes) {
          expect(await nextTry(vm, creation)).toBe(node);
          creation.noteTurnedAway(vm, turnedAway(node, 'Unschedulable'));
        }
        expect(await nextTry(vm, creation)).toBeUndefined();
        expect([usedOn('n1'), usedOn('n2')]).toEqual([false, false]);
      });

      test('gets one also where its own node is the only one that fits', async () => {
        inventory.setNode(aNode('n1'));
        const creation = podCreation({ whenFull: 'Pod' });
        const vm = placed({ node: 'n1', powerState: 'Stopped' }, persistent);
        creation.noteTurnedAway(vm, turnedAway('n1', 'Unschedulable'));
        expect(await nextTry(vm, creation)).toBeUndefined();
      });

      test('is tried first on a node that is new, and on all again once it has run', async () => {
        inventory.setNode(aNode('n1'));
        const creation = podCreation({ whenFull: 'Pod' });
        const vm = placed({}, persistent);
        creation.noteTurnedAway(vm, turnedAway('n1', 'Unschedulable'));
        expect(await nextTry(vm, creation)).toBeUndefined();
        inventory.setNode(aNode('n2'));
        expect(await nextTry(vm, creation)).toBe('n2');
        creation.noteAlive('vm-uid', { isBound: true, isReady: true });
        inventory.removeNode('n2');
        expect(await nextTry(vm, creation)).toBe('n1');
      });

      describe('whose node was closed meanwhile', () => {
        const openHome = () => inventory.setNode(aNode('n2'));

        /** The VM ran on n2, which is emulating and cordoned; n1 has kvm, and refuses it. `another`: the node that takes it and not the pod that it has. */
        async function left(settings: Partial<EffectiveSettings> = {}) {
          const of = { ...persistent, ...settings };
          const vm = placed({ node: 'n2', powerState: 'Stopped' }, of);
          const creation = podCreation({ whenFull: 'Pod' });
          const another = (leading = creation) =>
            leading.nodeForAnother(vm, made() as Pod, { ...effective, ...of });
          expect(await nextTry(vm, creation)).toBe('n1');
          creation.noteTurnedAway(vm, turnedAway('n1', 'Unschedulable'));
          expect(await nextTry(vm, creation)).toBeUndefined();
          return { vm, creation, another };
        }

        beforeEach(() => {
          inventory.setNode(aNode('n1', { kvm: 2 }));
          inventory.setNode(aNode('n2', { cordoned: true }));
        });

        test('asks for nothing that only the nodes have that have refused it', async () => {
          const { another } = await left();
          expect(asksForKvm()).toBe(false);
          openHome();
          expect(another()).toBeUndefined();
        });

        test('gets another pod, and goes back, where it asks for what others have and that node has not', async () => {
          inventory.setNode(aNode('n3', { kvm: 1, cpu: 0 }));
          const { vm, creation, another } = await left();
          expect([asksForKvm(), another()]).toEqual([true, undefined]);
          openHome();
          expect([another(), another(anotherLeader())]).toEqual(['n2', 'n2']);
          expect([await nextTry(vm, creation), asksForKvm()]).toEqual(['n2', false]);
        });

        test('gets another pod, and goes back, where it asks for a port that is taken there', async () => {
          takePort('n2');
          const { vm, creation, another } = await left({ ports });
          expect([asksForPort(), another()]).toEqual([true, undefined]);
          openHome();
          expect(another()).toBe('n2');
          // kube-scheduler refuses that one as well.
          inventory.setNode(aNode('n3'));
          expect([another(), another(anotherLeader())]).toEqual(['n2', 'n2']);
          expect([await nextTry(vm, creation), asksForPort()]).toEqual(['n2', false]);
        });

        test('gets no third one where that node refuses it then, as kube-scheduler can have this one there', async () => {
          inventory.setNode(aNode('n3', { kvm: 1, cpu: 0 }));
          takePort('n2');
          const { vm, creation, another } = await left({ ports });
          openHome();
          expect(await nextTry(vm, creation)).toBe('n2');
          creation.noteTurnedAway(vm, turnedAway('n2', 'Unschedulable'));
          expect([await nextTry(vm, creation), asksForKvm(), asksForPort()]).toEqual([
            undefined,
            false,
            false,
          ]);
          nowMs += 600_000;
          expect([another(), another(anotherLeader())]).toEqual([undefined, undefined]);
        });

        test('asks for what its node has where that alone has refused it, and others have more and no room', async () => {
          inventory.setNode(aNode('n1', { kvm: 1, cpu: 0 }));
          openHome();
          const vm = placed({ node: 'n2', powerState: 'Stopped' }, persistent);
          const creation = podCreation({ whenFull: 'Pod' });
          creation.noteTurnedAway(vm, turnedAway('n2', 'Unschedulable'));
          expect([await nextTry(vm, creation), asksForKvm()]).toEqual([undefined, false]);
        });

        test('gets another pod, and goes back, where it asks for local storage and that node reports none', async () => {
          const { vm, creation, another } = await left();
          inventory.setNode(aNode('n2', { reportsEphemeralStorage: false }));
          expect(another()).toBe('n2');
          expect(await nextTry(vm, creation)).toBe('n2');
          expect(another()).toBeUndefined();
        });
      });

      describe('and that never ran', () => {
        test('goes to one that emulates it, once that takes it, where those with kvm have refused it', async () => {
          inventory.setNode(aNode('n1', { kvm: 1 }));
          inventory.setNode(aNode('n2', { cpu: 0 }));
          inventory.setNode(aNode('n3', { kvm: 1, cpu: 0 }));
          const creation = podCreation({ whenFull: 'Pod' });
          const vm = placed({}, persistent);
          const another = () => creation.nodeForAnother(vm, made() as Pod, { ...effective, ...persistent });
          creation.noteTurnedAway(vm, turnedAway('n1', 'Unschedulable'));
          expect([await nextTry(vm, creation), another()]).toEqual([undefined, undefined]);
          inventory.removeNode('n3');
          expect(another()).toBeUndefined();
          inventory.setNode(aNode('n2'));
          expect([another(), await nextTry(vm, creation)]).toEqual(['n2', 'n2']);
        });

        test('goes without a port that is taken on the one that takes it by now, and stays left where all have refused it', async () => {
          const vm = placed({}, { ports });
          const creation = podCreation({ whenFull: 'Pod' });
          const another = () => creation.nodeForAnother(vm, made() as Pod, { ...effective, ports });
          inventory.setNode(aNode('n1', { cpu: 0 }));
          takePort('n1');
          expect([await nextTry(vm, creation), another()]).toEqual([undefined, undefined]);
          inventory.setNode(aNode('n1'));
          expect([another(), await nextTry(vm, creation)]).toEqual(['n1', 'n1']);
          creation.noteTurnedAway(vm, turnedAway('n1', 'Unschedulable'));
          expect([await nextTry(vm, creation), another()]).toEqual([undefined, undefined]);
        });

        test('is left without a port that is taken on the node that it names, and that has refused it', async () => {
          const settings = { ...persistent, nodeName: 'n1', ports };
          inventory.setNode(aNode('n1'));
          takePort('n1');
          const vm = placed({ node: 'n1', powerState: 'Stopped' }, settings);
          const creation = podCreation({ whenFull: 'Pod' });
          creation.noteTurnedAway(vm, turnedAway('n1', 'Unschedulable'));
          await nextTry(vm, creation);
          expect([pinnedNode(made() as Pod), asksForPort()]).toEqual([undefined, false]);
          expect(creation.nodeForAnother(vm, made() as Pod, { ...effective, ...settings })).toBeUndefined();
        });
      });

      test.each<[what: string, end: ReturnType<typeof turnedAway>]>([
        ['a kubelet has rejected it', turnedAway('n1')],
        ['no volume could be made for it yet', turnedAway('n1', 'Unschedulable', 'SchedulerError')],
      ])('has its node tried again where %s', async (_what, end) => {
        inventory.setNode(aNode('n1'));
        const creation = podCreation({ whenFull: 'Pod' });
        creation.noteTurnedAway(placed(), end);
        expect(await nextTry(placed(), creation)).toBe('n1');
      });

      test('has its node tried again while another one that would take it has not reported yet', async () => {
        inventory.setNode(aNode('n1', { foundKvm: true, kvm: 1 }));
        inventory.setNode(aNode('n2'));
        inventory.setPod(aPod('agent', 'n2', { cpu: 0, isNodeAgent: true }));
        const creation = podCreation({ whenFull: 'Pod' });
        const vm = placed({}, persistent);
        creation.noteTurnedAway(vm, turnedAway('n1', 'Unschedulable'));
        expect(await nextTry(vm, creation)).toBe('n1');
        // It is full: nothing of it is waited for.
        inventory.setPod(aPod('other', 'n2', { cpu: 8 }));
        creation.noteTurnedAway(vm, turnedAway('n1', 'Unschedulable'));
        expect(await nextTry(vm, creation)).toBeUndefined();
      });
    });

    test.each<[what: string, status: VmStatus, tries: string[]]>([
      ['its guest ran', { powerState: 'Stopped' }, ['n2']],
      ['it was only tried', {}, ['n1', 'n2']],
    ])('goes first to the node of its status where %s', async (_what, status, tries) => {
      inventory.setNode(aNode('n1', { cpu: 64 }));
      inventory.setNode(aNode('n2'));
      expect(await triesUntil('n2', placed({ node: 'n2', ...status }, persistent))).toEqual(tries);
    });

    test('goes first to the node on which its pod was, though its guest never ran', async () => {
      inventory.setNode(aNode('n1', { cpu: 64 }));
      inventory.setNode(aNode('n2'));
      const creation = podCreation();
      creation.noteAlive('vm-uid', { isBound: true, isReady: false });
      expect(await triesUntil('n2', placed({ node: 'n2' }, persistent), creation)).toEqual(['n2']);
    });

    test('does not give up its node for long where that refused it for a moment', async () => {
      for (const name of ['n0', 'n1', 'n2', 'n3', 'n4', 'n5', 'n6', 'n7', 'n8'])
        inventory.setNode(aNode(name));
      const creation = podCreation();
      const vm = placed({ node: 'n5', powerState: 'Stopped' }, persistent);
      creation.noteTurnedAway(vm, turnedAway('n5', 'Unschedulable'));
      nowMs += 100_000;
      expect(await triesUntil('n5', vm, creation)).toEqual(['n0', 'n1', 'n2', 'n5']);
    });

    test('goes without a port that is taken there, once others have refused it', async () => {
      inventory.setNode(aNode('n1'));
      inventory.setNode(aNode('n2'));
      inventory.setPod(aPod('p', 'n1', { ports: [{ port: 20_000, protocol: 'TCP' }] }));
      const ports = [{ guestPort: 80, nodePort: 20_000, protocol: 'TCP' as const }];
      const vm = placed({ node: 'n1', powerState: 'Stopped' }, { ...persistent, ports });
      expect(await triesUntil('n1', vm)).toEqual(['n2', 'n1']);
      expect(JSON.stringify(made()?.spec.containers)).not.toContain('20000');
    });
  });

  test.each([
    ['at first', 1, 'n1'],
    ['and no longer where that goes on', 6, 'n2'],
  ])(
    'whose node has just started, and rejects it, goes back to its volumes %s',
    async (_when, rejections, expected) => {
      claims.set('svc3-vm-web', aClaim());
      for (const name of ['n1', 'n2']) inventory.setNode(aNode(name));
      const creation = podCreation();
      const vm = placed({ node: 'n1', powerState: 'Stopped' }, { disk: { storage: 'Persistent' } });
      for (let i = 0; i < rejections; i++)
        creation.noteTurnedAway(vm, turnedAway('n1', 'RejectedByNode', 'UnexpectedAdmissionError'));
      nowMs += 60_000;
      await deploy(vm, creation);
      expect(nodeOfPod()).toBe(expected);
    },
  );

  test('that has no volumes goes elsewhere where its node rejects it', async () => {
    for (const name of ['n1', 'n2']) inventory.setNode(aNode(name));
    const creation = podCreation();
    creation.noteTurnedAway(placed(), turnedAway('n1', 'RejectedByNode', 'UnexpectedAdmissionError'));
    nowMs += 1_000;
    await deploy(placed(), creation);
    expect(nodeOfPod()).toBe('n2');
  });

  test('that sleeps says which changes wait, as the spec has them by now', () => {
    const asleep = (spec: Partial<VmSpec>, conditions = [aCondition('RestartRequired')]) => {
      const vm = placed({ powerState: 'Suspended', suspendedTo: 'Disk', conditions });
      const disk = { storage: 'Persistent' as const, size: '1Gi' };
      const { effective } = vm.status ?? {};
      const status =
        effective === undefined ? vm.status : { ...vm.status, effective: { ...effective, disk } };
      const metadata = { ...vm.metadata, generation: 2 };
      return podCreation().asleep({ ...vm, metadata, spec: { ...vm.spec, disk, ...spec }, status } as Vm)
        .conditions;
    };
    expect(asleep({}).restartRequired).toBeUndefined();
    expect(asleep({ cpu: 2 }, []).restartRequired).toMatchObject({
      reason: 'SpecChanged',
      message: 'spec.cpu apply when the guest is started next',
    });
  });

  describe('whose guest may go on from a memory on its claim', () => {
    const persistent = { disk: { storage: 'Persistent' as const, size: '1Gi' } };
    const evicting = { ...persistent, onEviction: 'Suspend' as const };
    const evicted: VmStatus = { powerState: 'Stopped', memoryHost: { accelerator: 'tcg' } };
    const changed = (vm: Vm): Vm => ({
      ...vm,
      metadata: { ...vm.metadata, generation: 2 },
      spec: { ...vm.spec, ...persistent, cpu: 2 },
    });
    const cpuOf = () =>
      /"cpu":(\d)/.exec(JSON.stringify(made()?.metadata.annotations).replaceAll('\\', ''))?.[1];

    test.each<[what: string, vm: Vm, cpu: string]>([
      ['is suspended on it', placed({ suspendedTo: 'Disk' }, persistent), '1'],
      [
        'was evicted while changes waited',
        placed(
          { powerState: 'Running', conditions: [aCondition('RestartRequired')] },
          { ...persistent, onEviction: 'Suspend' },
        ),
        '1',
      ],
      [
        'was evicted before a change',
        placed({ powerState: 'Stopped', memoryHost: { accelerator: 'tcg' } }, evicting),
        '1',
      ],
      [
        'was stopped before it was evicted',
        placed(
          {
            powerState: 'Stopped',
            conditions: [aCondition('Ready', { reason: 'Stopped' }), aCondition('RestartRequired')],
          },
          evicting,
        ),
        '2',
      ],
      [
        'has never run',
        placed({ conditions: [aCondition('RestartRequired')] }, { ...persistent, onEviction: 'Suspend' }),
        '2',
      ],
      ['was stopped for its changes', placed({}, { ...persistent, onEviction: 'Suspend' }), '2'],
      [
        'is shut down when its pod ends',
        placed({ conditions: [aCondition('RestartRequired')] }, persistent),
        '2',
      ],
    ])('or cannot: one that %s', async (_what, vm, cpu) => {
      inventory.setNode(aNode('n1'));
      await deploy(changed(vm));
      expect(cpuOf()).toBe(cpu);
    });

    test('goes on in its next pod as what it was, which the pod after that does too', async () => {
      inventory.setNode(aNode('n1'));
      const vm = changed(
        placed(
          { powerState: 'Running', podName: 'svc3-vm-web', conditions: [aCondition('RestartRequired')] },
          { ...persistent, onEviction: 'Suspend' },
        ),
      );
      const pass = passOver(vm);
      await podCreation().deploy(pass);
      expect(pass.status?.conditions.restartRequired).toMatchObject({
        status: 'True',
        message: 'spec.cpu apply when the guest is started next',
      });
    });

    test('says what waits while it finds no place', async () => {
      const pass = passOver(changed(placed(evicted, evicting)));
      await podCreation().deploy(pass);
      expect(pass.status?.conditions).toMatchObject({
        scheduled: { reason: 'Unschedulable' },
        restartRequired: { message: 'spec.cpu apply when the guest is started next' },
      });
      const waiting = [aCondition('Ready'), aCondition('RestartRequired')];
      const takenBack = passOver(placed({ ...evicted, conditions: waiting }, evicting));
      await podCreation().deploy(takenBack);
      expect(takenBack.status?.conditions).not.toHaveProperty('restartRequired');
    });

    test('boots with its changes where it finds no place and a restart is asked for', async () => {
      const vm = changed(placed(evicted, evicting));
      const asked: Vm = { ...vm, spec: { ...vm.spec, restartRequest: 'r1' } };
      const creation = podCreation();
      const pass = passOver(asked);
      await creation.deploy(pass);
      expect(pass.status?.fields).toMatchObject({ memoryHost: evicted.memoryHost });
      const conditions = [aCondition('Ready'), aCondition('Scheduled', { status: 'False' })];
      const refused = { ...asked, status: { ...asked.status, ...evicted, conditions } };
      const again = passOver(refused);
      await creation.deploy(again);
      expect(again.status?.fields).not.toHaveProperty('memoryHost');
      expect(again.status?.conditions).not.toHaveProperty('restartRequired');
      inventory.setNode(aNode('n1'));
      await deploy(refused);
      expect(cpuOf()).toBe('2');
    });

    describe('and that is to be reverted', () => {
      const reverted = (status: VmStatus, settings: Partial<EffectiveSettings>): Vm => {
        const vm = changed(placed({ conditions: [], ...status }, settings));
        return { ...vm, spec: { ...vm.spec, revertRequest: 'r1' } };
      };
      const asleep = reverted({ powerState: 'Suspended', suspendedTo: 'Disk' }, persistent);
      const aSave = () => anImage({ vm: { name: 'web', mode: 'Save' } });

      test.each([
        ['was suspended on it', asleep],
        ['was evicted', reverted(evicted, evicting)],
      ])('goes on as what it was where its disk is saved first: one that %s', async (_what, vm) => {
        inventory.setNode(aNode('n1'));
        const pass = passOver(vm, true);
        await podCreation().deploy(pass);
        expect(cpuOf()).toBe('1');
        expect(pass.status?.conditions.restartRequired).toMatchObject({ reason: 'SpecChanged' });
        expect(liveImages).not.toHaveBeenCalled();
      });

      test('keeps what tells of the memory while it finds no place', async () => {
        const pass = passOver(reverted(evicted, evicting), true);
        await podCreation().deploy(pass);
        expect(pass.status?.fields).toMatchObject({ memoryHost: evicted.memoryHost });
        expect(pass.status?.conditions).toMatchObject({
          scheduled: { reason: 'Unschedulable' },
          restartRequired: { reason: 'SpecChanged' },
        });
      });

      test('gets no pod before the cache shows the images that kube-apiserver has', async () => {
        inventory.setNode(aNode('n1'));
        liveImages.mockResolvedValue([aSave()]);
        const pass = passOver(asleep);
        expect(await podCreation().deploy(pass)).toEqual({ requeueAfterMs: 1_000 });
        expect([made(), pass.status, usedOn('n1')]).toEqual([undefined, undefined, false]);
      });

      test('has its changes at once where nobody waits for its disk', async () => {
        inventory.setNode(aNode('n1'));
        await deploy(asleep);
        expect(cpuOf()).toBe('2');
      });
    });

    test('goes on where the VM is to be now, and as what it was', async () => {
      inventory.setNode(aNode('n1'));
      inventory.setNode(aNode('n2'));
      const vm = changed(placed({ suspendedTo: 'Disk', node: 'n1' }, { ...persistent, nodeName: 'n1' }));
      await deploy({ ...vm, spec: { ...vm.spec, nodeName: 'n2' } });
      expect([nodeOfPod(), cpuOf()]).toEqual(['n2', '1']);
    });
  });

  test('goes to a node that turned it away where there is no other', async () => {
    inventory.setNode(aNode('n1'));
    const creation = podCreation();
    creation.noteTurnedAway(placed(), turnedAway('n1'));
    nowMs += 60_000;
    await deploy(placed(), creation);
    expect(nodeOfPod()).toBe('n1');
  });

  test('waits for its backoff and takes no room meanwhile', async () => {
    inventory.setNode(aNode('n1'));
    await deploy(placed());
    backoff.failed('vm-uid');
    expect((await deploy(placed())).result).toEqual({ requeueAfterMs: 1_000 });
    expect([create.mock.calls.length, usedOn('n1')]).toEqual([1, false]);
  });

  test('whose pod runs has no failures of before, and one that waits for nothing is not woken', async () => {
    const creation = podCreation();
    backoff.failed('vm-uid');
    creation.noteAlive('vm-uid', { isBound: true, isReady: true });
    expect(backoff.waitMs('vm-uid')).toBe(0);
    await deploy(placed(), creation);
    creation.stopWaiting('vm-uid');
    inventory.setNode(aNode('n1'));
    waiting.retry();
    expect(woken).not.toHaveBeenCalled();
  });

  test('whose pod is bound counts by its pod, and one that is gone not at all', async () => {
    inventory.setNode(aNode('n1'));
    const creation = podCreation();
    for (const end of [
      () => creation.noteAlive('vm-uid', { isBound: true, isReady: false }),
      () => creation.forget('vm-uid'),
    ]) {
      await deploy(placed(), creation);
      expect(usedOn('n1')).toBe(true);
      end();
      expect(usedOn('n1')).toBe(false);
    }
  });
});

describe('since when a VM waited, and when its pod was made, its runner is told', () => {
  const createdMs = Date.parse('2026-11-01T10:00:00Z');
  const settings = { vmMetrics: true };
  beforeEach(() => void vi.useFakeTimers({ toFake: ['Date'] }));
  afterEach(() => void vi.useRealTimers());

  const told = () =>
    JSON.parse(create.mock.lastCall?.[1].metadata.annotations?.['svc3.dev/runner-spec'] ?? '{}') as object;

  async function deployAt(ms: number, vm: Vm, creation: PodCreation) {
    vi.setSystemTime(ms);
    await deploy(vm, creation);
  }

  test('from the first pass on that found it without one', async () => {
    const creation = podCreation(settings);
    await deployAt(createdMs + 60_000, placed(), creation);
    expect(create).not.toHaveBeenCalled();
    inventory.setNode(aNode('n1'));
    await deployAt(createdMs + 65_250, placed(), creation);
    expect(told()).toMatchObject({ waitedSinceMs: createdMs + 60_000, madeAtMs: createdMs + 65_250 });
  });

  test('from then on that it has none again, where it had one meanwhile', async () => {
    const creation = podCreation(settings);
    inventory.setNode(aNode('n1'));
    await deployAt(createdMs + 60_000, placed(), creation);
    creation.stopWaiting('vm-uid');
    await deployAt(createdMs + 90_000, placed(), creation);
    expect(told()).toMatchObject({ waitedSinceMs: createdMs + 90_000, madeAtMs: createdMs + 90_000 });
  });

  test.each([
    [5_000, 0],
    // The VM's own time is that of its second.
    [400, 400],
    // kube-apiserver's clock is ahead.
    [-2_000, -2_000],
  ])('of a new VM from its creation on: %i ms after it', async (afterMs, sinceMs) => {
    const creation = podCreation(settings);
    inventory.setNode(aNode('n1'));
    backoff.failed('vm-uid');
    await deployAt(createdMs + afterMs, aVm(), creation);
    expect(create).not.toHaveBeenCalled();
    nowMs += 60_000;
    await deployAt(createdMs + 7_000, placed(), creation);
    expect(told()).toMatchObject({ waitedSinceMs: createdMs + sinceMs, madeAtMs: createdMs + 7_000 });
  });
});

describe('a pod', () => {
  const refused = (reason: ErrorReason, message = 'exceeded quota') => {
    inventory.setNode(aNode('n1'));
    create.mockRejectedValue(new Svc3Error(reason, message));
    return deploy(placed());
  };

  test('that is there already is left alone: the cache is behind', async () => {
    expect((await refused('AlreadyExists')).result).toEqual({ requeueAfterMs: 1_000 });
    expect(usedOn('n1')).toBe(true);
  });

  test('that somebody refuses is told of in their words and tried again later', async () => {
    const { result, scheduled } = await refused('Forbidden');
    expect(scheduled).toMatchObject({ status: 'False', reason: 'PodRefused', message: 'exceeded quota' });
    expect([result, usedOn('n1')]).toEqual([{ requeueAfterMs: 1_000 }, false]);
  });

  test('that could not be made is an error, and takes no room', async () => {
    await expect(refused('ServiceUnavailable')).rejects.toMatchObject({ reason: 'ServiceUnavailable' });
    expect(usedOn('n1')).toBe(false);
  });
});

test('a guest of a pool that a policy of the cluster does not let a VM have is told of, and tried again later', async () => {
  patch.mockRejectedValue(new Svc3Error('Forbidden', 'denied by policy labels'));
  const vm = aPoolVm('job', { status: { podName: 'svc3-pool-1' } });
  const pass: Pass = { key: 'team/job', observed: { vm } as never, status: undefined };
  expect(await podCreation().take(pass, aStandby('1'))).toEqual({ requeueAfterMs: 1_000 });
  expect(pass.status?.conditions.scheduled).toMatchObject({
    reason: 'PodRefused',
    message: 'denied by policy labels',
  });
  expect(pass.status?.fields.podName).toBe('svc3-pool-1');
});

describe('a VM that gets a guest which waits', () => {
  const ports = [
    { guestPort: 80, nodePort: 80, protocol: 'TCP' as const },
    { guestPort: 81, nodePort: 20_000, protocol: 'TCP' as const },
  ];
  const warning = 'ports: nodePort 80 is not in the allowed range 20000-29999; the mapping is left out';
  const written = () => choosePod.mock.lastCall?.[1].fields;
  const guest = aStandby('1', { settings: { ports: ports.slice(1), portsNotAllowed: ports.slice(0, 1) } });
  const ofPool = { standbys: { ofPool: () => guest } };

  test('of its pool has the warnings of that guest', async () => {
    await deploy(aPoolVm('job'), podCreation({}, ofPool));
    expect(written()).toMatchObject({ podName: 'svc3-pool-1', warnings: [warning] });
  });

  test('lets it go where it is stopped before it has it', async () => {
    const forget = vi.fn<(vmUid: string) => void>();
    const waits = { podName: 'svc3-vm-job', conditions: [aCondition('Scheduled', { status: 'False' })] };
    const world = podCreation({}, { standbys: { ofPool: () => guest, forget } });
    await deploy(aPoolVm('job', { spec: { powerState: 'Stopped' }, status: waits }), world);
    expect(forget).toHaveBeenCalled();
    expect(written()?.podName).not.toBe('svc3-pool-1');
  });

  test('of its pool in the place of its own pod has none of that', async () => {
    const { cpu, memory, gpuPassthrough, vncConsole } = effective;
    const planned = { image: 'web', cpu, memory, gpuPassthrough, vncConsole };
    const conditions = [aCondition('Scheduled', { status: 'False' })];
    const vm = aPoolVm('job', {
      status: { podName: 'svc3-vm-job', warnings: ['of before'], planned, conditions },
    });
    await deploy(vm, podCreation({}, { standbys: { ofPool: () => aStandby('1') } }));
    expect(written()).toMatchObject({ podName: 'svc3-pool-1', effective });
    for (const field of ['warnings', 'planned']) expect(written()).not.toHaveProperty(field);
    await deploy(vm, podCreation({}, ofPool));
    expect(written()).toMatchObject({ warnings: [warning] });
  });

  test.each([
    ['that it was made with', {}],
    ['that came while it waited', { status: { conditions: [] } }],
  ])('has every request answered %s: the guest is as new to it as one that boots', async (_when, given) => {
    const asked = { startRequest: 'a', restartRequest: 'b', revertRequest: 'c' };
    const vm = aPoolVm('job', { spec: asked, ...given });
    await deploy(vm, podCreation({}, ofPool));
    const { fields } = choosePod.mock.lastCall?.[1] ?? {};
    expect(fields).toMatchObject(asked);
    for (const powerState of ['Running', 'Suspended'] as const)
      expect(powerStep({ ...vm, status: fields ?? {} }, runnerState({ powerState }))).not.toMatchObject({
        request: { action: expect.stringMatching(/restart|revert/) },
      });
  });

  test('has no request answered by a pod of its own that is yet to boot', async () => {
    inventory.setNode(aNode('n1'));
    await deploy(aPoolVm('job', { spec: { restartRequest: 'b' }, status: { effective } }));
    expect(written()).toMatchObject({ podName: 'svc3-vm-job' });
    expect(written()).not.toHaveProperty('restartRequest');
  });

  test('without knowing of its pool has the warnings of its settings', async () => {
    const { image, architecture } = effective;
    const config: VmConfig = {
      metadata: storedMeta({ name: 'builder', namespace: 'team', generation: 1 }),
      spec: { image, architecture, ports },
    };
    claims.set('builder', config);
    const { image: _image, ...spec } = aVm().spec;
    const vm = { ...aVm(), spec: { ...spec, config: 'builder' } };
    await deploy(vm, podCreation({}, { config, standbys: { ofConfig: () => guest } }));
    expect(written()).toMatchObject({ podName: 'svc3-pool-1', warnings: [warning] });
  });
});

describe('a VM of a pool for which no guest waits', () => {
  const vm = aPoolVm('job', { status: { effective } });
  const counted = () => claimed.mock.calls.map(([pool, result]) => `${pool} ${result}`);

  test.each(['Hold', 'Pod'] as const)(
    'is a cold start where a node has room for it: whenFull %s',
    async (whenFull) => {
      inventory.setNode(aNode('n1'));
      await deploy(vm, podCreation({ whenFull }));
      expect(counted()).toEqual(['team/ci cold']);
    },
  );

  test('is none while it waits for a node', async () => {
    const { scheduled } = await deploy(vm);
    expect([scheduled?.reason, counted()]).toEqual(['Unschedulable', []]);
  });

  test('and that is left to kube-scheduler is one, once, when its pod has a node', async () => {
    const creation = podCreation({ whenFull: 'Pod' });
    const { uid } = vm.metadata;
    await deploy(vm, creation);
    creation.noteAlive(uid, { isBound: false, isReady: false });
    expect(counted()).toEqual([]);
    creation.noteAlive(uid, { isBound: true, isReady: false });
    creation.noteAlive(uid, { isBound: true, isReady: true });
    expect(counted()).toEqual(['team/ci cold']);
  });

  test('and that has run before is none', async () => {
    const creation = podCreation({ whenFull: 'Pod' });
    await deploy(aPoolVm('job', { status: { effective, powerState: 'Stopped' } }), creation);
    creation.noteAlive(vm.metadata.uid, { isBound: true, isReady: false });
    expect(counted()).toEqual([]);
  });
});

describe('a VM that knows of no pool, and is of the VMConfig that one serves', () => {
  const { image, architecture } = effective;
  const counted = () => claimed.mock.calls.map(([pool, result]) => `${pool} ${result}`);
  const configured = (spec: Partial<VmSpec> = {}, status?: VmStatus): Vm => {
    const { image: _image, ...own } = aVm().spec;
    const vm = { ...aVm(), spec: { ...own, config: 'builder', ...spec } };
    return status === undefined ? vm : { ...vm, status };
  };
  const serving = (name: string, spec: Partial<VmPoolSpec> = {}): VmPool => {
    const pool = aPool({ template: { config: 'builder' }, serveConfig: true, ...spec });
    return { ...pool, metadata: { ...pool.metadata, name } };
  };
  const withPools = (
    pools: readonly VmPool[] = [serving('ci')],
    given: Parameters<typeof podCreation>[0] = {},
    spec: Partial<VmConfigSpec> = {},
  ) => {
    const config: VmConfig = {
      metadata: storedMeta({ name: 'builder', namespace: 'team', generation: 1 }),
      spec: { image, architecture, cpu: 1, ...spec },
    };
    return podCreation(given, { config, pools });
  };

  beforeEach(() => inventory.setNode(aNode('n1')));

  test.each<[what: string, vm: Vm]>([
    ['asks for nothing else', configured()],
    [
      'says what holds anyway, and a deadline',
      configured({ cpu: 1, memory: '2.5Gi', startDeadlineSeconds: 60 }),
    ],
  ])('and %s is a cold start of that pool where no guest waits', async (_what, vm) => {
    await deploy(vm, withPools());
    expect([made()?.metadata.name, counted()]).toEqual(['svc3-vm-web', ['team/ci cold']]);
  });

  test.each<[what: string, vm: Vm]>([
    ['asks for another CPU', configured({ cpu: 2 })],
    ['has metadata of its own', configured({ metadata: [{ name: 'job', value: '1' }] })],
    ['has a name in its namespace’s DNS', configured({ hostname: 'web' })],
    ['is of another namespace’s VMConfig', configured({ configNamespace: 'shared' })],
    ['was placed before', configured({}, { effective })],
  ])('and %s is none', async (_what, vm) => {
    await deploy(vm, withPools());
    expect([made()?.metadata.name, counted()]).toEqual(['svc3-vm-web', []]);
  });

  test.each<[what: string, pools: VmPool[]]>([
    ['serves no VMConfig', [serving('ci', { serveConfig: false })]],
    ['is of another VMConfig', [serving('ci', { template: { config: 'other' } })]],
    ['has guests with another CPU', [serving('ci', { template: { config: 'builder', cpu: 2 } })]],
    [
      'is being deleted',
      [{ ...serving('ci'), metadata: storedMeta({ ...serving('ci').metadata, deletionTimestamp: 'x' }) }],
    ],
  ])('is none of a pool that %s', async (_what, pools) => {
    await deploy(configured(), withPools(pools));
    expect(counted()).toEqual([]);
  });

  test('is none where no pool can have such guests', async () => {
    const world = withPools([serving('ci')], {}, { disk: { storage: 'Persistent', size: '1Gi' } });
    await deploy(configured(), world);
    expect([made()?.metadata.name, counted()]).toEqual(['svc3-vm-web', []]);
  });

  test('is one of the pool alone whose guest it would have had', async () => {
    const small = serving('small', { template: { config: 'builder', cpu: 4 } });
    await deploy(configured(), withPools([small, serving('ci'), serving('more')]));
    expect(counted()).toEqual(['team/ci cold']);
  });

  test('is one only once it has its pod, however often that is refused before', async () => {
    const creation = withPools();
    create.mockRejectedValueOnce(new Svc3Error('Forbidden', 'exceeded quota'));
    await deploy(configured(), creation);
    expect(counted()).toEqual([]);
    nowMs += 60_000;
    await deploy(configured(), creation);
    expect(counted()).toEqual(['team/ci cold']);
  });

  test('is none while it waits for a node', async () => {
    const { scheduled } = await deploy(configured({ nodeName: 'n2' }), withPools());
    expect([scheduled?.reason, counted()]).toEqual(['Unschedulable', []]);
  });

  test('and that is left to kube-scheduler is one, once, when its pod has a node', async () => {
    inventory.setPod(aPod('full', 'n1', { cpu: 8 }));
    const creation = withPools([serving('ci')], { whenFull: 'Pod' });
    const { uid } = configured().metadata;
    await deploy(configured(), creation);
    creation.noteAlive(uid, { isBound: false, isReady: false });
    expect([nodeOfPod(), counted()]).toEqual([undefined, []]);
    creation.noteAlive(uid, { isBound: true, isReady: false });
    creation.noteAlive(uid, { isBound: true, isReady: true });
    expect(counted()).toEqual(['team/ci cold']);
  });
});

describe('a claim under the name of the VM’s disk', () => {
  const persistent = () => deploy(placed({}, { disk: { storage: 'Persistent' } }));

  beforeEach(() => inventory.setNode(aNode('n1')));

  test('that is going is waited for', async () => {
    claims.set('svc3-vm-web', aClaim({ deletionTimestamp: 'now' }));
    const { result, scheduled } = await persistent();
    expect(scheduled).toMatchObject({ reason: 'ClaimTerminating' });
    expect([result, create.mock.calls, usedOn('n1')]).toEqual([{ requeueAfterMs: 2_000 }, [], false]);
  });

  test('that is somebody else’s stalls the VM, and is not touched', async () => {
    claims.set('svc3-vm-web', { metadata: storedMeta({ name: 'svc3-vm-web' }) });
    const { result, stalled } = await persistent();
    expect(stalled).toMatchObject({ status: 'True', reason: 'ClaimConflict' });
    expect([result, create.mock.calls]).toEqual([{ requeueAfterMs: 30_000 }, []]);
  });
});

/** The claim that was made for `aVm()`. */
function aClaim(more: object = {}): KubeObject {
  const owner = { apiVersion: 'svc3.dev/v1', kind: 'VM', name: 'web', uid: 'vm-uid', controller: true };
  return {
    metadata: storedMeta({
      name: 'svc3-vm-web',
      namespace: 'team',
      annotations: { 'svc3.dev/vm-uid': 'vm-uid' },
      labels: { 'svc3.dev/disk': 'true', 'svc3.dev/vm': 'web' },
      ownerReferences: [owner],
      ...more,
    }),
  };
}
