import { buffer } from 'node:stream/consumers';
import { pack } from 'tar-stream';
import { describe, expect, test } from 'vitest';
import { findInTar } from '../../../src/registry/tarheader.ts';
import { loginFor } from '../../../src/registry/login.ts';

async function archive(...files: [name: string, content: string][]): Promise<Buffer> {
  const packing = pack();
  packing.entry({ name: 'disk', type: 'directory' });
  for (const [name, content] of files) packing.entry({ name }, content);
  packing.finalize();
  return buffer(packing);
}

const isDisk = (name: string) => name.startsWith('disk/');

describe('a file in a tar archive', () => {
  test('is found behind folders and other files', async () => {
    const tar = await archive(['README', 'x'.repeat(700)], ['disk/disk.qcow2', 'bytes']);
    const file = findInTar(tar, isDisk);
    expect(file).toMatchObject({ name: 'disk/disk.qcow2', size: 5 });
    expect(tar.toString('utf8', file?.offset, (file?.offset ?? 0) + 5)).toBe('bytes');
  });

  test('whose name needs an extended header is left to be read as a stream', async () => {
    const name = `disk/${'a'.repeat(300)}.qcow2`;
    expect(findInTar(await archive([name, 'x']), isDisk)).toBeUndefined();
  });

  test('is not found where there is none, or where it is no archive', async () => {
    expect(findInTar(await archive(['README', 'x']), isDisk)).toBeUndefined();
    expect(findInTar(Buffer.alloc(4096, 7), isDisk)).toBeUndefined();
  });
});

describe('a header of a tar archive', () => {
  /** 512 bytes with these fields, at their offsets in the ustar format. */
  function header(
    given: { name?: string; size?: string | Buffer; type?: string; prefix?: string } = {},
  ): Buffer {
    const bytes = Buffer.alloc(512);
    bytes.write(given.name ?? 'disk/a', 0);
    const { size = '00000000005' } = given;
    if (typeof size === 'string') bytes.write(size, 124);
    else size.copy(bytes, 124);
    bytes.write(given.type ?? '0', 156);
    bytes.write(given.prefix ?? '', 345);
    return bytes;
  }
  const find = (...blocks: Buffer[]) => findInTar(Buffer.concat(blocks), isDisk);
  /** Base 256: the first bit, then a number. */
  const binary = (size: bigint): Buffer => {
    const field = Buffer.alloc(12);
    field[0] = 0x80;
    field.writeBigUInt64BE(size, 4);
    return field;
  };
  const safe = BigInt(Number.MAX_SAFE_INTEGER);

  test.each<[string, Parameters<typeof header>[0], object | undefined]>([
    ['of a file', {}, { name: 'disk/a', offset: 512, size: 5 }],
    ['of a file in the old format', { type: '\0' }, { name: 'disk/a', offset: 512, size: 5 }],
    ['of a long name in two fields', { prefix: 'disk', name: 'b' }, { name: 'disk/b', offset: 512, size: 5 }],
    [
      'of a name that fills its field',
      { name: `disk/${'a'.repeat(95)}` },
      { name: `disk/${'a'.repeat(95)}`, offset: 512, size: 5 },
    ],
    ['whose size has spaces', { size: '    17 ' }, { name: 'disk/a', offset: 512, size: 15 }],
    [
      'whose size is in base 256',
      { size: binary(2n ** 40n) },
      { name: 'disk/a', offset: 512, size: 2 ** 40 },
    ],
    ['of the largest size', { size: binary(safe) }, { name: 'disk/a', offset: 512, size: Number(safe) }],
    ['of more than that', { size: binary(safe + 1n) }, undefined],
    ['whose size is none', { size: '9' }, undefined],
    ['without a size', { size: '' }, undefined],
    ['of a link', { type: '2' }, undefined],
    ['of an extended header', { type: 'x' }, undefined],
    ['of a folder', { type: '5' }, undefined],
  ])('%s', (_what, given, expected) => {
    expect(find(header(given))).toEqual(expected);
  });

  test('stands behind the whole blocks of the file before it', () => {
    const other = (size: string) => header({ name: 'README', size });
    const pad = (blocks: number) => Buffer.alloc(512 * blocks);
    expect(find(other('1000'), pad(1), header())).toMatchObject({ offset: 512 * 3 });
    expect(find(other('1001'), pad(2), header())).toMatchObject({ offset: 512 * 4 });
    expect(find(other('0'), header())).toMatchObject({ offset: 512 * 2 });
    expect(find(other('0'), header().subarray(0, 511))).toBeUndefined();
  });
});

describe('the login for a registry', () => {
  const config = (key: string, entry: object) => JSON.stringify({ auths: { [key]: entry } });
  const login = { username: 'alice', password: 'secret' };

  test.each([
    ['by host and port', 'r.example.com:5000', 'r.example.com:5000'],
    ['by host for the usual port', 'r.example.com', 'r.example.com:443'],
    ['by host and usual port for the host', 'r.example.com:443', 'r.example.com'],
    ['by the whole address', 'https://r.example.com/v1/', 'r.example.com'],
    ['by the name of the index for Docker Hub', 'index.docker.io', 'docker.io'],
    ['under its own key for Docker Hub', 'https://index.docker.io/v1/', 'docker.io'],
  ])('is found %s', (_how, key, registry) => {
    expect(loginFor(config(key, login), registry)).toEqual(login);
  });

  test('is read from the joined form too', () => {
    const auth = Buffer.from('alice:se:cret').toString('base64');
    expect(loginFor(config('r.example.com', { auth }), 'r.example.com')).toEqual({
      username: 'alice',
      password: 'se:cret',
    });
  });

  test('is none for another registry or where the file is no configuration', () => {
    expect(loginFor(config('r.example.com', login), 'other.example.com')).toBeUndefined();
    expect(loginFor('', 'r.example.com')).toBeUndefined();
    expect(loginFor('null', 'r.example.com')).toBeUndefined();
  });

  test('is the one of the host itself before others', () => {
    const auths = { 'r.example.com:443': { auth: 'eDp5' }, 'r.example.com': login };
    expect(loginFor(JSON.stringify({ auths }), 'r.example.com')).toEqual(login);
    expect(loginFor(JSON.stringify({ auths }), 'r.example.com:443')).toEqual({
      username: 'x',
      password: 'y',
    });
  });

  test.each([
    ['without a password', { username: 'alice' }],
    ['without a user name', { password: 'secret' }],
    ['without a colon', { auth: Buffer.from('alice').toString('base64') }],
    ['of nothing', {}],
  ])('%s is none', (_what, entry) => {
    expect(loginFor(config('r.example.com', entry), 'r.example.com')).toBeUndefined();
  });

  test('is none for the port of another registry', () => {
    expect(loginFor(config('r.example.com:5000', login), 'r.example.com')).toBeUndefined();
    expect(loginFor(config('r.example.com', login), 'r.example.com:5000')).toBeUndefined();
    expect(loginFor('{}', 'r.example.com')).toBeUndefined();
  });
});
