import { describe, expect, test } from 'vitest';
import type { Vm, VmStatus } from '../../../src/api/vm.ts';
import { outcomeOf, requestIn, textOfChange, textOfVerb } from '../../../src/usecases/outcome.ts';
import { powerRequest } from '../../../src/wire/power.ts';
import type { PowerCommand } from '../../../src/wire/powercommands.ts';
import { condition } from '../controllers/image/builders.ts';
import { aVm } from '../controllers/vm/builders.ts';

const running: VmStatus = {
  powerState: 'Running',
  restartRequest: 'older',
  revertRequest: 'older',
  observedGeneration: 1,
  conditions: [condition('Booted', 'True', 'Booted')],
};

/** The VM as a verb is written, and what is told of it where it is seen like this afterwards. */
function asked(command: PowerCommand) {
  const before = aVm({ metadata: { generation: 1 }, status: running });
  const spec = powerRequest(before, command);
  const patched = aVm({ metadata: { generation: 2 }, spec, status: running });
  const text = textOfVerb(patched, spec);
  const told = (
    status: VmStatus,
    metadata: Partial<Vm['metadata']> = {},
    other: Partial<Vm['spec']> = {},
  ) => {
    const vm = aVm({
      metadata: { generation: 2, ...metadata },
      spec: { ...spec, ...other },
      status: { ...running, ...status },
    });
    return outcomeOf(vm, requestIn(text), () => expect.unreachable());
  };
  return { spec, told };
}

describe('what has become of a power verb', () => {
  test('is told by the state that it leads to', () => {
    const { told } = asked('stop');
    expect(told({})).toEqual({ state: 'UnderWay' });
    expect(told({ powerState: 'Stopped', observedGeneration: 1 })).toEqual({ state: 'UnderWay' });
    expect(told({ powerState: 'Stopped', observedGeneration: 2 })).toEqual({ state: 'Done' });
  });

  test.each(['restart', 'revert'] as const)('is told by the very request: %s', (command) => {
    const { spec, told } = asked(command);
    const member = `${command}Request` as const;
    expect(told({ observedGeneration: 2 })).toEqual({ state: 'UnderWay' });
    expect(told({ observedGeneration: 2, [member]: spec[member] })).toEqual({ state: 'Done' });
  });

  test.each<[what: string, Parameters<ReturnType<typeof asked>['told']>, message: string]>([
    [
      'another verb has come in between',
      [{}, { generation: 3 }, { powerState: 'Stopped' }],
      'another request for VM web came in between: it is to be Stopped',
    ],
    [
      'it was taken back',
      [{}, { generation: 3 }, { restartRequest: 'older' }],
      'another request for VM web came in between: what was asked for was taken back',
    ],
    [
      'the VM is being deleted',
      [{}, { generation: 3, deletionTimestamp: '2026-11-01T10:00:00Z' }],
      'another request for VM web came in between: it is being deleted',
    ],
    [
      'the VM has failed',
      [{ observedGeneration: 2, conditions: [condition('Stalled', 'True', 'NoImage')] }],
      'VM web is Failed: NoImage',
    ],
  ])('is that it is refused where %s', (_, seen, message) => {
    expect(asked('restart').told(...seen)).toEqual({ state: 'Refused', message });
  });
});

describe('what has become of a change', () => {
  const change = (isOfDisks = false) =>
    requestIn(textOfChange('vm-uid', { generation: 2, isOfDisks, known: ['an old one'] }));
  const seen = (observedGeneration: number, metadata: Partial<Vm['metadata']> = {}) =>
    aVm({
      metadata: { generation: 2, ...metadata },
      status: { observedGeneration, warnings: ['an old one', 'a new one'] },
    });
  const going = { generation: 3, deletionTimestamp: '2026-11-01T10:00:00Z' };

  test('is that it is done, with the warnings that are new, once the operator has looked at it', () => {
    const warnings: string[] = [];
    const warn = (text: string) => void warnings.push(text);
    expect(outcomeOf(seen(1), change(), warn)).toEqual({ state: 'UnderWay' });
    expect(warnings).toEqual([]);
    expect(outcomeOf(seen(2), change(), warn)).toEqual({ state: 'Done' });
    expect(warnings).toEqual(['a new one']);
  });

  test('is that nothing comes of it where the VM is being deleted, but for what becomes of its disks', () => {
    const ignore = () => undefined;
    const refused = { state: 'Refused', message: 'VM web is being deleted' };
    expect(outcomeOf(seen(1, going), change(), ignore)).toEqual(refused);
    expect(outcomeOf(seen(1, going), change(true), ignore)).toEqual({ state: 'UnderWay' });
    expect(outcomeOf(seen(3, going), change(), ignore)).toEqual({ state: 'Done' });
  });
});

test.each(['', 'e30', 'nothing', '%'])('a request "%s" that no reply has is refused', (text) => {
  expect(() => requestIn(text)).toThrow('request: must be request of a reply to exec or PATCH');
});

test('the longest text fits the query', async () => {
  const { vmQuery } = await import('../../../src/wire/schemas.ts');
  const id = 'x'.repeat(64);
  const spec = { powerState: 'Suspended', revertRequest: id, startRequest: id, restartRequest: id } as const;
  const patched = aVm({ metadata: { uid: id }, status: { revertRequest: id, restartRequest: id } });
  const known = Array.from({ length: 64 }, (_, index) => `${index}`);
  const texts = [
    textOfVerb(patched, spec),
    textOfChange(id, { generation: 2 ** 40, isOfDisks: true, known }),
  ];
  for (const request of texts) {
    expect(vmQuery.parse({ request })).toEqual({ request });
    expect(() => requestIn(request)).not.toThrow();
  }
});
