import { describe, expect, test } from 'vitest';
import {
  allowedImports,
  cycles,
  differences,
  importedFiles,
  importedFolders,
  importedSiblings,
  topOf,
  siblings,
} from '../../../scripts/imports.ts';

const imports = (table: Record<string, string[]>): Map<string, Set<string>> =>
  new Map(Object.entries(table).map(([name, others]) => [name, new Set(others)]));

describe('folders and files', () => {
  test('right below src are what the table lists', () => {
    expect(topOf('src/http/routes/vms.ts')).toBe('http');
    expect(topOf('src/errors.ts')).toBe('errors');
  });

  test('are read from the table of the page', () => {
    const page =
      '| folder | what | imports |\n|---|---|---|\n| `kube` | the client | `api`, `errors` |\n| `api` | kinds | |\n';
    expect(allowedImports(page)).toEqual(imports({ kube: ['api', 'errors'], api: [] }));
  });

  test('import each other by value, by type and lazily', () => {
    const files: Record<string, string> = {
      'src/a/one.ts': "import type { X } from '../b/two.ts';\nexport { y } from './own.ts';",
      'src/a/own.ts': "const z = await import('../c.ts');",
      'src/b/two.ts': "import { readFileSync } from 'node:fs';",
      'src/c.ts': '',
    };
    const imported = importedFiles(Object.keys(files), (path) => files[path] ?? '');
    expect(imported.get('src/a/one.ts')).toEqual(new Set(['src/b/two.ts', 'src/a/own.ts']));
    expect(importedFolders(imported)).toEqual(imports({ a: ['b', 'c'], b: [], c: [] }));
  });

  test('import each other in one direction, also a folder and a file beside it', () => {
    expect(siblings('src/a/x/one.ts', 'src/a/y/deep/two.ts')).toEqual(['src/a/x', 'src/a/y']);
    expect(siblings('src/a/x/one.ts', 'src/a/x/two.ts')).toEqual(['src/a/x/one.ts', 'src/a/x/two.ts']);
    expect(siblings('src/a/x/one.ts', 'src/a/top.ts')).toEqual(['src/a/x', 'src/a/top.ts']);
    const files = imports({
      'src/a/x/one.ts': ['src/a/y/two.ts', 'src/a/x/own.ts'],
      'src/a/y/two.ts': ['src/a/top.ts'],
      'src/a/top.ts': ['src/a/x/own.ts'],
      'src/a/x/own.ts': [],
    });
    expect(cycles(importedSiblings(files))).toEqual(['src/a/x → src/a/y → src/a/top.ts → src/a/x']);
  });

  test('import each other in one direction at every level', () => {
    const files = imports({
      'src/a/x/in/one.ts': ['src/a/x/out/two.ts'],
      'src/a/x/out/two.ts': ['src/a/x/plain.ts'],
      'src/a/x/plain.ts': ['src/a/x/in/other.ts'],
      'src/a/x/in/other.ts': [],
    });
    const cycle = ['src/a/x/in → src/a/x/out → src/a/x/plain.ts → src/a/x/in'];
    expect(cycles(importedSiblings(files))).toEqual(cycle);
  });

  test('differ from the table in either way', () => {
    expect(differences(imports({ a: ['b', 'c'], b: [] }), imports({ a: ['b'], b: ['a'] }))).toEqual([
      'src/b imports src/a, which docs/architecture.md does not allow',
      'docs/architecture.md lets src/a import src/c, which it does not: take it out',
    ]);
    expect(differences(imports({ gone: [] }), imports({}))).toEqual([
      'docs/architecture.md lists gone, which is not in src',
    ]);
  });

  test('in a cycle are found once', () => {
    expect(cycles(imports({ a: ['b'], b: ['c'], c: ['a'], d: ['a'] }))).toEqual(['a → b → c → a']);
    expect(cycles(imports({ a: ['b', 'c'], b: ['c'], c: [] }))).toEqual([]);
    expect(cycles(imports({ a: ['b', 'c'], b: ['a'], c: ['d'], d: ['c'] }))).toEqual([
      'a → b → a',
      'c → d → c',
    ]);
  });
});
