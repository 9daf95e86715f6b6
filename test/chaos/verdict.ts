/** All invariants of a run, and the table at its end. */
import type { Restless } from './judges/atrest.ts';
import { unaskedDeletions } from './judges/deletions.ts';
import { unexplainedEndings } from './judges/endings.ts';
import { badContents, lostSaves, missingFromStore } from './judges/images.ts';
import { gpuPods, sharedDisks, sharedGpus, twinGuests } from './judges/overlaps.ts';
import { leakedPasswords, unaskedSecrets } from './judges/secrets.ts';
import { timeline } from './judges/timeline.ts';
import { unseen } from './judges/unseen.ts';
import { clock, type Violation } from './judges/violation.ts';
import type { History } from './record/history.ts';

export interface Verdict {
  readonly invariant: string;
  readonly violations: readonly Violation[];
  /** Whether the run had anything that could have violated it, and what. */
  readonly seen: string;
}

export interface AfterFaults {
  /** What did not come to rest. */
  readonly notAtRest: readonly Restless[];
  /** What is left after everything was deleted. */
  readonly left: readonly string[];
  readonly at: number;
}

export function judge(history: History, after: AfterFaults): Verdict[] {
  const { guests, contents, disks, store } = history;
  const ended = guests.filter(({ until }) => until !== undefined).length;
  const listed = (evidence: readonly string[], what: string): Violation[] =>
    evidence.length === 0 ? [] : [{ object: `${evidence.length} things`, at: after.at, what, evidence }];
  return [
    {
      invariant: 'no running guest ends without a cause',
      violations: unexplainedEndings(history),
      seen: `${guests.length} guests, ${ended} ended`,
    },
    {
      invariant: 'nobody but its user deletes a VM',
      violations: unaskedDeletions(history),
      seen: `${count(history, 'delete')} deletions asked for`,
    },
    {
      invariant: 'a disk keeps what its guest synced',
      violations: badContents(history),
      seen: `${contents.length} images read, ${contents.filter(({ marker }) => marker !== undefined).length} with a marker; ${disks.length} running guests asked`,
    },
    {
      invariant: 'an accepted save ends with a Ready image',
      violations: lostSaves(history),
      seen: `${count(history, 'save')} saves`,
    },
    {
      invariant: 'a Ready image is in the registry',
      violations: missingFromStore(history),
      seen: `${store.length} looks at its folder`,
    },
    {
      invariant: 'never two guests on one disk',
      violations: sharedDisks(history),
      seen: `${new Set(guests.flatMap((life) => life.disks)).size} disks`,
    },
    {
      invariant: 'never two guests of one VM',
      violations: twinGuests(history),
      seen: `${new Set(guests.map(({ vmUid }) => vmUid)).size} VMs`,
    },
    {
      invariant: 'never two GPU VMs on a node',
      violations: sharedGpus(history),
      seen: `${gpuPods(history).length} pods with a GPU (the local cluster has none)`,
    },
    {
      invariant: 'no password outside of its namespace',
      violations: leakedPasswords(history),
      seen: `${count(history, 'addCredential') + count(history, 'replaceCredential')} passwords`,
    },
    { invariant: 'no Secret where nobody asked for it', violations: unaskedSecrets(history), seen: '' },
    {
      invariant: 'everything comes to rest',
      violations: after.notAtRest.map((each) => restlessness(history, each, after.at)),
      seen: '',
    },
    { invariant: 'nothing is left after all is deleted', violations: listed(after.left, 'left'), seen: '' },
    {
      invariant: 'the run had something to judge',
      violations: listed(unseen(history), 'not seen in the whole run'),
      seen: '',
    },
  ];
}

function restlessness(history: History, { object, namespace, name, what }: Restless, at: number): Violation {
  const evidence = namespace === undefined ? [] : timeline(history, { namespace, name }, 0, at);
  return { object, at, what: `not at rest in time: ${what}`, evidence };
}

function count({ operations }: History, verb: string): number {
  return operations.filter((operation) => operation.verb === verb && operation.outcome === 'accepted').length;
}

/** Text of the end of a run: operations, faults, invariants, and the evidence of each violation. */
export function report(history: History, verdicts: readonly Verdict[]): string {
  return [
    '',
    'operations',
    ...tally(history.operations.map(({ verb, outcome = 'open' }) => [verb, outcome])),
    '',
    `faults: ${history.faults.length}`,
    ...tally(
      history.faults.map(({ kind, problem }) => [kind, problem === undefined ? 'injected' : 'failed']),
    ),
    '',
    `gaps in what was recorded: ${history.gaps.length}`,
    ...history.gaps.map((gap) => `  ${gap.resource}: ${clock(gap.from)} to ${clock(gap.until)} (${gap.why})`),
    '',
    'invariants',
    ...verdicts.map(({ invariant, violations, seen }) => {
      const words = violations.length === 0 ? 'ok' : `${violations.length} VIOLATED`;
      return `  ${invariant.padEnd(44)} ${words.padEnd(12)} ${seen}`;
    }),
    ...verdicts.flatMap(({ invariant, violations }) =>
      violations.flatMap((each) => finding(invariant, each)),
    ),
    '',
  ].join('\n');
}

/** The whole run in one line, e.g. for the end of a log of CI. */
export function summary(seed: string, { faults }: History, verdicts: readonly Verdict[]): string {
  const injected = faults.filter(({ problem }) => problem === undefined).length;
  const findings = verdicts.flatMap(({ violations }) => violations).length;
  return `chaos: seed ${seed}, ${injected} faults injected, ${findings} findings`;
}

/** So many lines of evidence are printed; all of them stand in the folder of the run. */
const shownLines = 40;

function finding(invariant: string, { object, at, what, evidence }: Violation): string[] {
  const more = evidence.length - shownLines;
  return [
    '',
    `VIOLATED: ${invariant}`,
    `  ${object} at ${clock(at)}: ${what}`,
    ...(more > 0 ? [`    (${more} lines before)`] : []),
    ...evidence.slice(-shownLines).map((line) => `    ${line}`),
  ];
}

/** One line for each first word, with the counts of the second ones. */
function tally(pairs: readonly (readonly [string, string])[]): string[] {
  const rows = new Map<string, Map<string, number>>();
  for (const [name, result] of pairs) {
    const row = rows.get(name) ?? new Map<string, number>();
    rows.set(name, row.set(result, (row.get(result) ?? 0) + 1));
  }
  return [...rows]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, row]) => {
      const counts = [...row].map(([result, times]) => `${times} ${result}`);
      return `  ${name.padEnd(36)} ${counts.join(', ')}`;
    });
}
