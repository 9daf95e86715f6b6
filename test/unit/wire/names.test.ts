import { expect, test } from 'vitest';
import { definitions } from '../../../src/api/definitions.ts';
import { nameOfReference } from '../../../src/wire/names.ts';

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

test('a reference without a letter or digit in its last part is refused, and named', () => {
  expect(() => nameOfReference('registry.example.com/x/_', 'remoteimage')).toThrow(/^remoteimage: /);
});
