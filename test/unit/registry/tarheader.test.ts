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

describe('the login for a registry', () => {
  const config = (key: string, entry: object) => JSON.stringify({ auths: { [key]: entry } });
  const login = { username: 'alice', password: 'secret' };

  test.each([
    ['by host and port', 'r.example.com:5000', 'r.example.com:5000'],
    ['by host for the usual port', 'r.example.com', 'r.example.com:443'],
    ['by host and usual port for the host', 'r.example.com:443', 'r.example.com'],
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
});
