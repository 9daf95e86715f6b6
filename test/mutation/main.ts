/**
 * `npm run mutate [-- NAME…]`: changes the sources in small ways, one at a time, in copies of the checkout, and runs the unit
 * tests that reach the file. What no test notices is listed. SVC3_MUTANTS: how many per target (default 60);
 * SVC3_MUTATION_SEED: which (printed; the same seed takes the same ones).
 */
import { spawn } from 'node:child_process';
import { cpSync, globSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Mutant, mutantsOf } from './mutants.ts';
import { sampleOf, seeded } from './sample.ts';
import { type Target, targets } from './targets.ts';

interface Change extends Mutant {
  readonly file: string;
}

type Verdict = 'noticed' | 'survived' | 'no test reaches it';

const root = fileURLToPath(new URL('../..', import.meta.url));
/** A mutant that makes a test run for ever counts as noticed. */
const testTimeoutMs = 60_000;
const copies = 2;

/** A tree of its own for one mutant at a time; packages are shared. */
function copyOfCheckout(): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc3-mutation-'));
  for (const name of [
    'src',
    'test',
    'scripts',
    'charts',
    'crds',
    'docs',
    'containers',
    'package.json',
    'tsconfig.json',
    'vitest.config.ts',
  ])
    cpSync(join(root, name), join(folder, name), { recursive: true });
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  return folder;
}

function changesOf(target: Target): Change[] {
  const files = target.sources.flatMap((pattern) => globSync(pattern, { cwd: root })).toSorted();
  return files.flatMap((file) => {
    const mutants = mutantsOf(readFileSync(join(root, file), 'utf8'));
    return mutants.map((mutant) => Object.assign(mutant, { file }));
  });
}

/** Exit code and output of the unit tests that import the file. */
async function relatedTests(folder: string, file: string): Promise<{ code: number; output: string }> {
  const parameters = [
    'related',
    file,
    '--run',
    '--project',
    'unit',
    '--bail',
    '1',
    '--passWithNoTests',
    '--reporter',
    'dot',
  ];
  const child = spawn(join(root, 'node_modules/.bin/vitest'), parameters, {
    cwd: folder,
    env: { ...process.env, CI: '' },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (text: Buffer) => (output += text.toString()));
  const timer = setTimeout(() => process.kill(-(child.pid ?? 0), 'SIGKILL'), testTimeoutMs);
  const code = await new Promise<number>((resolve) => {
    child.once('close', (status) => resolve(status ?? 1));
  });
  clearTimeout(timer);
  return { code, output };
}

async function verdictOf(folder: string, change: Change): Promise<Verdict> {
  const path = join(folder, change.file);
  const original = readFileSync(path, 'utf8');
  writeFileSync(path, original.slice(0, change.start) + change.text + original.slice(change.end));
  try {
    const { code, output } = await relatedTests(folder, change.file);
    if (output.includes('No test files found')) return 'no test reaches it';
    return code === 0 ? 'survived' : 'noticed';
  } finally {
    writeFileSync(path, original);
  }
}

/** The change as a person reads it: place, line and what stands there instead. */
function describe(change: Change): string {
  const source = readFileSync(join(root, change.file), 'utf8');
  const brief = (text: string): string => text.replaceAll(/\s+/g, ' ').slice(0, 70);
  return `${change.file}:${change.line}  ${brief(source.slice(change.start, change.end))}  →  ${brief(change.text)}`;
}

async function tryAll(folders: readonly string[], changes: readonly Change[]): Promise<Map<Change, Verdict>> {
  const verdicts = new Map<Change, Verdict>();
  const waiting = [...changes];
  await Promise.all(
    folders.map(async (folder) => {
      for (let change = waiting.shift(); change !== undefined; change = waiting.shift()) {
        verdicts.set(change, await verdictOf(folder, change));
        process.stderr.write(verdicts.get(change) === 'noticed' ? '.' : 'S');
      }
    }),
  );
  process.stderr.write('\n');
  return verdicts;
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
  const folders = Array.from({ length: copies }, copyOfCheckout);
  const end = (): void => folders.forEach((folder) => rmSync(folder, { recursive: true, force: true }));
  process.once('SIGINT', () => process.exit(130));
  process.once('exit', end);
  let kept = true;
  const table: string[] = [];
  for (const target of targets.filter(({ name }) => names.length === 0 || names.includes(name))) {
    const all = changesOf(target);
    const verdicts = await tryAll(folders, sampleOf(all, most, seeded(seed)));
    const lost = [...verdicts].filter(([, verdict]) => verdict !== 'noticed');
    const score = verdicts.size === 0 ? 1 : 1 - lost.length / verdicts.size;
    kept &&= score >= target.goal;
    const line = `${target.name.padEnd(12)} ${String(verdicts.size).padStart(4)} of ${String(all.length).padStart(4)}  ${(score * 100).toFixed(0).padStart(3)} % noticed (goal ${target.goal * 100} %)`;
    table.push(line);
    console.log(line);
    for (const [change, verdict] of lost)
      console.log(`  ${describe(change)}${verdict === 'survived' ? '' : `  (${verdict})`}`);
  }
  console.log(`\n${table.join('\n')}`);
  return kept ? 0 : 1;
}

process.exitCode = await main(process.argv.slice(2));
