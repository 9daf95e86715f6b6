import { expect, test } from 'vitest';
import { judge, summary } from '../../chaos/verdict.ts';
import { aHistory, s } from './builders.ts';

test('the last line counts the faults that were injected and every violation', () => {
  const target = { what: 'etcd' };
  const history = aHistory({
    faults: [
      { id: 1, kind: 'kill etcd', target, at: s(1) },
      { id: 2, kind: 'kill etcd', target, at: s(2), problem: 'it was gone' },
    ],
    leaks: [{ at: s(1), of: 'team', where: 'pods other/x' }],
  });
  const verdicts = judge(history, { unsettled: [], left: ['secrets team/x', 'vms team/y'], at: s(9) });
  expect(summary('abc', history, verdicts)).toBe('chaos: seed abc, 1 faults injected, 2 findings');
});
