/**
 * `npm run mutate [-- NAME…]`: changes the sources in small ways, one at a time, in copies of the checkout, and runs the unit
 * tests that reach the file. What no test notices is listed, but for what equivalent.ts names. The changes of known.ts are tried in
 * every run, beside a sample of all others. SVC3_MUTANTS: how many per target (default 60); SVC3_MUTATION_SEED: which (printed; the
 * same seed takes the same ones).
 */
import { globSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isNamed } from './equivalent.ts';
import { known } from './known.ts';
import { describeMutant, mutantsOf } from './mutants.ts';
import { importersIn, reachOf } from './reach.ts';
import { sampleOf, seeded } from './sample.ts';
import { type Target, targets } from './targets.ts';
import { type Change, copyOfCheckout, durationsOf, roundsOf, type Verdict, verdictOf } from './trial.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const copies = 2;
/** What is seen of each change while the run goes on. */
const marks: Readonly<Record<Verdict, string>> = {
  noticed: '.',
  'out of time': 'T',
  survived: 'S',
  'no test reaches it': 'S',
};

function filesOf(target: Target): string[] {
  return [...new Set(target.sources.flatMap((pattern) => globSync(pattern, { cwd: root })))].toSorted();
}

function changesOf(target: Target): Change[] {
  return filesOf(target).flatMap((file) => {
    const mutants = mutantsOf(readFileSync(join(root, file), 'utf8'));
    return mutants.map((mutant) => Object.assign(mutant, { file }));
  });
}

/** The changes of known.ts in the files of a target. */
function knownOf(target: Target): Change[] {
  const files = filesOf(target);
  return known
    .filter(({ file }) => files.includes(file))
    .map(({ file, was, becomes }) => {
      const source = readFileSync(join(root, file), 'utf8');
      const start = source.indexOf(was);
      if (start === -1) throw new Error(`known.ts: ${file} has no ${was}`);
      const line = source.slice(0, start).split('\n').length;
      return { file, start, end: start + was.length, text: becomes, line };
    });
}

/** What was lost: its lines for the list, without those that are named as equivalent. */
function unnamed(lost: readonly (readonly [Change, Verdict])[]): string[] {
  return lost.flatMap(([change, verdict]) => {
    const source = readFileSync(join(root, change.file), 'utf8');
    const text = describeMutant(change, source);
    if (isNamed(change.file, source, change.start, text)) return [];
    return [`${change.file}:${change.line}  ${text}${verdict === 'survived' ? '' : `  (${verdict})`}`];
  });
}

/** Tries changes one after the other, in as many copies at a time as there are. */
type Tried = (changes: readonly Change[]) => Promise<[Change, Verdict][]>;

/** The tests of the files are run once without a change. */
async function createTrial(folders: readonly string[], files: readonly string[]): Promise<Tried> {
  const importers = importersIn(root);
  const reaches = new Map(files.map((file) => [file, reachOf(file, importers)]));
  const tests = new Set<string>();
  for (const reach of reaches.values()) for (const test of reach.keys()) tests.add(test);
  const durations = await durationsOf(folders[0] as string, [...tests]);
  return async (changes) => {
    const verdicts: [Change, Verdict][] = [];
    const waiting = [...changes];
    const work = async (folder: string): Promise<void> => {
      for (let change = waiting.shift(); change !== undefined; change = waiting.shift()) {
        const rounds = roundsOf(reaches.get(change.file) ?? new Map(), durations);
        const verdict = await verdictOf(folder, change, { rounds, durations });
        verdicts.push([change, verdict]);
        process.stderr.write(marks[verdict]);
      }
    };
    await Promise.all(folders.map(work));
    process.stderr.write('\n');
    return verdicts;
  };
}

/** Nobody noticed it. Tests that a change keeps from ending would not be green either. */
function isLost([, verdict]: readonly [Change, Verdict]): boolean {
  return verdict !== 'noticed' && verdict !== 'out of time';
}

/** What tests noticed of a target. */
interface Score {
  readonly isKept: boolean;
  readonly line: string;
  readonly survivors: readonly string[];
}

async function scoreOf(target: Target, tried: Tried, random: () => number, most: number): Promise<Score> {
  const all = changesOf(target);
  const byHand = knownOf(target);
  const lostByHand = (await tried(byHand)).filter(isLost);
  const verdicts = await tried(sampleOf(all, most, random));
  const lost = verdicts.filter(isLost);
  const late = verdicts.filter(([, verdict]) => verdict === 'out of time').length;
  const survivors = unnamed(lost);
  const named = lost.length - survivors.length;
  const counted = verdicts.length - named;
  const share = counted === 0 ? 1 : 1 - survivors.length / counted;
  const cells = [
    target.name.padEnd(12),
    `${verdicts.length} of ${all.length}`.padStart(12),
    `${(share * 100).toFixed(0).padStart(3)} % noticed (goal ${target.goal * 100} %)`,
    `${late} out of time`,
    `${named} named as equivalent`,
    `${byHand.length - lostByHand.length} of ${byHand.length} by hand`,
  ];
  return {
    isKept: share >= target.goal && lostByHand.length === 0,
    line: cells.join('  '),
    survivors: [...unnamed(lostByHand), ...survivors],
  };
}

async function main(names: readonly string[]): Promise<number> {
  const seed = Number(process.env['SVC3_MUTATION_SEED'] ?? Math.floor(Math.random() * 1e9));
  const most = Number(process.env['SVC3_MUTANTS'] ?? 60);
  const unknown = names.find((name) => targets.every((target) => target.name !== name));
  if (unknown !== undefined) {
    console.error(`there is no target ${unknown}; there are ${targets.map(({ name }) => name).join(', ')}`);
    return 2;
  }
  console.log(`seed ${seed}, ${most} mutants per target`);
  const folders = Array.from({ length: copies }, () => copyOfCheckout(root));
  const end = (): void => folders.forEach((folder) => rmSync(folder, { recursive: true, force: true }));
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(130));
  process.once('exit', end);
  const asked = targets.filter(({ name }) => names.length === 0 || names.includes(name));
  const tried = await createTrial(folders, asked.flatMap(filesOf));
  const scores: Score[] = [];
  for (const target of asked) {
    const score = await scoreOf(target, tried, seeded(seed), most);
    scores.push(score);
    console.log([score.line, ...score.survivors.map((each) => `  ${each}`)].join('\n'));
  }
  console.log(`\n${scores.map(({ line }) => line).join('\n')}`);
  return scores.every(({ isKept }) => isKept) ? 0 : 1;
}

process.exitCode = await main(process.argv.slice(2));
