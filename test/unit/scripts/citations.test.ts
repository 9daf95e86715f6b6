import { describe, expect, test } from 'vitest';
import { brokenCitations, citedPhrases } from '../../../scripts/citations.ts';

const broken = (text: string, page = ''): string[] =>
  brokenCitations(
    text,
    (path) => path === 'docs/there.md',
    (number) => number === '0017',
    () => page,
  );

describe('what comments cite', () => {
  test('a page that is there is fine, one that is not is told', () => {
    expect(broken('/** See docs/there.md. */')).toEqual([]);
    expect(broken('// See docs/gone.md.')).toEqual(['cites docs/gone.md, which is not there']);
  });

  test('a decision that is there is fine, one that is not is told', () => {
    expect(broken('// As ADR 17 says.')).toEqual([]);
    expect(broken('// As ADR 170 says.')).toEqual(['cites ADR 170, which is not there']);
  });

  test('the number of a rule alone says nothing of where it stands', () => {
    expect(broken('/** (spec: rule 3) */')).toEqual([
      'cites "rule 3" of docs/contract/specification.md, which names no part of it',
    ]);
  });

  test('paths in code are no citations', () => {
    expect(broken("read('docs/gone.md');")).toEqual([]);
  });

  test('a phrase has to stand on the page, whatever its marks and line ends', () => {
    const page = 'Lists are\n`{"items":[…]}`, empty is `{"items":[]}`.';
    expect(broken('/** (contract: "empty is `{items:[]}`") */', page)).toEqual([]);
    expect(broken('/** (contract: "never empty") */', page)).toEqual([
      'cites "never empty" of docs/contract/wire.md, where it does not stand',
    ]);
  });

  test('a citation goes on in the next line of its comment', () => {
    expect(broken('/**\n * (spec: "one\n * two")\n */', 'one two')).toEqual([]);
  });

  test.each([
    ['GPU passthrough rules 3 and 5', ['GPU passthrough']],
    ['Limits, one GPU VM per x86 node', ['Limits']],
    ['"Authentication" 2, 4 and 5', ['Authentication']],
    ['`reservedPorts`; NodePort range', ['reservedPorts']],
    ['rule 3', []],
  ])('%s cites %j', (citation, phrases) => {
    expect(citedPhrases(citation)).toEqual(phrases);
  });
});
