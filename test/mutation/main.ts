/**
 * `npm run mutate [-- NAME…]`: changes the sources in small ways, one at a time, in copies of the checkout, and runs the unit
 * tests that reach the file. What no test notices is listed, but for what equivalent.ts names. SVC3_MUTANTS: how many per target
 * (default 60); SVC3_MUTATION_SEED: which (printed; the same seed takes the same ones).
 */
import { spawn } from 'node:child_process';
import { cpSync, globSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isNamed } from './equivalent.ts';
import { type Mutant, mutantsOf } from './mutants.ts';
import { sampleOf, seeded } from './sample.ts';
import { type Target, targets } from './targets.ts';

interface Change extends Mutant {
  readonly file: string;
}

type Verdict = 'noticed' | 'survived' | 'no test reaches it';

const root = fileURLToPath(new URL('../..', import.meta.url));
/** A mutant that makes tests run for ever, or so many times as long as they take without it, counts as noticed. */
const patience = { factor: 5, leastMs: 20_000, mostMs: 300_000 } as const;
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
async function relatedTests(
  folder: string,
  file: string,
  timeoutMs: number,
): Promise<{ code: number; output: string }> {
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
  const timer = setTimeout(() => process.kill(-(child.pid ?? 0), 'SIGKILL'), timeoutMs);
  const code = await new Promise<number>((resolve) => {
    child.once('close', (status) => resolve(status ?? 1));
  });
  clearTimeout(timer);
  return { code, output };
}

/** How long the tests of a file may take with a mutant in it, by file. */
const allowedMs = new Map<string, Promise<number>>();

/** Without a mutant they have to be green: otherwise every mutant would seem to be noticed. */
function allowedFor(folder: string, file: string): Promise<number> {
  const measure = async (): Promise<number> => {
    const startedMs = performance.now();
    const { code, output } = await relatedTests(folder, file, patience.mostMs);
    if (code !== 0) throw new Error(`the tests of ${file} fail without a mutant:\n${output}`);
    const tookMs = performance.now() - startedMs;
    return Math.min(patience.mostMs, Math.max(patience.leastMs, patience.factor * tookMs));
  };
  const known = allowedMs.get(file) ?? measure();
  allowedMs.set(file, known);
  return known;
}

async function verdictOf(folder: string, change: Change): Promise<Verdict> {
  const timeoutMs = await allowedFor(folder, change.file);
  const path = join(folder, change.file);
  const original = readFileSync(path, 'utf8');
  writeFileSync(path, original.slice(0, change.start) + change.text + original.slice(change.end));
  try {
    const { code, output } = await relatedTests(folder, change.file, timeoutMs);
    if (output.includes('No test files found')) return 'no test reaches it';
    return code === 0 ? 'survived' : 'noticed';
  } finally {
    writeFileSync(path, original);
  }
}

/** The change as a person reads it: what stands there and what instead. */
function describe(change: Change, source: string): string {
  const brief = (text: string): string => text.replaceAll(/\s+/g, ' ').slice(0, 70);
  return `${brief(source.slice(change.start, change.end))}  →  ${brief(change.text)}`;
}

/** What a sample lost: its lines for the list, without those that are named as equivalent. */
function unnamed(lost: readonly (readonly [Change, Verdict])[]): string[] {
  return lost.flatMap(([change, verdict]) => {
    const source = readFileSync(join(root, change.file), 'utf8');
    const text = describe(change, source);
    if (isNamed(change.file, source, change.start, text)) return [];
    return [`${change.file}:${change.line}  ${text}${verdict === 'survived' ? '' : `  (${verdict})`}`];
  });
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
    const lines = unnamed(lost);
    const named = lost.length - lines.length;
    const counted = verdicts.size - named;
    const score = counted === 0 ? 1 : 1 - lines.length / counted;
    kept &&= score >= target.goal;
    const line = `${target.name.padEnd(12)} ${String(verdicts.size).padStart(4)} of ${String(all.length).padStart(4)}  ${(score * 100).toFixed(0).padStart(3)} % noticed (goal ${target.goal * 100} %, ${named} named as equivalent)`;
    table.push(line);
    console.log(line);
    for (const each of lines) console.log(`  ${each}`);
  }
  console.log(`\n${table.join('\n')}`);
  return kept ? 0 : 1;
}

process.exitCode = await main(process.argv.slice(2));
