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

/** Two projects at the same time; the output of the second comes when it is through. */
async function runBeside(project: string, beside: string): Promise<Totals> {
  const held = join(reports, `${beside}.log`);
  const totals = await Promise.all([runTests(project), runTests(beside, held)]);
  console.error(`\n${beside}, which ran at the same time:\n${readFileSync(held, 'utf8')}`);
  const sum = (of: (each: Totals) => number): number => totals.reduce((all, each) => all + of(each), 0);
  return {
    passed: sum(({ passed }) => passed),
    failed: sum(({ failed }) => failed),
    skipped: sum(({ skipped }) => skipped),
    failures: totals.flatMap(({ failures }) => failures),
  };
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

interface Stage {
  readonly name: string;
  run(): Promise<Totals>;
  /** Only where it is asked for: it is long (docs/adr/0011-gpu-tests-by-themselves.md). */
  readonly isExtra?: true;
}

const stages: Stage[] = [
  {
    name: 'packages',
    run: async () => runCommand(['node', 'test/packages.ts']),
  },
  { name: 'tools', run: async () => runCommand(['node', 'src/bin/buildtools.ts']) },
  {
    name: 'check',
    run: async () =>
      runCommand(['node', 'scripts/check.ts', 'format', 'lint', 'types', 'citations', 'rooms', 'generate']),
  },
  { name: 'unit', run: async () => runTests('unit') },
  { name: 'integration', run: async () => runTests('integration') },
  { name: 'e2e', run: async () => runTests('e2e') },
  { name: 'gpu', run: async () => runTests('gpu'), isExtra: true },
  { name: 'life', run: async () => runBeside('life', 'life-own'), isExtra: true },
  { name: 'release', run: async () => runTests('release'), isExtra: true },
];

function interrupt(): void {
  interrupted = true;
  for (const child of children) child.kill('SIGTERM');
}

async function main(): Promise<number> {
  process.once('SIGINT', interrupt);
  process.once('SIGTERM', interrupt);
  const asked = process.argv.slice(2);
  const unknown = asked.filter((name) => !stages.some((stage) => stage.name === name));
  if (unknown.length > 0) {
    console.error(
      `unknown stage ${unknown.join(', ')}; there are ${stages.map((stage) => stage.name).join(', ')}`,
    );
    return 2;
  }
  const chosen = stages.filter(
    ({ name, isExtra }) => asked.includes(name) || (asked.length === 0 && isExtra !== true),
  );
  const last = lastDurations();
  const sum: Totals = { passed: 0, failed: 0, skipped: 0, failures: [] };
  const summary: string[] = [];
  for (const [index, stage] of chosen.entries()) {
    const before = last[stage.name];
    console.error(
      `\n[${index + 1}/${chosen.length}] ${stage.name}${before === undefined ? '' : ` (last time ${before} s)`}`,
    );
    const started = performance.now();
    const totals = await stage.run();
    const seconds = (performance.now() - started) / 1000;
    sum.passed += totals.passed;
    sum.failed += totals.failed;
    sum.skipped += totals.skipped;
    sum.failures.push(...totals.failures);
    summary.push(
      `${stage.name.padEnd(12)} ${totals.failed === 0 ? 'ok    ' : 'FAILED'} ${seconds.toFixed(0).padStart(5)} s`,
    );
    if (totals.failed === 0) saveDuration(stage.name, seconds);
    if (interrupted || (totals.failed > 0 && ['packages', 'tools', 'check'].includes(stage.name))) break;
  }
  console.error(`\n${summary.join('\n')}`);
  if (sum.failures.length > 0)
    console.error(`\nFailed:\n${sum.failures.map((name) => `  ${name}`).join('\n')}`);
  if (process.env['CI'] === 'true' && sum.skipped > 0) {
    console.error(`\n${sum.skipped} skipped: in CI everything has to run`);
    sum.failed += 1;
  }
  console.log(`\n${sum.passed} passed, ${sum.failed} failed, ${sum.skipped} skipped`);
  return interrupted ? 130 : sum.failed === 0 ? 0 : 1;
}

try {
  process.exitCode = await main();
} finally {
  rmSync(reports, { recursive: true, force: true });
}
