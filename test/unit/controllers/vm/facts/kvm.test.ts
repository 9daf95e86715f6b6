import { describe, expect, test } from 'vitest';
import type { Node } from '../../../../../src/api/core.ts';
import { kvmGroupOf, lacksKvmGroup, requestsKvm } from '../../../../../src/controllers/vm/facts/kvm.ts';
import { buildPod } from '../../../../../src/controllers/vm/pod/pod.ts';
import { storedMeta } from '../../../../support/storedmeta.ts';
import { podInput } from '../builders.ts';

/** A node of which its agent has reported this. */
const aNode = (hardware?: string): Node => ({
  metadata: storedMeta({
    name: 'n1',
    ...(hardware === undefined ? {} : { annotations: { 'svc3.dev/hardware': hardware } }),
  }),
});
const withGroup = (gid: unknown) => aNode(JSON.stringify({ version: 1, kvm: { gid } }));

test.each<[what: string, node: Node | undefined, group: number | undefined]>([
  ['as its agent says', withGroup(104), 104],
  ['unknown where it is root’s', withGroup(0), undefined],
  ['unknown where it is no number', withGroup('104'), undefined],
  ['unknown where it is no whole number', withGroup(1.5), undefined],
  ['unknown where there is no kvm', aNode('{}'), undefined],
  ['unknown where nothing is reported', aNode(), undefined],
  ['unknown where that is no JSON', aNode('?'), undefined],
  ['unknown where the node is', undefined, undefined],
])('the group of /dev/kvm on a node is %s', (_what, node, group) => {
  expect(kvmGroupOf(node)).toBe(group);
});

describe('a pod', () => {
  const pod = (accelerator: 'kvm' | 'tcg', kvmGroups: number[]) => {
    const { placement } = podInput();
    const built = buildPod(podInput({ placement: { ...placement, accelerator }, kvmGroups }));
    return { ...built, metadata: storedMeta(built.metadata) };
  };

  test('asks for kvm where it is to run under that', () => {
    expect([requestsKvm(pod('kvm', [])), requestsKvm(pod('tcg', []))]).toEqual([true, false]);
  });

  test.each<[what: string, lacks: boolean, of: ReturnType<typeof pod>, node: Node]>([
    ['is in another', true, pod('kvm', [36]), withGroup(104)],
    ['is in none', true, pod('kvm', []), withGroup(104)],
    ['is in it and in others', false, pod('kvm', [36, 104]), withGroup(104)],
    ['asks for no kvm', false, pod('tcg', []), withGroup(104)],
    ['is on a node of which none is known', false, pod('kvm', []), aNode()],
  ])('that %s lacks the group of the node: %s', (_what, lacks, of, node) => {
    expect(lacksKvmGroup(of, node)).toBe(lacks);
  });
});
