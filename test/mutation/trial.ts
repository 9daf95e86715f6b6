/** Runs unit tests in a copy of the checkout, first without a change, then with one. */
import { execFileSync, spawn } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import type { Mutant } from './mutants.ts';

export interface Change extends Mutant {
  readonly file: string;
}

export type Verdict = 'noticed' | 'out of time' | 'survived' | 'no test reaches it';

/** A mutant that makes tests run for ever, or so many times as long as they take without it, is out of time. */
const timeLimits = { factor: 5, leastMs: 60_000, mostMs: 300_000 } as const;
/** Tests that are nearest to the changed file and take no longer than this go first: most mutants are noticed there. */
const quickMs = 3_000;

/** A tree of its own for one mutant at a time, of all that the checkout holds: a test may read any of it. Packages are shared. */
export function copyOfCheckout(root: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc3-mutation-'));
  const listed = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
    cwd: root,
    encoding: 'utf8',
  });
  for (const name of listed.split('\0').filter((each) => each !== '' && existsSync(join(root, each))))
    cpSync(join(root, name), join(folder, name));
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  return folder;
}

/** Exit code and output of these unit tests; they are killed after the time, and then have no code. */
async function runTests(
  folder: string,
  tests: readonly string[],
  { timeoutMs, more = [] }: { timeoutMs: number; more?: readonly string[] },
): Promise<{ code: number | undefined; output: string }> {
  // One worker for each copy: there are two.
  const parameters = ['run', '--project', 'unit', '--bail', '1', '--maxWorkers', '1', ...more, ...tests];
  const child = spawn(join(folder, 'node_modules/.bin/vitest'), parameters, {
    cwd: folder,
    env: { ...process.env, CI: '', NO_COLOR: '1' },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (text: Buffer) => (output += text.toString()));
  const kill = (): boolean => child.pid !== undefined && process.kill(-child.pid, 'SIGKILL');
  const timer = setTimeout(kill, timeoutMs);
  // Before the copy is taken away in which they run.
  process.prependOnceListener('exit', kill);
  const code = await new Promise<number | undefined>((resolve) => {
    child.once('close', (status) => resolve(status ?? undefined));
  });
  clearTimeout(timer);
  process.off('exit', kill);
  return { code, output };
}

/** How long each test file takes in milliseconds, by path. */
export type Durations = ReadonlyMap<string, number>;

interface Report {
  readonly testResults: readonly {
    readonly name: string;
    readonly startTime: number;
    readonly endTime: number;
  }[];
}

/** Without a mutant they have to be green: otherwise every mutant would seem to be noticed. */
export async function durationsOf(folder: string, tests: readonly string[]): Promise<Durations> {
  const file = join(folder, 'durations.json');
  const more = ['--reporter', 'default', '--reporter', 'json', '--outputFile.json', file];
  const { code, output } = await runTests(folder, tests, { timeoutMs: 1_800_000, more });
  if (code !== 0) throw new Error(`tests fail without a mutant:\n${output}`);
  const { testResults } = JSON.parse(readFileSync(file, 'utf8')) as Report;
  rmSync(file);
  return new Map(
    testResults.map(({ name, startTime, endTime }) => [relative(folder, name), endTime - startTime]),
  );
}

/** The tests of a file in the order in which they are asked: those that most likely notice, and soon, before all others. */
export function roundsOf(reach: ReadonlyMap<string, number>, durations: Durations): string[][] {
  const tests = [...reach.keys()];
  const nearest = Math.min(...reach.values());
  const isFirst = (test: string): boolean =>
    reach.get(test) === nearest && (durations.get(test) ?? 0) <= quickMs;
  return [tests.filter(isFirst), tests.filter((test) => !isFirst(test))].filter(({ length }) => length > 0);
}

/** Whether a test notices the change; the copy is as before afterwards. */
export async function verdictOf(
  folder: string,
  change: Change,
  { rounds, durations }: { readonly rounds: readonly string[][]; readonly durations: Durations },
): Promise<Verdict> {
  if (rounds.length === 0) return 'no test reaches it';
  const path = join(folder, change.file);
  const original = readFileSync(path, 'utf8');
  writeFileSync(path, original.slice(0, change.start) + change.text + original.slice(change.end));
  try {
    for (const tests of rounds) {
      const usualMs = tests.reduce((sum, test) => sum + (durations.get(test) ?? 0), 0);
      const timeoutMs = Math.min(
        timeLimits.mostMs,
        Math.max(timeLimits.leastMs, timeLimits.factor * usualMs),
      );
      const { code } = await runTests(folder, tests, { timeoutMs });
      if (code !== 0) return code === undefined ? 'out of time' : 'noticed';
    }
    return 'survived';
  } finally {
    writeFileSync(path, original);
  }
}
