import { describe, expect, test } from 'vitest';
import type { EffectiveSettings } from '../../../../../src/api/vm.ts';
import { neighbourhood } from '../../../../../src/controllers/vm/pod/neighbourhood.ts';
import { aVm, effective } from '../builders.ts';

const term = { labelSelector: { matchLabels: { app: 'db' } }, topologyKey: 'kubernetes.io/hostname' };
const both = {
  requiredDuringSchedulingIgnoredDuringExecution: [term],
  preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 1, podAffinityTerm: term }],
};
const required = { requiredDuringSchedulingIgnoredDuringExecution: [term] };
const preferred = {
  preferredDuringSchedulingIgnoredDuringExecution: [
    { weight: 1, preference: { matchExpressions: [{ key: 'disk', operator: 'Exists' as const }] } },
  ],
};
const spread = [
  { maxSkew: 1, topologyKey: 'zone', whenUnsatisfiable: 'DoNotSchedule' as const, labelSelector: {} },
];

const of = (
  node: string | undefined,
  settings: Partial<EffectiveSettings> = {},
  accelerator: 'auto' | 'kvm' | 'tcg' = 'auto',
) =>
  neighbourhood({
    vm: aVm(),
    effective: { ...effective, ...settings },
    placement: { node, accelerator },
  });

/** What nodes have to be, as the alternatives that kube-scheduler is given, each as `key operator values`. */
const nodes = (...given: Parameters<typeof of>) =>
  of(...given).affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms.map(
    ({ matchExpressions = [], matchFields = [] }) =>
      [...matchExpressions, ...matchFields].map(({ key, operator, values = [] }) =>
        [key, operator, ...values].join(' '),
      ),
  );

const base = ['kubernetes.io/os In linux', 'kubernetes.io/arch In amd64'];
const unreserved = 'svc3.dev/namespace DoesNotExist';
const reserved = 'svc3.dev/namespace In  team';

describe('a pod whose node was chosen', () => {
  test('goes there by the name of the node, whatever its labels say', () => {
    expect(nodes('n1', { tag: 'ci', tagRequired: true, nodeName: 'n1' })).toEqual([['metadata.name In n1']]);
  });

  test('keeps what has to hold of its neighbours, and what was weighed is over', () => {
    const affinity = { nodeAffinity: preferred, podAffinity: both, podAntiAffinity: both };
    const spec = of('n1', { affinity, topologySpreadConstraints: spread });
    expect(spec.affinity).toMatchObject({ podAffinity: required, podAntiAffinity: required });
    expect(Object.keys(spec.affinity?.podAffinity ?? {})).toEqual(Object.keys(required));
    expect(spec.affinity?.nodeAffinity).not.toHaveProperty('preferredDuringSchedulingIgnoredDuringExecution');
    expect(spec).not.toHaveProperty('topologySpreadConstraints');
  });

  test('has nothing to say of neighbours where nothing has to hold', () => {
    const spec = of('n1', {
      affinity: { podAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [] } },
    });
    expect(spec.affinity?.podAffinity).toEqual({});
    expect(of('n1').affinity).not.toHaveProperty('podAffinity');
  });
});

describe('a pod that is left to kube-scheduler', () => {
  test('goes to nodes of its architecture that are reserved for nobody, or for its namespace', () => {
    expect(nodes(undefined)).toEqual([
      [...base, unreserved],
      [...base, reserved],
    ]);
  });

  test.each<[string, Partial<EffectiveSettings>, 'auto' | 'kvm' | 'tcg', string[]]>([
    ['with hardware virtualisation', {}, 'kvm', ['svc3.dev/accelerator NotIn tcg']],
    ['emulated', {}, 'tcg', []],
    // A label that is taken back would end it at the next start of the kubelet; the device itself is on enabled nodes only.
    ['with GPUs', { gpuPassthrough: 'Enabled' }, 'auto', []],
    ['with a tag that it requires', { tag: 'ci', tagRequired: true }, 'auto', ['tag.svc3.dev/ci In true']],
    ['with a tag that it prefers', { tag: 'ci' }, 'auto', []],
    ['on a node by name', { nodeName: 'n1' }, 'auto', ['metadata.name In n1']],
  ])('%s says so of nodes', (_, settings, accelerator, also) => {
    expect(nodes(undefined, settings, accelerator)).toEqual([
      [...base, unreserved, ...also],
      [...base, reserved, ...also],
    ]);
  });

  test('keeps all that the VM says of nodes and neighbours; each of its terms is an alternative', () => {
    const zone = (value: string) => ({
      matchExpressions: [{ key: 'zone', operator: 'In' as const, values: [value] }],
    });
    const nodeAffinity = {
      ...preferred,
      requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [zone('a'), zone('b')] },
    };
    const settings = {
      affinity: { nodeAffinity, podAffinity: both, podAntiAffinity: both },
      topologySpreadConstraints: spread,
    };
    expect(nodes(undefined, settings)).toEqual([
      [...base, unreserved, 'zone In a'],
      [...base, reserved, 'zone In a'],
      [...base, unreserved, 'zone In b'],
      [...base, reserved, 'zone In b'],
    ]);
    const spec = of(undefined, settings);
    expect(spec.affinity).toMatchObject({
      nodeAffinity: preferred,
      podAffinity: both,
      podAntiAffinity: both,
    });
    expect(spec.topologySpreadConstraints).toEqual(spread);
  });
});
