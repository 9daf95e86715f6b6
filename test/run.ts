/**
 * `npm test`: set-up and tests, in stages, with the time that each took now and last time.
 *
 * Nothing is run a second time (docs/adr/0002-no-test-is-repeated.md).
 */
import { spawn, type ChildProcess } from 'node:child_process';
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { stripVTControlCharacters } from 'node:util';
import { rootRefusal } from './support/rootstages.ts';
import type { StrayError } from './support/strayerrors.ts';

interface Totals {
  passed: number;
  failed: number;
  skipped: number;
  failures: string[];
}

interface VitestReport {
  numPassedTests: number;
  numFailedTests: number;
  numPendingTests: number;
  testResults: Array<{
    name: string;
    status: string;
    message: string;
    assertionResults: Array<{ status: string; fullName: string; failureMessages?: string[] }>;
  }>;
}

const root = fileURLToPath(new URL('..', import.meta.url));
const reports = mkdtempSync(join(tmpdir(), 'svc3-test-'));
const cache = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'svc3');
const durationsFile = join(cache, 'test-durations.json');
const children = new Set<ChildProcess>();
let interrupted = false;

function lastDurations(): Record<string, number> {
  try {
    return JSON.parse(readFileSync(durationsFile, 'utf8')) as Record<string, number>;
  } catch {
    return {};
  }
}

function saveDuration(stage: string, seconds: number): void {
  mkdirSync(cache, { recursive: true });
  writeFileSync(durationsFile, JSON.stringify({ ...lastDurations(), [stage]: Math.round(seconds) }));
}

interface RunOptions {
  /** A file that takes its output, instead of the terminal. */
  readonly heldIn?: string | undefined;
  readonly env?: NodeJS.ProcessEnv;
}

async function run(command: string[], { heldIn, env = {} }: RunOptions = {}): Promise<number> {
  const [program, ...parameters] = command;
  const output = heldIn === undefined ? 'inherit' : openSync(heldIn, 'a');
  const child = spawn(program ?? '', parameters, {
    cwd: root,
    env: { ...process.env, ...env },
    stdio: ['ignore', output, output],
    // A group of its own, so that an interrupt ends also the processes that tests have started.
    detached: true,
  });
  if (typeof output === 'number') closeSync(output);
  children.add(child);
  const code = await new Promise<number>((resolve) => {
    child.once('error', (error) => {
      console.error(`${program}: ${error.message}`);
      resolve(1);
    });
    child.once('close', (status) => resolve(status ?? 1));
  });
  children.delete(child);
  return interrupted ? 130 : code;
}

function readReport(file: string): Totals {
  if (!existsSync(file))
    return {
      passed: 0,
      failed: 1,
      skipped: 0,
      failures: ['the test runner ended without a report'],
    };
  const report = JSON.parse(readFileSync(file, 'utf8')) as VitestReport;
  const failed = report.testResults.filter((result) => result.status === 'failed');
  const brokenFiles = failed.filter((result) =>
    result.assertionResults.every((test) => test.status !== 'failed'),
  );
  return {
    passed: report.numPassedTests,
    failed: report.numFailedTests + brokenFiles.length,
    skipped: report.numPendingTests,
    failures: failed.flatMap((result) => {
      const names = result.assertionResults
        .filter((test) => test.status === 'failed')
        .map((test) => `${test.fullName}\n${beginning(test.failureMessages?.[0] ?? '')}`);
      return (names.length > 0 ? names : [result.message.split('\n', 1)[0] ?? '']).map(
        (name) => `${relative(root, result.name)}: ${name}`,
      );
    }),
  };
}

/** Why a test failed, as much of it as is read at the end of a run. */
function beginning(message: string): string {
  const lines = stripVTControlCharacters(message)
    .split('\n')
    .filter((line) => !line.includes('/node_modules/') && line.trim() !== '');
  return lines
    .slice(0, 12)
    .map((line) => `      ${line.slice(0, 300)}`)
    .join('\n');
}

let reportNumber = 0;

async function runTests(project: string, heldIn?: string): Promise<Totals> {
  const file = join(reports, `${++reportNumber}.json`);
  const strayErrors = join(reports, `${reportNumber}-stray.json`);
  const code = await run(['vitest', 'run', '--project', project], {
    heldIn,
    env: { SVC3_TEST_REPORT: file, SVC3_STRAY_ERRORS: strayErrors },
  });
  const totals = readReport(file);
  const stray = readStrayErrors(strayErrors);
  if (stray.length === 0 && code !== 0 && totals.failed === 0)
    stray.push(`vitest ended with ${code} though no test failed`);
  return {
    ...totals,
    failed: totals.failed + stray.length,
    failures: [...totals.failures, ...stray],
  };
}

function readStrayErrors(file: string): string[] {
  if (!existsSync(file)) return [];
  const errors = JSON.parse(readFileSync(file, 'utf8')) as StrayError[];
  return errors.map(({ text, during }) => `an error outside a test, during ${during}\n${beginning(text)}`);
}

async function runCommand(command: string[]): Promise<Totals> {
  const code = await run(command);
  return {
    passed: 0,
    failed: code === 0 ? 0 : 1,
    skipped: 0,
    failures: code === 0 ? [] : [`${command.join(' ')} failed`],
  };
}

type Work = (heldIn?: string) => Promise<Totals>;

const tests =
  (project: string): Work =>
  async (heldIn) =>
    runTests(project, heldIn);
