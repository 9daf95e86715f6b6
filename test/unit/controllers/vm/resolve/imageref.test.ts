import { describe, expect, test } from 'vitest';
import {
  digestOf,
  hasDigest,
  isNamed,
  parseImage,
  withDigest,
} from '../../../../../src/controllers/vm/resolve/imageref.ts';

test('a text with a slash is a reference, any other the name of an object', () => {
  expect(parseImage('r.example.com/debian')).toEqual({
    kind: 'reference',
    reference: 'r.example.com/debian',
  });
  expect(parseImage('debian')).toEqual({ kind: 'object', name: 'debian' });
});

test('a digest is put behind the repository, in the place of tag and digest', () => {
  expect(withDigest('r.example.com:5000/a:1', 'sha256:c')).toBe('r.example.com:5000/a@sha256:c');
  expect(withDigest('r.example.com/a@sha256:b', 'sha256:c')).toBe('r.example.com/a@sha256:c');
});

test('a digest is what follows the @', () => {
  expect([hasDigest('r/a:1'), hasDigest('r/a@sha256:b')]).toEqual([false, true]);
  expect([digestOf('r/a:1'), digestOf('r/a:1@sha256:b')]).toEqual([undefined, 'sha256:b']);
});

describe('what is pinned is what the text names', () => {
  const pinned = 'r.example.com/a@sha256:b';
  const referenceOf = (name: string) => ({ a: 'r.example.com/a:1', other: 'r.example.com/other' })[name];

  test.each([
    ['a', pinned, true],
    ['other', pinned, false],
    // It is gone: nobody can tell.
    ['gone', pinned, true],
    ['a', undefined, false],
    ['r.example.com/a', pinned, true],
    ['r.example.com/a:2', pinned, true],
    ['R.Example.com/a', pinned, true],
    ['r.example.com/other', pinned, false],
    ['r.example.com/a@sha256:b', pinned, true],
    ['r.example.com/a@sha256:c', pinned, false],
  ])('%s and %s: %s', (text, reference, expected) => {
    expect(isNamed(text, reference, referenceOf)).toBe(expected);
  });

  test('an object that follows another digest is still named', () => {
    expect(isNamed('a', pinned, () => 'r.example.com/a@sha256:c')).toBe(true);
  });
});
