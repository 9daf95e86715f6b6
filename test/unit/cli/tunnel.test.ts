import { connect, type Socket } from 'node:net';
import { Duplex, Readable } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import { aroundEach, expect, onTestFinished, test, vi } from 'vitest';
import type { Context } from '../../../src/cli/context.ts';
import { listen, pipeTerminal } from '../../../src/cli/tunnel.ts';
import { withFakeTimers } from '../timers.ts';

const idleMs = 5000;

aroundEach((runTest) => {
  withFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  return runTest();
});

/** As soon as the sockets of this process have had their turns. */
async function until(holds: () => boolean): Promise<void> {
  for (let turns = 0; turns < 10_000 && !holds(); turns += 1) await turn();
  expect(holds()).toBe(true);
}

/** The port of a guest, which says what the test pushes, and has nothing more to say once it has taken all. */
function aGuest(taken: (done: () => void) => unknown = (done) => done()) {
  const heard: string[] = [];
  const stream = new Duplex({
    read: () => undefined,
    write(chunk: Buffer, _encoding, done) {
      heard.push(chunk.toString('utf8'));
      taken(done);
    },
    final(done) {
      this.push(null);
      done();
    },
  });
  return { stream, heard };
}

/** The same, which takes a piece whenever it is let. */
function aSlowGuest() {
  const held: (() => void)[] = [];
  return { ...aGuest((done) => held.push(done)), take: () => held.shift()?.() };
}

/** A local client of a tunnel that listens, connected, and how many bytes it has heard. */
async function aClient(stream: Duplex): Promise<{ client: Socket; heard: () => number }> {
  const stopping = new AbortController();
  const port = Promise.withResolvers<number>();
  const line = (text: string) => port.resolve(Number(/:(\d+);/.exec(text)?.[1]));
  const context = { signal: stopping.signal, out: { line, warning: vi.fn() } } as unknown as Context;
  const listening = listen(context, '0', async () => stream);
  const client = connect({ port: await port.promise, host: '127.0.0.1', allowHalfOpen: true });
  onTestFinished(async () => {
    client.destroy();
    stopping.abort();
    await listening;
  });
  let bytes = 0;
  client.on('data', (chunk: Buffer) => (bytes += chunk.length));
  client.on('error', () => undefined);
  return { client, heard: () => bytes };
}

test('a local client that has ended is answered as long as something comes, then the guest is told', async () => {
  const { stream, heard } = aGuest();
  const { client, heard: answered } = await aClient(stream);
  client.end('question');
  await until(() => heard.join('') === 'question' && vi.getTimerCount() === 1);
  await vi.advanceTimersByTimeAsync(idleMs - 1);
  stream.push('an answer');
  await until(() => answered() === 'an answer'.length);
  await vi.advanceTimersByTimeAsync(idleMs - 1);
  expect(stream.writableEnded).toBe(false);
  await vi.advanceTimersByTimeAsync(1);
  expect(stream.writableEnded).toBe(true);
  await until(() => client.readableEnded && stream.destroyed);
  expect(vi.getTimerCount()).toBe(0);
});

test('a local client that goes on is left alone, and one that is gone ends its stream at once', async () => {
  const { stream, heard } = aGuest();
  const { client } = await aClient(stream);
  client.write('question');
  await until(() => heard.join('') === 'question');
  await vi.advanceTimersByTimeAsync(60_000);
  expect(stream.destroyed).toBe(false);
  client.resetAndDestroy();
  await until(() => stream.destroyed);
});

test('a local client that is gone after its end ends its stream as soon as there is something for it', async () => {
  const { stream, heard } = aGuest();
  const { client } = await aClient(stream);
  client.end('question');
  await until(() => heard.join('') === 'question' && vi.getTimerCount() === 1);
  client.resetAndDestroy();
  await until(() => {
    stream.push('an answer');
    return stream.destroyed;
  });
  await until(() => vi.getTimerCount() === 0);
});

test('a local client that reads slowly gets all that was said to it', async () => {
  const { stream, heard } = aGuest();
  const { client, heard: answered } = await aClient(stream);
  client.pause();
  client.end('question');
  await until(() => heard.join('') === 'question' && vi.getTimerCount() === 1);
  const more = Buffer.alloc(16 * 2 ** 20);
  stream.push(more);
  stream.push('the end');
  await until(() => stream.isPaused());
  await vi.advanceTimersByTimeAsync(10 * idleMs);
  expect(stream.destroyed).toBe(false);
  client.resume();
  await until(() => answered() === more.length + 'the end'.length);
  await vi.advanceTimersByTimeAsync(2 * idleMs);
  await until(() => stream.destroyed);
});

test('a guest that is slow gets all that a local client has sent', async () => {
  const { stream, heard, take } = aSlowGuest();
  const { client } = await aClient(stream);
  client.write('question');
  await until(() => heard.length === 1);
  client.end(' and the end');
  await until(() => vi.getTimerCount() === 1);
  await vi.advanceTimersByTimeAsync(10 * idleMs);
  expect(stream.destroyed).toBe(false);
  await until(() => {
    take();
    return client.readableEnded;
  });
  expect(heard.join('')).toBe('question and the end');
});

test('a guest that is slow gets all of standard input', async () => {
  const { stream, heard, take } = aSlowGuest();
  const environment = { stdin: Readable.from(['question', ' and the end']), stdout: { write: () => true } };
  const context = { environment, signal: new AbortController().signal } as unknown as Context;
  const piping = pipeTerminal(context, stream);
  await until(() => vi.getTimerCount() === 1);
  await vi.advanceTimersByTimeAsync(10 * idleMs);
  expect(stream.destroyed).toBe(false);
  await until(() => {
    take();
    return stream.destroyed;
  });
  await piping;
  expect(heard.join('')).toBe('question and the end');
});

test('standard output that is slow gets all that was said to it', async () => {
  const { stream } = aGuest();
  const drained = Promise.withResolvers<() => void>();
  const said: string[] = [];
  const stdout = {
    write: (chunk: Uint8Array) => said.push(Buffer.from(chunk).toString('utf8')) > 1,
    once: (_event: 'drain', listener: () => void) => drained.resolve(listener),
  };
  const environment = { stdin: Readable.from(['question']), stdout };
  const context = { environment, signal: new AbortController().signal } as unknown as Context;
  const piping = pipeTerminal(context, stream);
  stream.push('first');
  const drain = await drained.promise;
  stream.push('second');
  await until(() => vi.getTimerCount() === 1);
  await vi.advanceTimersByTimeAsync(10 * idleMs);
  expect(stream.destroyed).toBe(false);
  drain();
  await until(() => said.join(' ') === 'first second');
  await vi.advanceTimersByTimeAsync(idleMs);
  await piping;
});
