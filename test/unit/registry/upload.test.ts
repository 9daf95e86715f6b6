import { buffer } from 'node:stream/consumers';
import { describe, expect, onTestFinished, test } from 'vitest';
import { createRegistryClient } from '../../../src/registry/client.ts';
import { sha256 } from '../../../src/registry/manifest.ts';
import { appendPiece } from '../../../src/registry/pieces.ts';
import { type HostileRegistry, startHostileRegistry } from '../../support/hostileregistry.ts';
import { withoutDelays } from '../delays.ts';

/** What a registry says of an upload, in its own way. */
interface Habits {
  /** `Range` after it has taken a piece. */
  readonly taken: (held: number, piece: number) => string;
  /** `Range` when it is asked; undefined where it does not answer that. */
  readonly asked: ((held: number) => string) | undefined;
  /** Skips bytes that it has already. */
  readonly skips?: boolean;
}

const specified = { taken: (held: number) => `0-${held - 1}`, asked: (held: number) => `0-${held - 1}` };
const at = '/v2/a/blobs/uploads/1';
const content = Buffer.from('0123456789abcdefgh');

/** @param kept - bytes that it keeps of each PATCH in turn, and then fails; undefined: all, and it answers */
async function aRegistry({ taken, asked, skips = false }: Habits, ...kept: (number | undefined)[]) {
  const registry: HostileRegistry = await startHostileRegistry();
  onTestFinished(() => registry.close());
  let held = Buffer.alloc(0);
  registry.answers.set('/v2/a/blobs/uploads/', (_, response) =>
    response.writeHead(202, { location: at }).end(),
  );
  registry.answers.set(at, async (request, response) => {
    const { method, headers, url = '' } = request;
    const body = await buffer(request);
    const reply = (status: number, range?: string) =>
      response.writeHead(status, range === undefined ? {} : { range }).end();
    if (method === 'GET') return asked === undefined ? reply(404) : reply(204, asked(held.length));
    if (method === 'PUT') return reply(decodeURIComponent(url).endsWith(sha256(held)) ? 201 : 400);
    const start = Number.parseInt(headers['content-range'] ?? '', 10);
    if (start > held.length || (start < held.length && !skips)) return reply(416);
    const keeps = kept.shift();
    held = Buffer.concat([held, body.subarray(held.length - start, keeps)]);
    return keeps === undefined ? reply(202, taken(held.length, body.length)) : reply(503);
  });
  const client = createRegistryClient({ registry: registry.address, scheme: 'http' });
  onTestFinished(() => client.close());
  return { client, methods: () => registry.requests.map((request) => request.split(' ', 1)[0]) };
}

/** Sends the content in three pieces and makes it a blob, which the registry compares with its digest. */
async function push({ client }: Awaited<ReturnType<typeof aRegistry>>): Promise<number> {
  const upload = await client.upload('a');
  for (const start of [0, 6, 12]) await appendPiece(upload, content.subarray(start, start + 6), {});
  await upload.finish(sha256(content));
  return upload.offset;
}

describe('an upload to a registry', () => {
  test.each<[string, Habits]>([
    ['says how much there is', specified],
    ['says how large each piece was', { ...specified, taken: (_, piece) => `0-${piece - 1}` }],
    [
      'says where the first piece ended, and nothing when it is asked',
      { taken: () => '0-5', asked: undefined },
    ],
  ])('that %s has each piece sent once', async (_what, habits) => {
    const registry = await aRegistry(habits);
    expect(await push(registry)).toBe(content.length);
    expect(registry.methods()).toEqual(['POST', 'PATCH', 'PATCH', 'PATCH', 'PUT']);
  });

  test.each<[string, Habits]>([
    ['says how much there is', specified],
    ['says how large each piece was', { ...specified, taken: (_, piece) => `0-${piece - 1}` }],
    ['counts a byte too many when it is asked', { ...specified, asked: (held) => `0-${held}`, skips: true }],
  ])('that %s goes on after a piece that broke off, wherever that was', async (_what, habits) => {
    withoutDelays();
    for (const kept of [0, 2, 4, 6])
      for (const before of [[], [undefined], [undefined, undefined]])
        expect(await push(await aRegistry(habits, ...before, kept))).toBe(content.length);
  });
});
