import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { chosen, steps } from '../../../scripts/check.ts';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const names = (words: readonly string[]): string[] => chosen(words).map(({ name }) => name);
const all = steps.map(({ name }) => name);

test('every step is run, or those that are named, or all others', () => {
  expect(names([])).toEqual(all);
  expect(names(['types', 'format'])).toEqual(['format', 'types']);
  expect(names(['--without', 'unit'])).toEqual(all.filter((name) => name !== 'unit'));
});

test('npm test, which has a stage of unit tests, runs every other step', () => {
  const [, given = ''] = /'scripts\/check\.ts'(.*)\)/.exec(readFileSync(`${root}/test/run.ts`, 'utf8')) ?? [];
  const words = [...given.matchAll(/'([^']+)'/g)].map(([, word = '']) => word);
  expect(names(words)).toEqual(all.filter((name) => name !== 'unit'));
  expect(all).toContain('types of the web page');
});

test('a step that there is not is refused', () => {
  const { status, stderr } = spawnSync(process.execPath, ['scripts/check.ts', 'format', 'tpyes'], {
    cwd: root,
    encoding: 'utf8',
  });
  expect([status, stderr]).toEqual([2, `check: unknown step tpyes; there are ${all.join(', ')}\n`]);
});
