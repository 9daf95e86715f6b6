import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { describe, expect, onTestFinished, test } from 'vitest';
import { Svc3Error } from '../../../../src/errors.ts';
import { createImageTransfer } from '../../../../src/http/uploads/imagetransfer.ts';
import { withStore } from '../../../../src/http/uploads/storerefusal.ts';
import { createRegistryClient, type RegistryClient } from '../../../../src/registry/client.ts';
import { pushDisk } from '../../../../src/registry/disk.ts';
import { memoryRegistry } from '../../registry/memoryregistry.ts';

const hint = /; a cluster administrator adds or replaces the credential .*: svc3 regcred add$/;

/** A client of a registry that answers everything with this status and body. */
async function answering(status: number, body = ''): Promise<RegistryClient> {
  const server = createServer((_request, response) => void response.writeHead(status).end(body));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const registry = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const client = createRegistryClient({ registry, scheme: 'http' });
  onTestFinished(async () => {
    await client.close();
    server.close();
  });
  return client;
}

const failure = (work: () => Promise<unknown>): Promise<Svc3Error> =>
  withStore(work).then(
    () => expect.fail('it was not refused'),
    (error: unknown) => error as Svc3Error,
  );

describe('what a registry answers', () => {
  test.each<[status: number, words: string, isHinted: boolean]>([
    [401, 'refused the login', true],
    [403, 'denied access', true],
    [405, 'answered 405', false],
  ])('of who may do it is told as what cannot be done: %i', async (status, words, isHinted) => {
    const client = await answering(status);
    const { reason, message } = await failure(() => client.tags('team/debian'));
    expect([reason, hint.test(message)]).toEqual(['Invalid', isHinted]);
    expect(message).toContain(`registry ${client.registry} ${words}`);
  });

  test.each<[status: number, reason: string]>([
    [400, 'BadRequest'],
    [413, 'RequestEntityTooLarge'],
    [501, 'BadGateway'],
  ])('of anything else is told as it is: %i', async (status, reason) => {
    const client = await answering(status);
    expect(await failure(() => client.tags('team/debian'))).toMatchObject({ reason });
  });

  test('of a quota that is used up is told as that: another login would not help', async () => {
    const said =
      'adding 29.0 MiB of storage resource, which when updated to current usage of 152.4 MiB will exceed the configured upper limit of 160.0 MiB.';
    const client = await answering(403, JSON.stringify({ errors: [{ code: 'DENIED', message: said }] }));
    const { reason, message } = await failure(() => client.upload('team/debian'));
    expect(reason).toBe('RequestEntityTooLarge');
    expect(message).toContain(said);
    expect(message).not.toContain('regcred');
  });

  test('is no other refusal of the same name', async () => {
    const refusal = new Svc3Error('Unauthorized', 'the account was deleted');
    expect(await failure(() => Promise.reject(refusal))).toBe(refusal);
  });
});

test('a download whose bytes the registry denies ends with that', async () => {
  const registry = memoryRegistry();
  const content = Readable.from([Buffer.alloc(512)], { objectMode: false });
  const place = { repository: 'team/debian', tag: 'v1' };
  await pushDisk(registry, { ...place, architecture: 'amd64', fileName: 'disk.img', size: 512, content });
  const denying = await answering(403);
  const open = async (): Promise<RegistryClient> => ({
    ...registry,
    // The layer's head says where in it the disk is.
    blob: (from, digest, options) =>
      ((options?.offset ?? 0) > 0 ? denying : registry).blob(from, digest, options),
  });
  const transfer = createImageTransfer({} as never, { open } as never, { url: '', prefix: '' });
  const disk = {
    metadata: { name: 'debian', namespace: 'team' },
    status: { reference: 'r.example.com/team/debian:v1' },
  } as never;
  const { signal } = new AbortController();
  const { stream } = await transfer.download({ disk, range: () => ({ start: 0, end: 9 }), signal });
  await expect(buffer(stream)).rejects.toMatchObject({
    reason: 'Invalid',
    message: expect.stringMatching(hint),
  });
});
