import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { conditionsPage } from '../../../src/api/conditionspage.ts';
import { reasonTable } from '../../../src/api/reasons.ts';

test('docs/conditions.md says what the table of reasons says', () => {
  const page = readFileSync(join(import.meta.dirname, '../../../docs/conditions.md'), 'utf8');
  expect(page).toBe(conditionsPage());
});

test('every reason is a PascalCase word that the schema takes, and stands once for each condition and status', () => {
  const keys = reasonTable.map((row) => [row.kind, row.type, row.status, row.reason].join(' '));
  expect(new Set(keys).size).toBe(keys.length);
  for (const { reason } of reasonTable) expect(reason).toMatch(/^[A-Z][A-Za-z0-9]{0,63}$/);
});

test('meaning and advice are sentences', () => {
  for (const { meaning, action } of reasonTable) {
    expect(meaning).toMatch(/^\S.*\.$/);
    expect(action).toMatch(/^[A-Z].*[.)`]$/);
    expect(meaning + action).not.toContain('|');
  }
});

test('every reason that a controller writes as a literal stands in the table', () => {
  const known = new Set([...reasonTable.map(({ reason }) => reason), 'Progressing']);
  const written = new Map<string, string>();
  const controllers = join(import.meta.dirname, '../../../src/controllers');
  for (const file of globSync('**/*.ts', { cwd: controllers })) {
    const text = readFileSync(join(controllers, file), 'utf8');
    for (const [, reason = ''] of text.matchAll(/\bcondition\(\s*'(?:True|False|Unknown)',\s*'([A-Z]\w+)'/g))
      written.set(reason, file);
    for (const [, reason = ''] of text.matchAll(/\bunresolved\(\s*'\w+',\s*'([A-Z]\w+)'/g))
      written.set(reason, file);
  }
  expect(written.size).toBeGreaterThan(20);
  expect([...written].filter(([reason]) => !known.has(reason))).toEqual([]);
});
