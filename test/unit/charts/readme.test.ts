import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';

const chart = join(import.meta.dirname, '../../../charts/svc3');
const read = (path: string): string => readFileSync(join(chart, path), 'utf8');

/** Paths of the switches that are on. */
function switchedOn(value: unknown, path: readonly string[] = []): string[] {
  if (value === true) return [path.join('.')];
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [];
  return Object.entries(value).flatMap(([key, below]) => switchedOn(below, [...path, key]));
}

test('README.md names the switches that are on by default, each by its whole name', () => {
  const [, named = ''] = /on by default \(([^)]*)\)/.exec(read('README.md')) ?? [];
  const names = [...named.matchAll(/`([^`]+)`/g)].map(([, name]) => name);
  expect(names.toSorted()).toEqual(switchedOn(parse(read('values.yaml'))).toSorted());
});
