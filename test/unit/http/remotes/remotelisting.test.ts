import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { Svc3Error } from '../../../../src/errors.ts';
import { RemoteListing } from '../../../../src/http/remotes/remotelisting.ts';
import { createRegistryClient, type RegistryClient } from '../../../../src/registry/client.ts';
import { startHostileRegistry } from '../../../support/hostileregistry.ts';

type Tags = string[] | Error;

/** A registry of these repositories. */
function aRegistry(repositories: Record<string, Tags>) {
  const close = vi.fn(async () => undefined);
  const client = {
    registry: 'r.example.com',
    repositories: async ({ limit = Infinity }) => Object.keys(repositories).slice(0, limit),
    tags: async (name: string, { limit = Infinity }) => {
      const tags = repositories[name];
      if (tags instanceof Error) throw tags;
      return tags?.slice(0, limit) ?? [];
    },
    close,
  } as unknown as RegistryClient;
  return { open: async () => client, close };
}

async function listed(repositories: Record<string, Tags>, path = '') {
  const listing = new RemoteListing({ host: 'r.example.com', path });
  const registry = aRegistry(repositories);
  await listing.run(registry.open, new AbortController().signal);
  expect(registry.close).toHaveBeenCalledTimes(1);
  return listing;
}

const names = ({ images }: RemoteListing) => images.map(({ name }) => name.replace('r.example.com/', ''));
const many = (count: number, make: (i: number) => string) => Array.from({ length: count }, (_, i) => make(i));

describe('the list of a registry', () => {
  test('has every tag of every repository, in the order of the registry', async () => {
    const listing = await listed({ 'b/web': ['2', '1'], 'a/db': ['x'], empty: [] });
    expect(names(listing)).toEqual(['b/web:2', 'b/web:1', 'a/db:x']);
    expect(listing.missing).toEqual([]);
    expect(listing.hasFailed).toBe(false);
  });

  test('has only what lies at its path', async () => {
    const listing = await listed({ vms: ['1'], 'vms/web': ['1'], 'vms2/web': ['1'], other: ['1'] }, 'vms');
    expect(names(listing)).toEqual(['vms:1', 'vms/web:1']);
  });

  test('leaves out names that no reference can have', async () => {
    expect(names(await listed({ 'UPPER/case': ['1'], ok: ['1', '-bad', 'a b'] }))).toEqual(['ok:1']);
  });

  test('says how many repositories it may not see', async () => {
    const refusal = (reason: 'Unauthorized' | 'Forbidden' | 'NotFound') => new Svc3Error(reason, reason);
    const listing = await listed({
      a: refusal('Unauthorized'),
      b: ['1'],
      c: refusal('Forbidden'),
      d: refusal('NotFound'),
    });
    expect(names(listing)).toEqual(['b:1']);
    expect(listing.missing).toEqual(['remote registry r.example.com does not show 3 of its repositories']);
    expect(listing.hasFailed).toBe(false);
  });

  test.each<[string, Record<string, Tags>]>([
    ['tags', { a: many(51, String) }],
    ['repositories', Object.fromEntries(many(1_001, (i) => `r${i}`).map((name) => [name, ['1']]))],
    ['images', Object.fromEntries(many(60, (i) => `r${i}`).map((name) => [name, many(50, String)]))],
  ])('says that it is cut where there are too many %s', async (_what, repositories) => {
    const { missing, images } = await listed(repositories);
    expect(missing).toEqual([
      'remote registry r.example.com holds more than is listed; name a path of it in remoteRegistries',
    ]);
    expect(images.length).toBeLessThanOrEqual(2_200);
  });
});

describe('a registry that cannot be listed', () => {
  const run = async (failure: Error, signal = new AbortController().signal) => {
    const listing = new RemoteListing({ host: 'r.example.com', path: '' });
    await listing.run(() => Promise.reject(failure), signal);
    return listing;
  };

  test.each<[string, Error, string]>([
    ['says why', new Svc3Error('Forbidden', 'denied: no catalogue'), 'denied: no catalogue'],
    ['does not tell what no one is meant to read', new Error('password s3cret'), 'it cannot be reached'],
  ])('%s', async (_sentence, failure, why) => {
    const listing = await run(failure);
    expect(listing.missing).toEqual([`remote registry r.example.com could not be listed: ${why}`]);
    expect(listing.hasFailed).toBe(true);
  });

  test('says so where it has no catalogue, and is not shown as empty', async () => {
    const { address, close } = await startHostileRegistry();
    onTestFinished(close);
    const listing = new RemoteListing({ host: address, path: '' });
    const open = async () => createRegistryClient({ registry: address, scheme: 'http' });
    await listing.run(open, new AbortController().signal);
    expect(listing.missing).toEqual([
      `remote registry ${address} could not be listed: registry ${address} answered 404`,
    ]);
    expect(listing.hasFailed).toBe(true);
  });

  test('says that it took too long', async () => {
    const listing = await run(new Error('aborted'), AbortSignal.abort());
    expect(listing.missing).toEqual([
      'remote registry r.example.com could not be listed: it did not answer in time',
    ]);
  });

  test('says what the registry had answered when the time was over', async () => {
    const listing = await run(new Svc3Error('TooManyRequests', 'r answered 429'), AbortSignal.abort());
    expect(listing.missing).toEqual(['remote registry r.example.com could not be listed: r answered 429']);
  });

  test('is closed, and shows what had come', async () => {
    const listing = await listed({ a: ['1'], b: new Svc3Error('Timeout', 'it is slow') });
    expect(names(listing)).toEqual(['a:1']);
    expect(listing.missing).toEqual(['remote registry r.example.com could not be listed: it is slow']);
  });

  test('is still being listed until it has ended', () => {
    const listing = new RemoteListing({ host: 'r.example.com', path: '' });
    expect(listing.missing).toEqual([
      'remote registry r.example.com is still being listed; ask again for more',
    ]);
  });
});
