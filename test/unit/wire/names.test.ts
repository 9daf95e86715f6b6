import { expect, test } from 'vitest';
import { definitions } from '../../../src/api/definitions.ts';
import { imageName, nameOfReference } from '../../../src/wire/names.ts';

/** What kube-apiserver demands of the name of an Image. */
const [rule] = definitions.find(({ singular }) => singular === 'image')?.rules ?? [];
const grammar = new RegExp(/matches\('(.+)'\)/.exec(rule?.rule ?? '')?.[1] ?? '(?!)');

test.each([
  ['registry.example.com/team/debian:12', 'debian'],
  ['registry.example.com/team/my--repo:1', 'my-repo'],
  ['registry.example.com/foo__bar@sha256:0123', 'foo-bar'],
  [`registry.example.com/${'a'.repeat(62)}-bcd`, 'a'.repeat(62)],
  ['registry.example.com/team/a.-b', 'a.b'],
])('an image pulled from %s is called %s', (reference, name) => {
  expect(nameOfReference(reference, 'remoteimage')).toBe(name);
  expect(name).toMatch(grammar);
});

test.each([
  'a',
  'a-b.c',
  '0',
  'a'.repeat(63),
  'a'.repeat(64),
  'a--b',
  'a.-b',
  'a..b',
  'a-',
  '.a',
  'A',
  'a_b',
  '',
])('%j is a name where kube-apiserver takes it, and nowhere else', (name) => {
  expect(imageName.safeParse(name).success).toBe(grammar.test(name) && name.length <= 63);
});

test.each(['a--b', 'a'.repeat(64), `${'a-'.repeat(40)}-`])('%s is refused with one sentence', (name) => {
  expect(imageName.safeParse(name).error?.issues.map(({ message }) => message)).toEqual([
    'must be at most 63 lower-case letters, digits, "-" and ".", begin and end with a letter or digit, and have no two signs side by side',
  ]);
});

test('a reference without a letter or digit in its last part is refused, and named', () => {
  expect(() => nameOfReference('registry.example.com/x/_', 'remoteimage')).toThrow(/^remoteimage: /);
});
