import { createPublicKey } from 'node:crypto';
import { once } from 'node:events';
import { PassThrough, Duplex } from 'node:stream';
import { finished } from 'node:stream/promises';
import { setImmediate as turn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Svc3Error } from '../../../src/errors.ts';
import { createCertificate } from '../../../src/runner/certificate.ts';
import { createControlServer } from '../../../src/runner/control.ts';
import { createRunnerClient, type RunnerClient } from '../../../src/runnerapi/client.ts';
import { createControlKey, signControlToken } from '../../../src/runnerapi/token.ts';
import { withFakeTimers } from '../timers.ts';

const { privateKey } = createControlKey();
const publicKey = createPublicKey(privateKey);
let runner: ReturnType<typeof createControlServer>;
let client: RunnerClient;
/** The guest's side of the stream that was opened last. */
let guest: Duplex;
let newGuest: () => Duplex;
/** A verb that was asked for, and takes for ever: whether it is wanted still. */
let verb: PromiseWithResolvers<AbortSignal>;

beforeEach(async () => {
  verb = Promise.withResolvers();
  newGuest = () => new PassThrough();
  runner = createControlServer({
    uid: () => 'vm-1',
    certificate: createCertificate('vm-1'),
    keys: () => Promise.resolve([publicKey]),
    routes: [
      {
        method: 'POST',
        pattern: /^\/v1\/power$/,
        action: 'power',
        run: ({ wanted }) => {
          verb.resolve(wanted);
          return new Promise(() => undefined);
        },
      },
    ],
    streams: [
      {
        path: '/v1/serial',
        action: 'serial',
        target: () => Promise.resolve({ stream: (guest = newGuest()) }),
      },
    ],
    log: {} as never,
  });
  const port = await runner.listen('127.0.0.1', 0);
  const sign = (claims: Parameters<typeof signControlToken>[0]) => signControlToken(claims, privateKey);
  client = createRunnerClient({ address: '127.0.0.1', port, vmUid: 'vm-1', sign });
});

afterEach(() => {
  vi.useRealTimers();
  return runner.close();
});

/** What the api sees of a stream to which this happens. */
async function seen(act: () => unknown) {
  const stream = await client.openSerial();
  let text = '';
  stream.on('data', (chunk: Buffer) => (text += chunk.toString()));
  stream.write('hello');
  await once(stream, 'data');
  await act();
  return finished(stream, { writable: false }).then(
    () => text,
    ({ reason, message }: Svc3Error) => `${reason}: ${message}`,
  );
}

test('a verb is told when nobody waits for it any more', async () => {
  const caller = new AbortController();
  const asked = client.power({ action: 'stop' }, caller.signal);
  const wanted = await verb.promise;
  expect(wanted.aborted).toBe(false);
  caller.abort();
  await expect(asked).rejects.toMatchObject({ reason: 'ServiceUnavailable' });
  await expect.poll(() => wanted.aborted).toBe(true);
});

describe('a stream of a runner ends at the api', () => {
  test('where the guest ends it, behind its last byte', async () => {
    expect(await seen(() => guest.end(', and goodbye'))).toBe('hello, and goodbye');
  });

  test.each<[string, () => unknown, string]>([
    [
      'where it breaks',
      () => guest.destroy(new Error('it was read too slowly')),
      'the connection to the guest broke: it was read too slowly',
    ],
    ['where the runner ends', () => runner.close(), "the VM's runner has ended"],
  ])('with a fault %s', async (_what, act, message) => {
    expect(await seen(act)).toBe(`BadGateway: ${message}`);
  });

  test('and a guest that is slow has all that the api sent before it ended', async () => {
    withFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const held: (() => void)[] = [];
    let taken = 0;
    newGuest = () =>
      new Duplex({
        read: () => undefined,
        write(chunk: Buffer, _encoding, done) {
          taken += chunk.length;
          held.push(done);
        },
      });
    const stream = await client.openSerial();
    stream.resume();
    for (let count = 0; count < 3; count += 1) stream.write(Buffer.alloc(100_000));
    stream.end();
    const until = async (holds: () => boolean) => {
      for (let turns = 0; turns < 10_000 && !holds(); turns += 1) await turn();
      expect(holds()).toBe(true);
    };
    await until(() => vi.getTimerCount() > 0 && held.length > 0);
    await vi.advanceTimersByTimeAsync(120_000);
    for (let turns = 0; turns < 10; turns += 1) await turn();
    expect(stream.destroyed).toBe(false);
    await until(() => {
      held.shift()?.();
      return guest.destroyed && stream.destroyed;
    });
    expect(taken).toBe(300_000);
  });

  test('and the guest is let go of where the api leaves', async () => {
    const stream = await client.openSerial();
    const closed = once(guest, 'close');
    stream.destroy();
    await closed;
  });
});
