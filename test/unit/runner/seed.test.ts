import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import * as fc from 'fast-check';
import { RunnerSpec, type RunnerSpecInput } from '../../../src/api/runner.ts';
import { writeIso } from '../../../src/runner/iso9660.ts';
import { seedFiles, writeSeed } from '../../../src/runner/seed.ts';

const uid = 'a2f5c1de-0000-4000-8000-123456789abc';

function aSpec(spec: Partial<RunnerSpecInput> = {}): RunnerSpec {
  return RunnerSpec.parse({ vm: { namespace: 'team', name: 'web', uid }, cpu: 1, memoryMiB: 64, ...spec });
}

function read(spec: RunnerSpec): Record<string, unknown>[] {
  return seedFiles(spec).map((file) => parse(file.content.toString('utf8')) as Record<string, unknown>);
}

describe('the seed', () => {
  test('names the instance and the host, and cannot be made to name another', () => {
    const [meta] = read(
      aSpec({
        metadata: [
          { name: 'instance-id', value: 'other' },
          { name: 'role', value: 'db' },
        ],
      }),
    );
    expect(meta).toEqual({
      'instance-id': uid,
      'local-hostname': 'web',
      role: 'db',
      svc3: { 'instance-id': 'other', role: 'db' },
    });
  });

  test('has the host name that the VM says', () => {
    const [meta] = read(aSpec({ hostname: 'www' }));
    expect(meta).toMatchObject({ 'local-hostname': 'www' });
  });

  test('carries the keys as cloud-config', () => {
    const spec = aSpec({ sshAuthorizedKeys: ['ssh-ed25519 AAAA me@here'] });
    expect(seedFiles(spec)[1]?.content.toString('utf8')).toMatch(/^#cloud-config\n/);
    expect(read(spec)[1]).toEqual({ ssh_authorized_keys: ['ssh-ed25519 AAAA me@here'] });
  });

  test('without keys names none: cloud-init keeps those of the image, and fails where there is no list', () => {
    expect(seedFiles(aSpec())[1]?.content.toString('utf8')).toBe('#cloud-config\n{}\n');
    const [meta] = seedFiles(aSpec(), Buffer.from('#!/bin/sh\n'));
    expect(parse(meta?.content.toString('utf8') ?? '')).toMatchObject({ 'public-keys': [] });
  });

  test('carries user data of a Secret to the byte, and the keys where cloud-init adds them', () => {
    const spec = aSpec({
      sshAuthorizedKeys: ['ssh-ed25519 AAAA me@here'],
      metadata: [{ name: 'public-keys', value: 'x' }],
    });
    const userData = Buffer.from([0x23, 0x21, 0x2f, 0xff, 0x00, 0x0a]);
    const [meta, user] = seedFiles(spec, userData);
    expect(user).toEqual({ name: 'user-data', content: userData });
    expect(parse(meta?.content.toString('utf8') ?? '')).toMatchObject({
      'public-keys': ['ssh-ed25519 AAAA me@here'],
      svc3: { 'public-keys': 'x' },
    });
  });

  test('keeps every value what it is, whatever is in it', () => {
    const word = fc.string({ unit: 'grapheme', maxLength: 40 });
    fc.assert(
      fc.property(
        word,
        word.filter(
          (name) =>
            name !== '__proto__' && name !== 'svc3' && name !== 'instance-id' && name !== 'local-hostname',
        ),
        (value, name) => {
          const [meta, user] = read(aSpec({ metadata: [{ name, value }], sshAuthorizedKeys: [value] }));
          expect(meta?.['svc3']).toEqual({ [name]: value });
          expect(user?.['ssh_authorized_keys']).toEqual([value]);
        },
      ),
    );
  });

  test.each(['no', 'On', 'yes', 'y', 'TRUE', 'null', 'role'])(
    'has a name %s as text, at the top and under svc3: instance data with one that is none cannot be written',
    (name) => {
      const [meta] = seedFiles(aSpec({ metadata: [{ name, value: 'x' }] }));
      // YAML of cloud-init; a Map keeps what a key is.
      const read = parse(meta?.content.toString('utf8') ?? '', { version: '1.1', mapAsMap: true }) as Map<
        unknown,
        unknown
      >;
      expect([read.get(name), read.get('svc3')]).toEqual(['x', new Map([[name, 'x']])]);
      expect([...read.keys()]).toEqual([name, 'instance-id', 'local-hostname', 'svc3']);
    },
  );

  test('names what is its own as cloud-init documents it: some images read it line by line', () => {
    const spec = aSpec({ sshAuthorizedKeys: ['ssh-ed25519 AAAA me@here'] });
    const [meta] = seedFiles(spec, Buffer.from('#!/bin/sh\n'));
    expect(meta?.content.toString('utf8').match(/^[a-z].*:/gm)).toEqual([
      'instance-id:',
      'local-hostname:',
      'public-keys:',
      'svc3:',
    ]);
    expect(seedFiles(spec)[1]?.content.toString('utf8')).toContain('\nssh_authorized_keys:\n');
  });

  test('has nothing that the YAML of cloud-init takes for no text, or for the end of a line', () => {
    const value = 'a\u007F\u0085\u009F\u2028\u2029\uFEFF\uFFFE\uFFFF\u00A0\u{1F600}';
    const escaped = String.raw`"a\u007f\u0085\u009f\u2028\u2029\ufeff\ufffe\uffff` + '\u00A0\u{1F600}"';
    const spec = aSpec({ metadata: [{ name: 'role', value }], sshAuthorizedKeys: [value] });
    const [meta, user] = seedFiles(spec).map(({ content }) => content.toString('utf8'));
    expect(meta?.startsWith(`role: ${escaped}\ninstance-id: `)).toBe(true);
    expect(meta?.endsWith(`\nsvc3:\n  role: ${escaped}\n`)).toBe(true);
    expect(user).toBe(`#cloud-config\nssh_authorized_keys:\n  - ${escaped}\n`);
    expect(read(spec)[1]).toEqual({ ssh_authorized_keys: [value] });
  });

  test('is the same bytes for the same VM', () => {
    expect(writeSeed(aSpec()).equals(writeSeed(aSpec()))).toBe(true);
  });
});

describe('an ISO image', () => {
  const image = writeIso('cidata', [
    { name: 'meta-data', content: Buffer.from('a: b\n') },
    { name: 'big', content: Buffer.alloc(5000, 'x') },
  ]);

  test('has whole sectors, its volume name and a Joliet tree', () => {
    expect(image.length % 2048).toBe(0);
    expect(image.toString('latin1', 16 * 2048, 16 * 2048 + 7)).toBe('\u0001CD001\u0001');
    expect(image.toString('latin1', 16 * 2048 + 40, 16 * 2048 + 72)).toBe('cidata'.padEnd(32));
    expect(image.toString('latin1', 17 * 2048 + 88, 17 * 2048 + 91)).toBe('%/E');
    expect(image.readUInt32LE(16 * 2048 + 80) * 2048).toBe(image.length);
  });

  test('has each file where its directory entry says', () => {
    const root = image.readUInt32LE(17 * 2048 + 156 + 2) * 2048;
    const found: Record<string, string> = {};
    for (let at = root; image[at] !== 0; at += image[at] ?? 1) {
      const name = Buffer.from(image.subarray(at + 33, at + 33 + (image[at + 32] ?? 0)));
      if (name.length < 2) continue;
      const extent = image.readUInt32LE(at + 2) * 2048;
      found[name.swap16().toString('utf16le')] = image.toString(
        'latin1',
        extent,
        extent + image.readUInt32LE(at + 10),
      );
    }
    expect(found).toEqual({ 'meta-data': 'a: b\n', big: 'x'.repeat(5000) });
  });
});
