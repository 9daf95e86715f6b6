import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isSvc3Error } from '../../../src/errors.ts';
import { formatReference, parseReference } from '../../../src/registry/reference.ts';
import { parseChallenge } from '../../../src/registry/auth.ts';

const digest = `sha256:${'a'.repeat(64)}`;

describe('parseReference', () => {
  it.each([
    ['an official image of Docker Hub', 'debian', 'docker.io/library/debian:latest'],
    ['an image of a user of Docker Hub', 'alice/vm:1', 'docker.io/alice/vm:1'],
    ['Docker Hub under its old name', 'index.docker.io/alice/vm', 'docker.io/alice/vm:latest'],
    ['a registry with a port', 'registry.example:5000/a/b:2', 'registry.example:5000/a/b:2'],
    ['a registry on localhost', 'localhost/a', 'localhost/a:latest'],
    ['a registry in upper case', 'REGISTRY.example/a', 'registry.example/a:latest'],
    ['an IPv6 address', '[::1]:5000/a', '[::1]:5000/a:latest'],
    ['a digest', `r.example/a@${digest}`, `r.example/a@${digest}`],
    ['a tag and a digest', `r.example/a:1@${digest}`, `r.example/a:1@${digest}`],
  ])('reads %s', (_what, text, expected) => {
    expect(formatReference(parseReference(text))).toBe(expected);
  });

  it.each([
    ['a scheme', 'https://r.example/a', 'leave the scheme out'],
    ['upper case in the repository', 'r.example/A', 'lower case'],
    ['an empty repository', 'r.example/', 'lower case'],
    ['a path that climbs', 'r.example/a/../b', 'lower case'],
    ['a bad tag', 'r.example/a:!', 'tag'],
    ['a short digest', 'r.example/a@sha256:abc', 'digest'],
    ['a text that is too long', `r.example/${'a'.repeat(600)}`, 'longer than 512'],
  ])('refuses %s and names the field', (_what, text, why) => {
    const read = (): unknown => parseReference(text, 'spec.image');
    expect(read).toThrow(why);
    expect(read).toThrow('spec.image');
  });

  it('reads what it wrote, and refuses by name whatever it does not read', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 80 }), (text) => {
        try {
          const once = formatReference(parseReference(text));
          expect(formatReference(parseReference(once))).toBe(once);
        } catch (error) {
          expect(isSvc3Error(error, 'Invalid')).toBe(true);
        }
      }),
    );
  });
});

describe('parseChallenge', () => {
  it.each([
    ['Basic realm="svc3"', { scheme: 'basic', parameters: { realm: 'svc3' } }],
    [
      'Bearer realm="https://auth.example/token",service="r",scope="repository:a/b:pull,push"',
      {
        scheme: 'bearer',
        parameters: { realm: 'https://auth.example/token', service: 'r', scope: 'repository:a/b:pull,push' },
      },
    ],
    ['bearer realm=x', { scheme: 'bearer', parameters: { realm: 'x' } }],
    ['Negotiate, Basic realm="a"', { scheme: 'basic', parameters: { realm: 'a' } }],
  ])('reads %s', (header, expected) => {
    expect(parseChallenge(header)).toEqual(expected);
  });

  it('answers nothing to a scheme that it does not speak', () => {
    expect(parseChallenge('Negotiate')).toBeUndefined();
    expect(parseChallenge(undefined)).toBeUndefined();
  });
});