const command =
  (...words: string[]): Work =>
  async () =>
    runCommand(words);

const works = {
  packages: command('node', 'test/packages.ts'),
  tools: command('node', 'src/bin/buildtools.ts'),
  check: command('node', 'scripts/check.ts', '--without', 'unit'),
  unit: tests('unit'),
  integration: tests('integration'),
  e2e: tests('e2e'),
  gpu: tests('gpu'),
  life: tests('life'),
  'life-own': tests('life-own'),
  release: tests('release'),
  long: tests('long'),
} satisfies Record<string, Work>;

type Name = keyof typeof works;

/**
 * What runs one after another; what runs at the same time, each a line of its own: tests on a local cluster wait for it half of their time, and
 * the processors are free for others meanwhile. Integration tests keep both busy: beside them the end-to-end tests took twice their time, and both
 * together as long as one after the other. So does the emulated GPU machine (docs/adr/0011-gpu-tests-by-themselves.md).
 */
const plan: readonly (readonly (readonly Name[])[])[] = [
  [['packages']],
  [['tools']],
  [['check']],
  [['unit']],
  [['integration']],
  [['e2e']],
  [['gpu']],
  [['life', 'life-own'], ['long']],
  [['release']],
];

/** Where one of them fails, nothing else has a meaning. */
const foundations: ReadonlySet<Name> = new Set(['packages', 'tools', 'check']);

const isName = (name: string): name is Name => Object.hasOwn(works, name);

/** What `npm test` runs; the others are long, and run where they are asked for. */
const usual: readonly Name[] = ['packages', 'tools', 'check', 'unit', 'integration', 'e2e'];

interface Done {
  readonly name: Name;
  readonly seconds: number;
  readonly totals: Totals;
}

async function runLine(line: readonly Name[], isHeld: boolean): Promise<Done[]> {
  const done: Done[] = [];
  for (const name of line) {
    if (interrupted) break;
    const held = isHeld ? join(reports, `${name}.log`) : undefined;
    const before = lastDurations()[name];
    console.error(`\n${name}${before === undefined ? '' : ` (last time ${before} s)`}`);
    const started = performance.now();
    const totals = await works[name](held);
    const seconds = (performance.now() - started) / 1000;
    if (held !== undefined)
      console.error(`\n${name}, which ran at the same time:\n${readFileSync(held, 'utf8')}`);
    if (totals.failed === 0) saveDuration(name, seconds);
    done.push({ name, seconds, totals });
  }
  return done;
}

function interrupt(): void {
  interrupted = true;
  for (const { pid } of children)
    try {
      if (pid !== undefined) process.kill(-pid, 'SIGTERM');
    } catch {
      // It has ended meanwhile.
    }
}

function isBroken(done: readonly Done[]): boolean {
  return done.some(({ name, totals }) => totals.failed > 0 && foundations.has(name));
}

function summaryOf(done: readonly Done[]): string {
  return done
    .map(({ name, seconds, totals: { failed } }) => {
      const verdict = failed === 0 ? 'ok    ' : 'FAILED';
      return `${name.padEnd(12)} ${verdict} ${seconds.toFixed(0).padStart(5)} s`;
    })
    .join('\n');
}

async function main(): Promise<number> {
  process.once('SIGINT', interrupt);
  process.once('SIGTERM', interrupt);
  const asked = process.argv.slice(2);
  const unknown = asked.filter((name) => !isName(name));
  if (unknown.length > 0) {
    console.error(`unknown stage ${unknown.join(', ')}; there are ${Object.keys(works).join(', ')}`);
    return 2;
  }
  const chosen: ReadonlySet<string> = new Set(asked.length > 0 ? asked : usual);
  const refusal = rootRefusal([...chosen], process.getuid?.());
  if (refusal !== undefined) {
    console.error(refusal);
    return 2;
  }
  const steps = plan
    .map((lines) => lines.map((line) => line.filter((name) => chosen.has(name))))
    .map((lines) => lines.filter((line) => line.length > 0))
    .filter((lines) => lines.length > 0);
  const done: Done[] = [];
  for (const [index, lines] of steps.entries()) {
    console.error(
      `\n[${index + 1}/${steps.length}] ${lines.map((line) => line.join(', ')).join(' beside ')}`,
    );
    const ended = await Promise.all(lines.map((line, place) => runLine(line, place > 0)));
    done.push(...ended.flat());
    if (interrupted || isBroken(done)) break;
  }
  console.error(`\n${summaryOf(done)}`);
  const sum = (of: (each: Totals) => number): number => done.reduce((all, { totals }) => all + of(totals), 0);
  const failures = done.flatMap(({ totals }) => totals.failures);
  if (failures.length > 0) console.error(`\nFailed:\n${failures.map((name) => `  ${name}`).join('\n')}`);
  const skipped = sum((totals) => totals.skipped);
  const isIncomplete = process.env['CI'] === 'true' && skipped > 0;
  if (isIncomplete) console.error(`\n${skipped} skipped: in CI everything has to run`);
  const failed = sum((totals) => totals.failed) + (isIncomplete ? 1 : 0);
  console.log(`\n${sum((totals) => totals.passed)} passed, ${failed} failed, ${skipped} skipped`);
  return interrupted ? 130 : failed === 0 ? 0 : 1;
}

try {
  process.exitCode = await main();
} finally {
  rmSync(reports, { recursive: true, force: true });
}
