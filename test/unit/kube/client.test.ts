import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { configMaps } from '../../../src/api/resources.ts';
import { createClient, type ClientOptions } from '../../../src/kube/client.ts';
import { defaultTuning } from '../../../src/kube/reflector.ts';

/** Serves so many ConfigMaps in pages as they are asked for; what else a client shows of kube-apiserver is in test/integration/kube. */
const count = 45;
const limits: (string | null)[] = [];
let running = 0;
let most = 0;

const object = (index: number) => ({
  metadata: { name: `c${index}`, uid: `u${index}`, managedFields: [{ manager: 'kubectl', fieldsV1: {} }] },
  data: { large: 'x'.repeat(100) },
});

/** Tokens whose every call is to come again in a second. */
const throttled = new Set(['Bearer often', 'Bearer too-often']);

const server = createServer((request, reply) => {
  if (throttled.has(request.headers.authorization ?? '')) {
    reply.writeHead(429, { 'retry-after': '1' }).end();
    return;
  }
  const query = new URL(request.url ?? '/', 'http://localhost').searchParams;
  limits.push(query.get('limit'));
  running += 1;
  most = Math.max(most, running);
  const from = Number(query.get('continue') ?? 0);
  const until = Math.min(count, from + Number(query.get('limit')));
  const items = Array.from({ length: until - from }, (_, index) => object(from + index));
  const metadata = { resourceVersion: '7', ...(until < count ? { continue: String(until) } : {}) };
  setTimeout(() => {
    running -= 1;
    reply.setHeader('content-type', 'application/json');
    reply.end(JSON.stringify({ metadata, items }));
  }, 5);
});

function clientWith(options: ClientOptions = {}) {
  const { port } = server.address() as AddressInfo;
  return createClient({ server: `http://127.0.0.1:${port}`, auth: { kind: 'none' } }, options);
}

beforeAll(() => new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve)));
afterAll(() => new Promise<void>((resolve) => void server.close(() => resolve())));
beforeEach(() => {
  limits.length = 0;
  most = 0;
});

describe('a list', () => {
  test('is read in pages of a reflector, since any of its objects may be as large as one can be', async () => {
    const client = clientWith();
    const { items, resourceVersion } = await client.list(configMaps);
    expect([items.length, resourceVersion, defaultTuning.pageSize]).toEqual([count, '7', 20]);
    expect(limits).toEqual(['20', '20', '20']);
    await client.close();
  });

  test('has larger pages where its caller knows its objects, or the client has the memory', async () => {
    const client = clientWith({ pageSize: 500 });
    await client.list(configMaps);
    await client.list(configMaps, { pageSize: 30 });
    expect(limits).toEqual(['500', '30', '30']);
    await client.close();
  });

  test('carries no managedFields, and of each page only what the caller keeps', async () => {
    const client = clientWith();
    const seen: unknown[] = [];
    const { items } = await client.list(configMaps, {
      transform({ data: _data, ...kept }) {
        seen.push(kept);
        return kept;
      },
    });
    expect(items).toEqual(seen);
    expect(items[44]).toEqual({ metadata: { name: 'c44', uid: 'u44' } });
    await client.close();
  });

  test('is read by few at the same time, whoever they are', async () => {
    const client = clientWith();
    const callers = [
      client,
      client.withToken('a'),
      client.withToken('b', 'ann'),
      client.withToken('c', 'ann'),
    ];
    const lists = await Promise.all(callers.map((caller) => caller.list(configMaps)));
    expect(lists.map(({ items }) => items.length)).toEqual([count, count, count, count]);
    expect(most).toBe(2);
    await client.close();
  });

  test('is held up by nobody whom kube-apiserver tells to come again', async () => {
    const client = clientWith();
    const giveUp = new AbortController();
    const { signal } = giveUp;
    let isOver = false;
    const others = ['often', 'too-often'].map(async (token) => {
      await client
        .withToken(token)
        .list(configMaps, { signal })
        .catch(() => undefined);
      isOver = true;
    });
    const { items } = await client.withToken('seldom').list(configMaps);
    expect([items.length, isOver]).toEqual([count, false]);
    giveUp.abort();
    await Promise.all(others);
    await client.close();
  });
});

test('nothing is deleted without a name: the path would be that of all objects', async () => {
  const client = clientWith();
  const nameless = { namespace: 'team' } as { name: string; namespace: string };
  await expect(client.delete(configMaps, nameless)).rejects.toThrow('ConfigMap needs a name to be deleted');
  expect(limits).toEqual([]);
  await client.close();
});
