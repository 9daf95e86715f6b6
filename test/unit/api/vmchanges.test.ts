import { describe, expect, test } from 'vitest';
import { VmSpec } from '../../../src/api/vm.ts';
import {
  changeRules,
  isOfSize,
  needsAnotherPod,
  placementFields,
  vmChangesPage,
  waitingFields,
} from '../../../src/api/vmchanges.ts';

/** When a change of a field of a placed VM applies, as people have to know it. */
const applies = {
  never: 'config configNamespace pool image architecture hostname subdomain nodePorts',
  live: 'startDeadlineSeconds disk suspendTo powerState revertRequest startRequest restartRequest',
  nextBoot: 'vncConsole metadata sshAuthorizedKeys systemSerial display netBoost legacyIO readiness',
  resize: 'cpu memory',
  nextStart:
    'gpuPassthrough nodeName tag tagRequired scheduler priorityClassName ports iso userData onEviction disks tolerations affinity topologySpreadConstraints',
} as const;

type When = keyof typeof applies;
const fieldsOf = (...when: When[]) => when.flatMap((each) => applies[each].split(' '));
const whens = Object.keys(applies) as When[];

test('every field of a VM is of one kind', () => {
  expect(fieldsOf(...whens).toSorted()).toEqual(Object.keys(VmSpec.shape).toSorted());
});

describe.each<[When, inPod: 'same' | 'other', onClaim: 'same' | 'other', isOfSize: boolean, waits: boolean]>([
  ['never', 'same', 'same', false, false],
  ['live', 'same', 'same', false, false],
  ['nextBoot', 'same', 'same', false, true],
  ['resize', 'same', 'other', true, true],
  ['nextStart', 'other', 'other', false, true],
])('a field that applies: %s', (when, inPod, onClaim, hasSize, waits) => {
  test.each(fieldsOf(when))('%s', (field) => {
    expect(needsAnotherPod(field, { isPersistent: false })).toBe(inPod === 'other');
    expect(needsAnotherPod(field, { isPersistent: true })).toBe(onClaim === 'other');
    expect(isOfSize(field)).toBe(hasSize);
    expect(waitingFields.some((each) => each === field)).toBe(waits);
  });
});

test('what nobody knows needs no other pod and has no size', () => {
  expect([isOfSize('colour'), needsAnotherPod('colour', { isPersistent: true })]).toEqual([false, false]);
});

test('where the pod may be is only said by fields that need another one', () => {
  expect(placementFields.filter((field) => !fieldsOf('nextStart').includes(field))).toEqual([]);
});

describe('the rules of kube-apiserver', () => {
  const rulesOf = (field: string) => changeRules.filter(({ fieldPath }) => fieldPath === `.spec.${field}`);
  const messagesOf = (field: string) => rulesOf(field).map(({ message }) => message);

  test.each(fieldsOf('nextStart').filter((field) => field !== 'iso'))(
    'refuse a change of %s of a disk that is in the pod, and say what helps',
    (field) => {
      expect(messagesOf(field)).toEqual([
        `${field} cannot change once the VM has been placed, unless its disk is Persistent, and cannot be unset then; delete the VM and deploy it again`,
      ]);
    },
  );

  test.each(fieldsOf('resize', 'nextBoot'))('refuse that %s is unset', (field) => {
    const [message, ...others] = messagesOf(field);
    expect(message).toBe(`${field} cannot be unset once the VM has been placed; give a value`);
    expect(others).toHaveLength(field === 'display' ? 1 : 0);
  });

  test.each([
    ['startDeadlineSeconds', 'give a value, of which 604800 is the longest'],
    ['suspendTo', 'say Memory'],
  ])('refuse that %s is unset where a config or pool may say it', (field, advice) => {
    expect(messagesOf(field)).toEqual([
      expect.stringContaining(`of a VM with a config or pool cannot be unset`),
    ]);
    expect(messagesOf(field)[0]).toMatch(new RegExp(`; ${advice}$`));
  });

  test('are none of what applies at once or never', () => {
    const others = fieldsOf('never', 'live').filter(
      (field) => !['startDeadlineSeconds', 'suspendTo', 'disk'].includes(field),
    );
    expect(others.flatMap(rulesOf)).toEqual([]);
  });

  test('hold for placed VMs alone', () => {
    const unplaced = '!has(oldSelf.status) || !has(oldSelf.status.effective)';
    expect(changeRules.filter(({ rule }) => !rule.includes(unplaced))).toEqual([]);
  });

  test.each([
    ['ports', 'has(port.nodePort)'],
    ['disks', '[disk.name, has(disk.size)'],
    ['tag', 'dyn(oldSelf.spec.tag) == self.spec.tag'],
  ])('compare of %s what the pod has of it', (field, text) => {
    expect(rulesOf(field)[0]?.rule).toContain(text);
  });
});

describe('the page of changes', () => {
  const rowOf = (field: string) =>
    vmChangesPage()
      .split('\n')
      .find((line) => line.startsWith(`| ${field} |`)) ?? '';

  test.each<[When, string]>([
    ['never', '| refused |'],
    ['live', '| at once |'],
    ['nextBoot', '| at the next start |'],
    [
      'resize',
      '| at the next start; Persistent disk: in another pod, Ephemeral: in the same pod, which is resized before |',
    ],
    ['nextStart', '| Persistent disk: at the next start, in another pod; Ephemeral: refused |'],
  ])('says of each field that applies %s when it does', (when, text) => {
    for (const field of fieldsOf(when)) expect(rowOf(field)).toContain(text);
  });

  test('says more of a field only where there is more to say', () => {
    expect(rowOf('image')).toBe('| image | refused |  |');
    expect(rowOf('ports')).toContain('Mappings with nodePort');
  });
});
