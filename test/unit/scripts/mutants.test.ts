import { readFileSync } from 'node:fs';
import { matchesGlob } from 'node:path';
import { parseAst } from 'rolldown/parseAst';
import { describe, expect, test } from 'vitest';
import { equivalents, isNamed } from '../../mutation/equivalent.ts';
import { known } from '../../mutation/known.ts';
import { describeMutant, mutantsOf } from '../../mutation/mutants.ts';
import { reachOf } from '../../mutation/reach.ts';
import { sampleOf, seeded } from '../../mutation/sample.ts';
import { targets } from '../../mutation/targets.ts';
import { roundsOf } from '../../mutation/trial.ts';

/** The file as each mutant leaves it. */
const mutated = (source: string): string[] =>
  mutantsOf(source).map(({ start, end, text }) => source.slice(0, start) + text + source.slice(end));

describe('mutants', () => {
  test.each([
    ['a === b;', ['a !== b;']],
    ['f(a < 3);', [';', 'f(a <= 3);', 'f(a < 4);', 'f(a < 2);']],
    ['f(0);', [';', 'f(1);']],
    ['const x = 1n << a;', ['const x = 1n >> a;', 'const x = 2n << a;']],
    ['const x = a && b;', ['const x = (a) || (b);', 'const x = (a);', 'const x = (b);']],
    ['const x = a ?? b;', ['const x = (b);']],
    ["const x = a ?? '';", []],
    [
      'const x = (a ?? 0) * 1000;',
      [
        'const x = (a ?? 0) / 1000;',
        'const x = (a ?? 0) * 12000;',
        'const x = (a ?? 0) * 1;',
        'const x = (a ?? 1) * 1000;',
      ],
    ],
    ['log.info({ a: 1 }, b === c);', []],
    ['this.#log?.info(1);', []],
    ['i++;', [';']],
    ['delete a.b;', [';']],
    ['for (;;) continue;', ['for (;;) ;']],
    ['for (;;) break;', ['for (;;) ;']],
    ['const x = !a;', ['const x = a;']],
    ['const x = a ? b : c;', ['const x = (b);', 'const x = (c);']],
    ['const x = a ? {} : { a };', ['const x = ({});']],
    [
      'const x = a < b ? -1 : 1;',
      ['const x = (-1);', 'const x = (1);', 'const x = a < b ? 1 : -1;', 'const x = a <= b ? -1 : 1;'],
    ],
    ['const x = { a, b: c };', ['const x = { b: c };', 'const x = { a, };']],
    ['const x = {\n  a,\n  b,\n};', ['const x = {\n  b,\n};', 'const x = {\n  a,\n  };']],
    ['f({ a, });', [';', 'f({ });']],
    [
      'const x = { ...a, ...b };',
      ['const x = { ...b };', 'const x = { ...a, };', 'const x = { ...b, ...a };'],
    ],
    ['const x = { ...a, b };', ['const x = { b };', 'const x = { ...a, };', 'const x = { b, ...a };']],
    // A name of its own: in whatever order.
    [
      'const x = { ...a, ...(b ? {} : { b }) };',
      ['const x = { ...(b ? {} : { b }) };', 'const x = { ...a, ...(({})) };'],
    ],
    ['const x = { cause: a, b: undefined };', []],
    ['const x = [...a, ...b];', ['const x = [...b, ...a];']],
    ['const x = [a, b];', []],
    ['const x = [a, b, c];', ['const x = [b, c];', 'const x = [a, c];', 'const x = [a, b, ];']],
    ['const x = a.sort(b);', ['const x = a;']],
    ['const x = a.trim();', ['const x = a;']],
    ['if (a) b();', ['{ b(); }', '{}', 'if (a) ;']],
    ["const x = 'Running';", ["const x = 'mutated';"]],
    ["const x = 'a sentence of a message';", []],
    ['const x = a.filter(b);', ['const x = a;']],
    ['const x = a.some(b);', ['const x = a.every(b);']],
  ])('of %s', (source, expected) => {
    expect(mutated(source).toSorted()).toEqual(expected.toSorted());
  });

  test('leave types and imports alone', () => {
    expect(mutantsOf("import { a } from './a.ts';\ntype X = 'one' | 'two';\nlet x: 3;")).toEqual([]);
  });

  test('are programs all', () => {
    for (const mutant of mutated(readFileSync('src/registry/scrub.ts', 'utf8')))
      expect(() => parseAst(mutant, { lang: 'ts' })).not.toThrow();
  });

  test('know their line', () => {
    expect(mutantsOf('\n\na === b;').map(({ line }) => line)).toEqual([3]);
  });
});

