/**
 * `npm run check [-- STEP…]`, the gate: format, lint, types, what comments cite, which folder imports which, names, generated files, unit
 * tests; or only the steps that are named, or all but those with `--without` before them.
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));

interface Step {
  readonly name: string;
  readonly command: readonly string[];
  readonly hint: string;
}

export const steps: readonly Step[] = [
  { name: 'format', command: ['oxfmt', '--check', '.'], hint: 'run npm run format' },
  { name: 'lint', command: ['oxlint', '--type-aware', '--deny-warnings'], hint: 'mend what is listed above' },
  { name: 'types', command: ['tsc', '--noEmit'], hint: 'mend what is listed above' },
  {
    name: 'types of the web page',
    command: ['tsc', '--noEmit', '--project', 'src/http/ui/page'],
    hint: 'mend what is listed above',
  },
  {
    name: 'citations',
    command: ['node', 'scripts/citations.ts'],
    hint: 'cite a page of this repository, or bring it in',
  },
  {
    name: 'imports',
    command: ['node', 'scripts/imports.ts'],
    hint: 'keep to the table in docs/architecture.md, or change it with a reason',
  },
  {
    name: 'names',
    command: ['node', 'scripts/names.ts'],
    hint: 'name and place it as CONTRIBUTING.md says',
  },
  {
    name: 'generate',
    command: ['node', 'src/bin/generate.ts', '--check'],
    hint: 'run npm run generate and commit',
  },
  { name: 'unit', command: ['vitest', 'run', '--project', 'unit'], hint: 'mend the tests listed above' },
];

/**
 * The steps that the words of a command line ask for.
 *
 * @throws RangeError where no step has such a name
 */
export function chosen(words: readonly string[]): readonly Step[] {
  const isWithout = words[0] === '--without';
  const names = isWithout ? words.slice(1) : words;
  const unknown = names.filter((name) => steps.every((step) => step.name !== name));
  if (unknown.length > 0) {
    const known = steps.map(({ name }) => name).join(', ');
    throw new RangeError(`unknown step ${unknown.join(', ')}; there are ${known}`);
  }
  if (names.length === 0) return steps;
  return steps.filter(({ name }) => names.includes(name) !== isWithout);
}

function passes({ name, command, hint }: Step): boolean {
  const started = performance.now();
  const [program, ...parameters] = command;
  const result = spawnSync(program ?? '', parameters, { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] });
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  if (result.status === 0) console.error(`check: ${name} ok, ${seconds} s`);
  else console.error(`check: ${name} failed after ${seconds} s: ${hint}`);
  return result.status === 0;
}

function main(words: readonly string[]): number {
  try {
    return chosen(words).every(passes) ? 0 : 1;
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    console.error(`check: ${error.message}`);
    return 2;
  }
}

if (import.meta.main) process.exitCode = main(process.argv.slice(2));
