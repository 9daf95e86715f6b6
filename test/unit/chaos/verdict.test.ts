import { describe, expect, test } from 'vitest';
import type { History, Operation } from '../../chaos/record/history.ts';
import { judge, summary } from '../../chaos/verdict.ts';
import { labels } from '../../../src/api/meta.ts';
import { aFault, aGuest, aHistory, anOperation, digest, imageSight, podSight, s } from './builders.ts';

/** What every run has seen. */
const usual: Pick<History, 'faults' | 'guests' | 'store'> = {
  faults: [aFault('kill etcd', 1)],
  guests: [aGuest({ since: 0 })],
  store: [{ at: s(1), until: s(1), repositories: new Map([['svc3/guest', new Set([digest])]]) }],
};

test('the last line counts the faults that were injected and every violation', () => {
  const target = { what: 'etcd' };
  const history = aHistory({
    ...usual,
    faults: [
      { id: 1, kind: 'kill etcd', target, at: s(1) },
      { id: 2, kind: 'kill etcd', target, at: s(2), problem: 'it was gone' },
    ],
    leaks: [{ at: s(1), of: 'team', where: 'pods other/x' }],
  });
  const verdicts = judge(history, { notAtRest: [], left: ['secrets team/x', 'vms team/y'], at: s(9) });
  expect(summary('abc', history, verdicts)).toBe('chaos: seed abc, 1 faults injected, 2 findings');
});

/** What is said against a run where nothing is wrong but that it tried too little. */
function missed(given: Partial<History>): readonly string[] {
  const verdicts = judge(aHistory({ ...usual, ...given }), { notAtRest: [], left: [], at: s(900) });
  const found = verdicts.flatMap(({ invariant, violations }) =>
    violations.map(({ evidence }) => ({ invariant, evidence })),
  );
  expect(found.filter(({ invariant }) => invariant !== 'the run had something to judge')).toEqual([]);
  return found.flatMap(({ evidence }) => evidence);
}

describe('a run', () => {
  const asked = (times: number, given: Omit<Partial<Operation>, 'at'> & { at?: number }): Operation[] =>
    Array.from({ length: times }, () => anOperation({ at: 60, outcome: 'refused', answer: 'no', ...given }));

  test('that had something to judge is not blamed', () => {
    expect(missed({})).toEqual([]);
    expect(missed({ operations: asked(30, { outcome: 'accepted' }) })).toEqual([]);
    const some = [...asked(30, { verb: 'save' }), ...asked(1, { verb: 'save', outcome: 'accepted' })];
    expect(missed({ operations: some })).toEqual([]);
  });

  test('in which no fault was injected had nothing to judge', () => {
    expect(missed({ faults: [] })).toEqual(['no fault was injected, 0 were tried']);
    const failed = [{ ...aFault('kill etcd', 1), problem: 'no such process' }];
    expect(missed({ faults: failed })).toEqual(['no fault was injected, 1 were tried']);
  });

  test('without a guest, or without a look at a store that held anything, had nothing to judge', () => {
    expect(missed({ guests: [] })).toEqual(['no guest ran']);
    expect(missed({ store: [] })).toEqual(["the registry's folder held nothing, in 0 looks"]);
    const empty = [{ at: s(1), until: s(1), repositories: new Map() }];
    expect(missed({ store: empty })).toEqual(["the registry's folder held nothing, in 1 looks"]);
  });

  test.each(['refused', 'unknown'] as const)('in which all saves were %s lost none of them', (outcome) => {
    expect(missed({ operations: asked(10, { verb: 'save', image: 'saved', outcome }) })).toEqual([
      'save was asked for 10 times and never accepted; last: no',
    ]);
    expect(missed({ operations: asked(9, { verb: 'save', image: 'saved', outcome }) })).toEqual([]);
  });

  test('is not blamed for markers in guests that may still boot', () => {
    const marks = (at: number) => asked(30, { verb: 'mark', via: 'ssh', outcome: 'unknown', at });
    expect(missed({ operations: marks(119) })).toEqual([]);
    expect(missed({ operations: marks(120) })).toEqual([
      'mark was asked for 30 times and never accepted; last: no',
    ]);
    // Its first guest has gone, the next one boots.
    const guests = [aGuest({ until: 130 }), aGuest({ since: 190, pid: 101 })];
    expect(missed({ guests, operations: marks(200) })).toEqual([]);
  });
});

test('what has not come to rest is told with what was seen of it, the worker pod of an image too', () => {
  const worker = podSight(3, {
    metadata: { name: 'svc3-worker-1', labels: { [labels.image]: 'saved' } },
    status: {
      phase: 'Pending',
      containerStatuses: [
        {
          name: 'worker',
          ready: false,
          restartCount: 0,
          image: '',
          imageID: '',
          state: { waiting: { reason: 'ContainerCreating' } },
        },
      ],
    },
  });
  const history = aHistory({ ...usual, sights: [imageSight(2, { ready: false }), worker] });
  const notAtRest = [
    { object: 'image team/saved', namespace: 'team', name: 'saved', what: 'Ready=False, Working: waiting' },
    { object: 'node n1', namespace: undefined, name: 'n1', what: 'not Ready' },
  ];
  const verdicts = judge(history, { notAtRest, left: [], at: s(9) });
  expect(verdicts.flatMap(({ violations }) => violations)).toEqual([
    {
      object: 'image team/saved',
      at: s(9),
      what: 'not at rest in time: Ready=False, Working: waiting',
      evidence: [
        expect.stringContaining('fault: kill etcd'),
        expect.stringContaining('images MODIFIED saved'),
        expect.stringMatching(
          /^10:00:03.000 pod MODIFIED svc3-worker-1 .*: Pending \(ContainerCreating\), .* n1$/,
        ),
      ],
    },
    { object: 'node n1', at: s(9), what: 'not at rest in time: not Ready', evidence: [] },
  ]);
});