test('a sample is the same for the same seed, and keeps the order', () => {
  const items = Array.from({ length: 100 }, (_, index) => index);
  const sample = sampleOf(items, 10, seeded(7));
  expect(sample).toHaveLength(10);
  expect(sample).toEqual(sample.toSorted((a, b) => a - b));
  expect(sampleOf(items, 10, seeded(7))).toEqual(sample);
  expect(sampleOf(items, 10, seeded(8))).not.toEqual(sample);
});

describe('a mutant that is named as equivalent', () => {
  test('is one of a file that is there, and the text that it lies in stands there', () => {
    for (const [file, named] of Map.groupBy(equivalents, (each) => each.file)) {
      const source = readFileSync(file, 'utf8');
      const shown = new Set(mutantsOf(source).map((mutant) => describeMutant(mutant, source)));
      for (const { within, inside, changes = [] } of named) {
        for (const text of [within, inside]) if (text !== undefined) expect(source).toContain(text);
        expect(changes.filter((change) => !shown.has(change))).toEqual([]);
      }
    }
  });

  test('is known by its text, or by the function that it is in', () => {
    const file = 'src/placement/nodetree.ts';
    const source = 'x;\nfunction hash() {\n  y;\n}\nz;\n';
    const named = (at: string): boolean => isNamed(file, source, source.indexOf(at), 'a  →  b');
    expect(['x;', 'y;', 'z;'].map(named)).toEqual([false, true, false]);
    const change = 'i < RESOURCES  →  i <= RESOURCES';
    expect(isNamed(file, source, 0, change)).toBe(true);
    expect(isNamed('src/placement/place.ts', source, 0, change)).toBe(false);
  });

  test('by a text that it lies in, together with its own text', () => {
    const file = 'src/placement/place.ts';
    const source = 'return 2 * x;\nreturn 2 * rankOf(x);\n';
    const named = (at: string, change: string): boolean => isNamed(file, source, source.indexOf(at), change);
    expect(named('2 * rankOf', '2  →  3')).toBe(true);
    expect(named('2 * rankOf', '2  →  1')).toBe(false);
    expect(named('2 * x', '2  →  3')).toBe(false);
  });
});

describe('a change that is known', () => {
  test.each(known)(
    'to $what: stands in its file once, and is tried with a target',
    ({ file, was, becomes }) => {
      expect(readFileSync(file, 'utf8').split(was)).toHaveLength(2);
      expect(becomes).not.toBe(was);
      expect(targets.some(({ sources }) => sources.some((pattern) => matchesGlob(file, pattern)))).toBe(true);
    },
  );
});

describe('the tests that a change may turn red', () => {
  const importers = new Map(
    Object.entries({
      'src/a.ts': ['test/unit/a.test.ts', 'test/unit/b.test.ts'],
      'src/b.ts': ['src/a.ts', 'test/unit/b.test.ts', 'test/integration/b.test.ts'],
      'src/c.ts': ['test/unit/c.test.ts'],
    }).map(([file, others]) => [file, new Set(others)]),
  );

  test('are the unit tests that import its file, by how many imports lie between', () => {
    expect(reachOf('src/b.ts', importers)).toEqual(
      new Map([
        ['test/unit/b.test.ts', 1],
        ['test/unit/a.test.ts', 2],
      ]),
    );
    expect(reachOf('src/d.ts', importers)).toEqual(new Map());
  });

  test('are asked in rounds: first those that are nearest and quick, then all others', () => {
    const reach = new Map([
      ['near', 1],
      ['slow', 1],
      ['next', 2],
      ['far', 3],
    ]);
    expect(roundsOf(reach, new Map([['slow', 60_000]]))).toEqual([['near'], ['slow', 'next', 'far']]);
    expect(roundsOf(new Map([['far', 5]]), new Map())).toEqual([['far']]);
    expect(roundsOf(new Map(), new Map())).toEqual([]);
  });
});
