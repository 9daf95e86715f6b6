import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createRegistryClient, mediaTypes, type RegistryClient } from '../../../src/registry/client.ts';
import { digesting, verifyDigest } from '../../../src/registry/digest.ts';
import {
  digestOf,
  startRegistry,
  type TestRegistry,
  type TestRegistryOptions,
} from '../../support/registry.ts';

const kinds: Array<[string, TestRegistryOptions]> = [
  ['a registry that asks for nothing', { auth: 'none' }],
  ['a registry with basic authentication', { auth: 'basic' }],
  ['a registry with self-signed TLS and basic authentication', { auth: 'basic', tls: true }],
  ['a registry with a token service whose tokens live for 2 s', { auth: 'token', tokenSeconds: 2 }],
];

describe.each(kinds)('%s', (_what, options) => {
  let registry: TestRegistry;
  let client: RegistryClient;

  beforeAll(async () => {
    registry = await startRegistry(options);
    client = createRegistryClient({
      registry: registry.address,
      scheme: registry.scheme,
      skipVerify: options.tls === true,
      credentials: { username: registry.username, password: registry.password },
    });
  });

  afterAll(async () => {
    await client.close();
    await registry.stop();
  });

  it('accepts the login', async () => {
    await expect(client.login()).resolves.toBe(options.auth !== 'none');
  });

  it('takes a blob and gives it back, whole and in part', async () => {
    const bytes = randomBytes(300_000);
    const digest = await client.putBlob('a/one', bytes);
    expect(digest).toBe(digestOf(bytes));
    expect(await client.blobSize('a/one', digest)).toBe(bytes.length);
    expect(await buffer(await client.blob('a/one', digest))).toEqual(bytes);
    expect(await buffer(await client.blob('a/one', digest, { offset: 1000, end: 1999 }))).toEqual(
      bytes.subarray(1000, 2000),
    );
    await expect(client.blobSize('a/one', digestOf(Buffer.from('nothing')))).resolves.toBeUndefined();
  });

  it('streams an upload whose length nobody knows, and digests it on the way', async () => {
    const bytes = randomBytes(2_000_000);
    const meter = digesting();
    const upload = await client.upload('a/streamed');
    const piped = pipeline(Readable.from([bytes.subarray(0, 7), bytes.subarray(7)]), meter);
    await Promise.all([upload.append(meter), piped]);
    await upload.finish(meter.digest());
    expect(upload.offset).toBe(bytes.length);
    expect(await buffer(await client.blob('a/streamed', digestOf(bytes)))).toEqual(bytes);
  });

  it('goes on with an upload from where it was, also from elsewhere', async () => {
    const bytes = randomBytes(100_000);
    const first = await client.upload('a/resumed');
    await first.append(bytes.subarray(0, 40_000));
    const second = await client.upload('a/resumed', { location: first.location });
    expect(second.offset).toBe(40_000);
    await second.append(bytes.subarray(40_000));
    await second.finish(digestOf(bytes));
    expect(await client.blobSize('a/resumed', digestOf(bytes))).toBe(bytes.length);
  });

  it('refuses a blob that does not match its digest and keeps nothing', async () => {
    const upload = await client.upload('a/wrong');
    await upload.append(Buffer.from('something'));
    const other = digestOf(Buffer.from('other'));
    await expect(upload.finish(other)).rejects.toThrow(/DIGEST_INVALID|400/);
    expect(await client.blobSize('a/wrong', other)).toBeUndefined();
  });

  it('mounts a blob of another repository without moving bytes', async () => {
    const digest = await client.putBlob('a/from', randomBytes(5000));
    expect(await client.mountBlob('a/to', digest, 'a/from')).toBe(true);
    expect(await client.blobSize('a/to', digest)).toBe(5000);
    const unknown = digestOf(Buffer.from('unknown'));
    expect(await client.mountBlob('a/to', unknown, 'a/from')).toBe(false);
  });

  it('puts a manifest under a tag, finds and lists it, and deletes it', async () => {
    const config = await client.putBlob('a/image', Buffer.from('{}'));
    const manifest = {
      schemaVersion: 2,
      mediaType: mediaTypes.ociManifest,
      config: { mediaType: mediaTypes.ociConfig, digest: config, size: 2 },
      layers: [],
    };
    const bytes = Buffer.from(JSON.stringify(manifest));
    const digest = await client.putManifest('a/image', 'v1', bytes, mediaTypes.ociManifest);
    expect(await client.digestOf('a/image', 'v1')).toBe(digest);
    expect((await client.manifest('a/image', digest)).manifest).toEqual(manifest);
    expect(await client.tags('a/image')).toEqual(['v1']);
    await client.deleteManifest('a/image', digest);
    expect(await client.digestOf('a/image', 'v1')).toBeUndefined();
    expect(await client.tags('a/never')).toEqual([]);
  });
});

describe('a registry with a password', () => {
  let registry: TestRegistry;
  beforeAll(async () => {
    registry = await startRegistry({ auth: 'basic' });
  });
  afterAll(async () => registry.stop());

  const clientWith = (credentials?: { username: string; password: string }): RegistryClient =>
    createRegistryClient({
      registry: registry.address,
      scheme: 'http',
      ...(credentials === undefined ? {} : { credentials }),
    });

  it.each([
    ['no credential', undefined],
    ['a wrong password', { username: 'alice', password: 'canary-7f3a' }],
  ])('says that it refused the login with %s, and never the password', async (_what, credentials) => {
    const client = clientWith(credentials);
    const failure = await client.login().catch((error: unknown) => error);
    expect(failure).toMatchObject({ reason: 'Unauthorized' });
    expect(String(failure)).toContain(`registry ${registry.address} refused the login`);
    expect(JSON.stringify(failure) + String((failure as Error).stack)).not.toContain('canary-7f3a');
    await client.close();
  });

  it('reports a registry that is gone, and works again when it is back', async () => {
    const client = clientWith({ username: registry.username, password: registry.password });
    await client.login();
    await registry.kill();
    await expect(client.login()).rejects.toThrow(/could not be reached/);
    await registry.restart();
    await expect(client.login()).resolves.toBe(true);
    await client.close();
  });
});

describe('a registry with a certificate that nobody knows', () => {
  it('is refused unless that is allowed or the authority is given', async () => {
    const registry = await startRegistry({ tls: true });
    const strict = createRegistryClient({ registry: registry.address, scheme: 'https' });
    await expect(strict.login()).rejects.toThrow(/could not be reached.*certificate/);
    const told = createRegistryClient({ registry: registry.address, scheme: 'https', ca: registry.ca ?? '' });
    await expect(told.login()).resolves.toBe(false);
    await Promise.all([strict.close(), told.close()]);
    await registry.stop();
  });
});

describe('verifyDigest', () => {
  it('fails at the end when the bytes are not those of the digest', async () => {
    const sink = async (): Promise<unknown> =>
      buffer(
        Readable.from([Buffer.from('abc')]).pipe(verifyDigest(digestOf(Buffer.from('abd')), 'the layer')),
      );
    await expect(sink()).rejects.toThrow('the layer does not match its digest');
  });
});
