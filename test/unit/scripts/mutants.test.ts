import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { equivalents, isNamed } from '../../mutation/equivalent.ts';
import { mutantsOf } from '../../mutation/mutants.ts';
import { sampleOf, seeded } from '../../mutation/sample.ts';

/** The file as each mutant leaves it. */
const mutated = (source: string): string[] =>
  mutantsOf(source).map(({ start, end, text }) => source.slice(0, start) + text + source.slice(end));

describe('mutants', () => {
  test.each([
    ['a === b;', ['a !== b;']],
    ['f(a < 3);', [';', 'f(a <= 3);', 'f(a < 4);']],
    ['const x = a && b;', ['const x = (a) || (b);', 'const x = (a);', 'const x = (b);']],
    ['const x = a ?? b;', ['const x = (b);']],
    ["const x = a ?? '';", []],
    [
      'const x = (a ?? 0) * 1000;',
      ['const x = (a ?? 0) / 1000;', 'const x = (a ?? 0) * 12000;', 'const x = (a ?? 1) * 1000;'],
    ],
    ['log.info(a);', []],
    ['const x = !a;', ['const x = a;']],
    ['const x = a ? b : c;', ['const x = (b);', 'const x = (c);']],
    ['const x = a ? {} : { a };', ['const x = ({});']],
    ['const x = a < b ? -1 : 1;', ['const x = (-1);', 'const x = (1);', 'const x = a <= b ? -1 : 1;']],
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
  test('stands in a file that is there, and what is named stands in it', () => {
    for (const { file, within, changes = [] } of equivalents) {
      const source = readFileSync(file, 'utf8').replaceAll(/\s+/g, ' ');
      if (within !== undefined) expect(source).toContain(within);
      for (const change of changes) expect(source).toContain(change.split('  →  ')[0]?.slice(0, 70));
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
});
