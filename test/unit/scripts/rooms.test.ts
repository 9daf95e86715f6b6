import { describe, expect, test } from 'vitest';
import {
  allowedRooms,
  circles,
  differences,
  folderOf,
  importedFiles,
  importedFolders,
  importedRooms,
  roomOf,
} from '../../../scripts/rooms.ts';

const rooms = (table: Record<string, string[]>): Map<string, Set<string>> =>
  new Map(Object.entries(table).map(([room, others]) => [room, new Set(others)]));

describe('rooms', () => {
  test('are the folders right below src, and the files there', () => {
    expect(roomOf('src/http/routes/vms.ts')).toBe('http');
    expect(roomOf('src/errors.ts')).toBe('errors');
  });

  test('are read from the table of the page', () => {
    const page =
      '| folder | what | imports |\n|---|---|---|\n| `kube` | the client | `api`, `errors` |\n| `api` | kinds | |\n';
    expect(allowedRooms(page)).toEqual(rooms({ kube: ['api', 'errors'], api: [] }));
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
    expect(importedRooms(imported)).toEqual(rooms({ a: ['b', 'c'], b: [], c: [] }));
  });

  test('have folders, and files beside these, which hang together in one direction', () => {
    expect(folderOf('src/http/routes/vms/list.ts')).toBe('src/http/routes');
    expect(folderOf('src/http/deep.ts')).toBe('src/http/deep.ts');
    const files = rooms({
      'src/a/x/one.ts': ['src/a/y/two.ts', 'src/a/x/own.ts', 'src/b/z/far.ts'],
      'src/a/y/two.ts': ['src/a/top.ts'],
      'src/a/top.ts': ['src/a/x/own.ts'],
      'src/a/x/own.ts': [],
    });
    const folders = importedFolders(files, new Set());
    expect(folders).toEqual(
      rooms({ 'src/a/x': ['src/a/y'], 'src/a/y': ['src/a/top.ts'], 'src/a/top.ts': ['src/a/x'] }),
    );
    expect(circles(folders)).toEqual(['src/a/x → src/a/y → src/a/top.ts → src/a/x']);
    expect(importedFolders(files, new Set(['a']))).toEqual(rooms({}));
  });

  test('differ from the table in either way', () => {
    expect(differences(rooms({ a: ['b', 'c'], b: [] }), rooms({ a: ['b'], b: ['a'] }))).toEqual([
      'src/b imports src/a, which docs/architecture.md does not allow',
      'docs/architecture.md lets src/a import src/c, which it does not: take it out',
    ]);
    expect(differences(rooms({ gone: [] }), rooms({}))).toEqual([
      'docs/architecture.md lists gone, which is not in src',
    ]);
  });

  test('in a circle are found once', () => {
    expect(circles(rooms({ a: ['b'], b: ['c'], c: ['a'], d: ['a'] }))).toEqual(['a → b → c → a']);
    expect(circles(rooms({ a: ['b', 'c'], b: ['c'], c: [] }))).toEqual([]);
    expect(circles(rooms({ a: ['b', 'c'], b: ['a'], c: ['d'], d: ['c'] }))).toEqual([
      'a → b → a',
      'c → d → c',
    ]);
  });
});
