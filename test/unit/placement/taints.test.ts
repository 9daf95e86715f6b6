import { describe, expect, test } from 'vitest';
import type { Taint } from '../../../src/api/core.ts';
import {
  lastingTaints,
  softTaints,
  tolerates,
  toleratesAll,
  type Toleration,
} from '../../../src/placement/taints.ts';

const team: Taint = { key: 'team', value: 'x', effect: 'NoSchedule' };

describe('a toleration of team=x:NoSchedule', () => {
  test.each<[string, Toleration, boolean]>([
    ['names key and value', { key: 'team', operator: 'Equal', value: 'x' }, true],
    ['means Equal without an operator', { key: 'team', value: 'x' }, true],
    ['names key, value and effect', { key: 'team', value: 'x', effect: 'NoSchedule' }, true],
    ['matches every effect with an empty one', { key: 'team', value: 'x', effect: '' }, true],
    ['needs no value with Exists', { key: 'team', operator: 'Exists' }, true],
    ['needs no key with Exists', { operator: 'Exists' }, true],
    ['needs no key with Exists, also an empty one', { key: '', operator: 'Exists' }, true],
    ['is not one of another value', { key: 'team', value: 'y' }, false],
    ['is not one without a value', { key: 'team' }, false],
    ['is not one of another key', { key: 'other', operator: 'Exists' }, false],
    ['is not one of another effect', { key: 'team', value: 'x', effect: 'NoExecute' }, false],
    ['is not one of another effect, whatever the key', { operator: 'Exists', effect: 'NoExecute' }, false],
    ['is not one without a key and Exists', { value: 'x' }, false],
    ['is not one with an empty key and Equal', { key: '', operator: 'Equal', value: 'x' }, false],
  ])('%s', (_sentence, toleration, expected) => {
    expect(tolerates(toleration, team)).toBe(expected);
  });

  test.each<[Toleration, Taint]>([
    [{ key: 'gpu' }, { key: 'gpu', effect: 'NoSchedule' }],
    [{ key: 'gpu' }, { key: 'gpu', value: '', effect: 'NoSchedule' }],
    [
      { key: 'gpu', value: '' },
      { key: 'gpu', effect: 'NoSchedule' },
    ],
  ])('no value is the empty value: %o tolerates %o', (toleration, taint) => {
    expect(tolerates(toleration, taint)).toBe(true);
  });
});

describe('a node takes a pod without tolerations', () => {
  test.each<[string, Taint[], boolean]>([
    ['without taints', [], true],
    ['with a taint', [team], false],
    ['not with a taint that would end it', [{ ...team, effect: 'NoExecute' }], false],
    ['with a soft taint', [{ ...team, effect: 'PreferNoSchedule' }], true],
    ['where one of two taints is soft: no', [{ ...team, effect: 'PreferNoSchedule' }, team], false],
    // A cordon is judged by itself, so that it is told as `unschedulable`.
    ['with the taint of a cordon', [{ key: 'node.kubernetes.io/unschedulable', effect: 'NoSchedule' }], true],
    [
      'not with the name of a cordon and another effect',
      [{ key: 'node.kubernetes.io/unschedulable', effect: 'NoExecute' }],
      false,
    ],
    // Every pod gets these two tolerations for 300 s, from the admission plugin DefaultTolerationSeconds.
    ['that has just become not ready', [{ key: 'node.kubernetes.io/not-ready', effect: 'NoExecute' }], true],
    [
      'that has just become unreachable',
      [{ key: 'node.kubernetes.io/unreachable', effect: 'NoExecute' }],
      true,
    ],
    [
      'whatever value such a taint has',
      ['not-ready', 'unreachable'].map((name) => ({
        key: `node.kubernetes.io/${name}`,
        value: 'x',
        effect: 'NoExecute',
      })),
      true,
    ],
    ['not that is to start none', [{ key: 'node.kubernetes.io/not-ready', effect: 'NoSchedule' }], false],
    ['not, nor unreachable', [{ key: 'node.kubernetes.io/unreachable', effect: 'NoSchedule' }], false],
  ])('%s', (_sentence, taints, expected) => {
    expect(toleratesAll(taints, [])).toBe(expected);
  });

  test('only where every taint is tolerated, each by any of the tolerations', () => {
    const gpu: Taint = { key: 'gpu', effect: 'NoSchedule' };
    const [forTeam, forGpu]: Toleration[] = [{ key: 'team', operator: 'Exists' }, { key: 'gpu' }];
    expect(toleratesAll([team, gpu], [forGpu!, forTeam!])).toBe(true);
    expect(toleratesAll([team, gpu], [forTeam!])).toBe(false);
    expect(toleratesAll([team, gpu], [forGpu!])).toBe(false);
  });
});

test('soft taints that are not tolerated are counted, others are not', () => {
  const soft = (key: string): Taint => ({ key, effect: 'PreferNoSchedule' });
  expect(softTaints([soft('a'), soft('b'), team], [])).toBe(2);
  expect(softTaints([soft('a'), soft('b'), team], [{ key: 'a' }, { key: 'team', operator: 'Exists' }])).toBe(
    1,
  );
  expect(softTaints([team], [])).toBe(0);
});

test('taints that Kubernetes takes off again by itself do not last', () => {
  const of = (key: string): Taint => ({ key, effect: 'NoSchedule' });
  const passing = [
    'node.kubernetes.io/not-ready',
    'node.kubernetes.io/disk-pressure',
    'node.kubernetes.io/unschedulable',
    'node.cloudprovider.kubernetes.io/uninitialized',
    'node.cloudprovider.kubernetes.io/shutdown',
  ].map(of);
  const lasting = [
    'node.kubernetes.io/out-of-service',
    'kubernetes.io/x',
    'x.node.kubernetes.io/y',
    'node.cilium.io/agent-not-ready',
    'karpenter.sh/disrupted',
  ].map(of);
  expect(lastingTaints([...passing, team, ...lasting])).toEqual([team, ...lasting]);
});
