import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { Affinity, TopologySpreadConstraint } from '../../../../../src/api/affinity.ts';
import type { Pod } from '../../../../../src/api/core.ts';
import type { EffectiveSettings, Vm } from '../../../../../src/api/vm.ts';
import { poolIndex } from '../../../../../src/controllers/vm/facts/standby.ts';
import { Neighbourhood } from '../../../../../src/controllers/vm/pool/neighbourhood.ts';
import { Standbys } from '../../../../../src/controllers/vm/pool/standbys.ts';
import type { Change } from '../../../../../src/kube/types.ts';
import { Inventory } from '../../../../../src/placement/inventory.ts';
import { podFacts } from '../../../../../src/placement/podfacts.ts';
import { aNode as freeNode, aPod as podOn, ranges } from '../../../placement/builders.ts';
import { aNode, aPool, aPoolVm, aStandby, ownedBy } from '../../vmpool/builders.ts';

const term = (labels: Record<string, string>) => ({
  labelSelector: { matchLabels: labels },
  topologyKey: 'host',
});
const awayFrom = (labels: Record<string, string>): Affinity => ({
  podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [term(labels)] },
});
const near = (labels: Record<string, string>): Affinity => ({
  podAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [term(labels)] },
});
const onlyOn = (host: string): Affinity => ({
  nodeAffinity: {
    requiredDuringSchedulingIgnoredDuringExecution: {
      nodeSelectorTerms: [{ matchExpressions: [{ key: 'host', operator: 'In', values: [host] }] }],
    },
  },
});
const spread: TopologySpreadConstraint = {
  ...term({ app: 'ci' }),
  maxSkew: 1,
  whenUnsatisfiable: 'DoNotSchedule',
};

let pods: Pod[];
let inventory: Inventory;
let standbys: Standbys;
let tell: (change: Change<Pod>) => void;

/** A guest that waits on the node, for VMs with these settings. */
const guest = (name: string, nodeName: string, settings: Partial<EffectiveSettings> = {}): Pod => {
  const pod = aStandby(name, { settings });
  return { ...pod, spec: { ...pod.spec, nodeName } };
};

/** The cache shows these. */
function see(...seen: Pod[]): void {
  for (const pod of seen) {
    pods = [...pods.filter(({ metadata }) => metadata.uid !== pod.metadata.uid), pod];
    tell({ kind: 'updated', object: pod, old: pod });
    const facts = podFacts(pod);
    if (facts !== undefined) inventory.setPod(facts);
  }
}

/** A VM of application `ci` that names the pool. */
function ofApp(name: string): Vm {
  const vm = aPoolVm(name);
  return { ...vm, metadata: { ...vm.metadata, labels: { app: 'ci' } } };
}

/** A pod that is there, on the node. */
const there = (node: string, labels: Record<string, string>, repels: ReturnType<typeof term>[] = []) =>
  inventory.setPod(podOn(`there-${node}`, node, { neighbour: { namespace: 'team', labels, repels } }));

const chosen = (vm: Vm) => standbys.ofPool(vm)?.metadata.name.replace('svc3-pool-', '');

beforeEach(() => {
  pods = [];
  inventory = new Inventory(ranges);
  for (const host of ['n1', 'n2', 'n3']) inventory.setNode(freeNode(host, { labels: { host } }));
  const caches = {
    pods: {
      byIndex: (_index: string, key: string) => pods.filter((pod) => poolIndex.pool(pod).includes(key)),
      onChange: (told: typeof tell) => void (tell = told),
    },
    vms: { byIndex: () => [] },
    pools: { get: () => aPool(), list: () => [] },
    nodes: { get: () => aNode() },
  };
  standbys = new Standbys(caches, new Neighbourhood(inventory));
});

describe('a VM gets a guest only where it might be placed', () => {
  test('by the anti-affinity that it requires', () => {
    const affinity = awayFrom({ app: 'ci' });
    see(guest('1', 'n1', { affinity }), guest('2', 'n2', { affinity }));
    there('n1', { app: 'ci' });
    expect(chosen(ofApp('a'))).toBe('2');
    there('n2', { app: 'ci' });
    expect(chosen(ofApp('a'))).toBeUndefined();
  });

  test('by that of a pod which is there', () => {
    see(guest('1', 'n1'), guest('2', 'n2'));
    there('n1', {}, [term({ app: 'ci' })]);
    expect(chosen(ofApp('a'))).toBe('2');
    expect(chosen(aPoolVm('other'))).toBe('1');
  });

  test('by the affinity that it requires, to pods and to nodes', () => {
    const affinity = near({ app: 'cache' });
    see(guest('1', 'n1', { affinity }), guest('2', 'n2', { affinity }));
    there('n2', { app: 'cache' });
    expect(chosen(ofApp('a'))).toBe('2');
    see(guest('3', 'n1', { affinity: onlyOn('n3') }), guest('4', 'n3', { affinity: onlyOn('n3') }));
    expect(chosen(ofApp('b'))).toBe('4');
  });

  test('by the spread that it requires', () => {
    const topologySpreadConstraints = [spread];
    see(guest('1', 'n1', { topologySpreadConstraints }), guest('2', 'n2', { topologySpreadConstraints }));
    there('n1', { app: 'ci' });
    expect(chosen(ofApp('a'))).toBe('2');
  });

  test('and guests that wait in the pool are no neighbours, the one that it gets least of all', () => {
    const affinity = awayFrom({ 'app.kubernetes.io/name': 'svc3-vm' });
    see(guest('1', 'n1', { affinity }), guest('2', 'n1', { affinity }));
    expect(chosen(ofApp('a'))).toBe('1');
    expect(chosen(ofApp('b'))).toBeUndefined();
  });

  test('on a node that placement knows', () => {
    const affinity = awayFrom({ app: 'ci' });
    see(guest('1', 'unknown', { affinity }));
    expect(chosen(ofApp('a'))).toBeUndefined();
  });
});

describe('a guest that is promised to a VM', () => {
  const affinity = awayFrom({ app: 'ci' });

  beforeEach(() => see(guest('1', 'n1', { affinity }), guest('2', 'n1', { affinity })));

  test('counts as the VM before its pod says so, until it is promised no more', () => {
    expect(chosen(ofApp('a'))).toBe('1');
    expect(chosen(ofApp('b'))).toBeUndefined();
    standbys.forget('uid-of-a');
    expect(chosen(ofApp('b'))).toBe('1');
  });

  test('counts once its pod says so, and not beyond that', () => {
    expect(chosen(ofApp('a'))).toBe('1');
    const [first] = pods as [Pod];
    see(ownedBy(ofApp('a'), first));
    expect(chosen(ofApp('b'))).toBeUndefined();
    inventory.removePod(first.metadata.uid);
    expect(chosen(ofApp('b'))).toBe('2');
  });

  test('counts no more once its pod has gone', () => {
    expect(chosen(ofApp('a'))).toBe('1');
    const [first] = pods as [Pod];
    pods = pods.filter((pod) => pod !== first);
    inventory.removePod(first.metadata.uid);
    tell({ kind: 'deleted', object: first });
    expect(chosen(ofApp('b'))).toBe('2');
  });
});

test('where none of hundreds of guests suits, the pods around are counted once', () => {
  const affinity = awayFrom({ app: 'ci' });
  see(...Array.from({ length: 300 }, (_, i) => guest(`${i}`, 'n1', { affinity })));
  there('n1', { app: 'ci' });
  const counted = vi.spyOn(inventory, 'without');
  expect(chosen(ofApp('a'))).toBeUndefined();
  expect(counted).toHaveBeenCalledOnce();
});
