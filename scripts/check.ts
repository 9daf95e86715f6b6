/** `npm run check`, the gate: format, lint, types, what comments cite, which folder imports which, generated files, unit tests. */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const steps: ReadonlyArray<{ name: string; command: string[]; hint: string }> = [
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
    name: 'generate',
    command: ['node', 'src/bin/generate.ts', '--check'],
    hint: 'run npm run generate and commit',
  },
  { name: 'unit', command: ['vitest', 'run', '--project', 'unit'], hint: 'mend the tests listed above' },
];

const only = process.argv.slice(2);
for (const step of steps) {
  if (only.length > 0 && !only.includes(step.name)) continue;
  const started = performance.now();
  const [program, ...parameters] = step.command;
  const result = spawnSync(program ?? '', parameters, { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] });
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  if (result.status !== 0) {
    console.error(`check: ${step.name} failed after ${seconds} s: ${step.hint}`);
    process.exit(1);
  }
  console.error(`check: ${step.name} ok, ${seconds} s`);
}
