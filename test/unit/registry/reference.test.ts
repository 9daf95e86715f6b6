import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isSvc3Error } from '../../../src/errors.ts';
import {
  type ImageReference,
  manifestName,
  parseReference,
  pinned,
  registryAddress,
} from '../../../src/registry/reference.ts';
import { parseChallenge } from '../../../src/registry/auth.ts';

function textOf({ registry, repository, tag, digest: pin }: ImageReference): string {
  return `${registry}/${repository}${tag === undefined ? '' : `:${tag}`}${pin === undefined ? '' : `@${pin}`}`;
}

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
    ['Docker Hub by its own address', 'registry-1.docker.io/alice/vm', 'docker.io/alice/vm:latest'],
    ['an official image by the name of the Hub', 'docker.io/debian', 'docker.io/library/debian:latest'],
    ['a host without a dot as a user of Docker Hub', 'registry/a', 'docker.io/registry/a:latest'],
    ['a host without a dot by its port', 'registry:5000/a', 'registry:5000/a:latest'],
    ['an IPv6 address without a port', '[::1]/a', '[::1]/a:latest'],
    ['a host of one letter', 'r.e/a', 'r.e/a:latest'],
    ['a tag of 128 characters', `r.example/a:${'t'.repeat(128)}`, `r.example/a:${'t'.repeat(128)}`],
    ['a tag with a dot and a hyphen', 'r.example/a:_1.2-3', 'r.example/a:_1.2-3'],
    ['a repository of 255 characters', `r.example/${'a'.repeat(255)}`, `r.example/${'a'.repeat(255)}:latest`],
    ['separators in the repository', 'r.example/a.b/c_d/e__f/g--h', 'r.example/a.b/c_d/e__f/g--h:latest'],
    [
      '512 characters',
      `${'h.'.repeat(60)}h/${'a'.repeat(255)}:${'t'.repeat(128)}`,
      `${'h.'.repeat(60)}h/${'a'.repeat(255)}:${'t'.repeat(128)}`,
    ],
    ['a digest', `r.example/a@${digest}`, `r.example/a@${digest}`],
    ['a tag and a digest', `r.example/a:1@${digest}`, `r.example/a:1@${digest}`],
  ])('reads %s', (_what, text, expected) => {
    expect(textOf(parseReference(text))).toBe(expected);
  });

  it.each([
    ['a scheme', 'https://r.example/a', 'leave the scheme out'],
    ['upper case in the repository', 'r.example/A', 'lower case'],
    ['an empty repository', 'r.example/', 'lower case'],
    ['a path that climbs', 'r.example/a/../b', 'lower case'],
    ['a bad tag', 'r.example/a:!', 'tag'],
    ['a short digest', 'r.example/a@sha256:abc', 'digest'],
    ['a digest in upper case', `r.example/a@sha256:${'A'.repeat(64)}`, 'the digest has to be sha256'],
    ['another digest', `r.example/a@sha512:${'a'.repeat(64)}`, 'the digest has to be sha256'],
    ['an empty tag', 'r.example/a:', 'the tag may have'],
    ['a tag of 129 characters', `r.example/a:${'t'.repeat(129)}`, 'at most 128'],
    ['a tag that begins with a dot', 'r.example/a:.1', 'the tag may have'],
    ['a repository of 256 characters', `r.example/${'a'.repeat(256)}`, 'longer than 255'],
    ['a registry that ends with a hyphen', 'r.example-/a', 'the registry is not a host name'],
    ['a registry that begins with a dot', '.r.example/a', 'the registry is not a host name'],
    ['a port of six digits', 'r.example:500000/a', 'the registry is not a host name'],
    ['an open bracket', '[::1/a', 'the registry is not a host name'],
    ['brackets around what is no address', '[abc]/a', 'lower case'],
    ['three separators', 'r.example/a___b', 'lower case'],
    ['a repository that ends with a separator', 'r.example/a-', 'lower case'],
    ['nothing', '', 'lower case'],
    ['513 characters', `r.example/${'a'.repeat(503)}`, 'longer than 512'],
    ['a text that is too long', `r.example/${'a'.repeat(600)}`, 'longer than 512'],
  ])('refuses %s and names the field', (_what, text, why) => {
    const read = (): unknown => parseReference(text, 'spec.image');
    expect(read).toThrow(why);
    expect(read).toThrow('spec.image');
  });

  it('names the image as its field where nobody says which', () => {
    expect(() => parseReference('A')).toThrow('image: "A" is not an image reference');
  });

  it('asks for a digest before a tag', () => {
    const reference = parseReference(`r.example/a:1@${digest}`);
    expect(manifestName(reference)).toBe(digest);
    expect(manifestName(parseReference('r.example/a:1'))).toBe('1');
    expect(manifestName({ registry: 'r.example', repository: 'a' })).toBe('latest');
  });

  it('pins to a digest without the tag', () => {
    expect(pinned(parseReference('r.example/a:1'), digest)).toEqual({
      registry: 'r.example',
      repository: 'a',
      digest,
    });
  });

  it('reads what it wrote, and refuses by name whatever it does not read', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 80 }), (text) => {
        try {
          const once = textOf(parseReference(text));
          expect(textOf(parseReference(once))).toBe(once);
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

describe('the address of a registry', () => {
  it.each([
    ['r.example.com', 'r.example.com', ''],
    ['https://R.example.com:5000/team/disks/', 'r.example.com:5000', 'team/disks'],
    ['http://r.example.com/team', 'r.example.com:80', 'team'],
    ['http://localhost', 'localhost:80', ''],
    ['https://registry', 'registry:443', ''],
    ['[2001:DB8::1]', '[2001:db8::1]:443', ''],
    ['', '', ''],
  ])('%s is %s in references', (address, registry, path) => {
    expect(registryAddress(address)).toEqual({ registry, path });
    if (registry !== '') expect(parseReference(`${registry}/a`).registry).toBe(registry);
  });
});
