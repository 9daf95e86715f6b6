import { describe, expect, test } from 'vitest';
import { countVms } from '../../../../src/controllers/vmpool/members.ts';
import { aPoolVm, aStandby, ownedBy } from './builders.ts';

const nobody = () => undefined;

describe('the VMs of a pool', () => {
  test('are those that name it, whether they have a guest or not', () => {
    expect(countVms([aPoolVm('a'), aPoolVm('b')], [aStandby('1')], nobody)).toBe(2);
  });

  test('are as well those that have one of its guests and know nothing of it', () => {
    const served = aPoolVm('served', { spec: { config: 'builder' } });
    expect(countVms([], [ownedBy(served, aStandby('1')), aStandby('2')], nobody)).toBe(1);
  });

  test('count from the moment on in which they choose a guest', () => {
    expect(countVms([], [aStandby('1')], () => 'uid-of-served')).toBe(1);
  });

  test('count once', () => {
    const named = aPoolVm('a');
    const [owned, chosen] = [ownedBy(named, aStandby('1')), aStandby('2')];
    expect(countVms([named], [owned, chosen], () => named.metadata.uid)).toBe(1);
  });
});
