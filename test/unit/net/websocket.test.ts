import { EventEmitter } from 'node:events';
import { Duplex, PassThrough } from 'node:stream';
import { describe, expect, test, vi } from 'vitest';
import type { WebSocket } from 'ws';
import { closeReason, isEnd, joinWebSocket, keepAlive } from '../../../src/net/websocket.ts';
import { withFakeTimers } from '../timers.ts';

/** A WebSocket that is asked every second whether it is there. */
function kept() {
  withFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  const ws = Object.assign(new EventEmitter(), {
    OPEN: 1,
    readyState: 1,
    isPaused: false,
    ping: vi.fn(),
    terminate: vi.fn(),
  });
  keepAlive(ws as unknown as WebSocket, 1000);
  return ws;
}

describe('a WebSocket that is kept', () => {
  test('is cut when nothing comes for the time of an answer', () => {
    const ws = kept();
    vi.advanceTimersByTime(1000);
    expect([ws.ping.mock.calls.length, ws.terminate.mock.calls.length]).toEqual([1, 0]);
    vi.advanceTimersByTime(1000);
    expect(ws.terminate).toHaveBeenCalledOnce();
  });

  test.each(['pong', 'ping', 'message'])('stays where a %s comes', (event) => {
    const ws = kept();
    for (let round = 0; round < 10; round += 1) {
      vi.advanceTimersByTime(1000);
      ws.emit(event);
    }
    expect(ws.terminate).not.toHaveBeenCalled();
  });

  test('is not cut for what is held back here, and is asked anew once it is read again', () => {
    const ws = kept();
    ws.isPaused = true;
    vi.advanceTimersByTime(10_000);
    expect(ws.terminate).not.toHaveBeenCalled();
    ws.isPaused = false;
    ws.emit('pong');
    vi.advanceTimersByTime(1000);
    expect(ws.terminate).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1000);
    expect(ws.terminate).toHaveBeenCalledOnce();
  });

  test('that closes is asked nothing, and leaves no timer', () => {
    const ws = kept();
    ws.readyState = 2;
    vi.advanceTimersByTime(5000);
    expect([ws.ping.mock.calls.length, ws.terminate.mock.calls.length]).toEqual([0, 0]);
    ws.emit('close');
    expect(vi.getTimerCount()).toBe(0);
  });
});

/** A WebSocket that is joined to a target, and sends nothing by itself. */
function joined(target: Duplex) {
  const sent: (() => void)[] = [];
  const ws = Object.assign(new EventEmitter(), {
    OPEN: 1,
    readyState: 1,
    bufferedAmount: 0,
    pause: vi.fn(),
    resume: vi.fn(),
    close: vi.fn(),
    send(chunk: Buffer, done: () => void) {
      ws.bufferedAmount += chunk.length;
      sent.push(done);
    },
  });
  const flush = (): void => {
    ws.bufferedAmount = 0;
    for (const done of sent.splice(0)) done();
  };
  joinWebSocket(ws as unknown as WebSocket, target, () => ({ code: 1011, reason: 'broken' }));
  return { ws, flush };
}

const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

describe('a WebSocket that is joined to something', () => {
  test('holds it back while what it has said is not sent, and ends behind its last byte', async () => {
    const target = new PassThrough({ highWaterMark: 2 ** 16 });
    const { ws, flush } = joined(target);
    for (let count = 0; count < 64; count += 1) target.write(Buffer.alloc(2 ** 16));
    target.end();
    let bytes = 0;
    for (let rounds = 0; bytes < 2 ** 22 && rounds < 100; rounds += 1) {
      await nextTurn();
      expect(ws.bufferedAmount).toBeLessThanOrEqual(2 ** 18 + 2 ** 16);
      bytes += ws.bufferedAmount;
      if (bytes < 2 ** 22) expect(ws.close).not.toHaveBeenCalled();
      flush();
    }
    expect(bytes).toBe(2 ** 22);
    await vi.waitFor(() => expect(ws.close.mock.calls[0]).toEqual([]));
  });

  test('holds nothing back for a little that is not sent yet', async () => {
    const target = new PassThrough();
    const { ws } = joined(target);
    for (const word of ['one', 'two']) {
      target.write(word);
      await nextTurn();
    }
    expect([ws.bufferedAmount, target.isPaused()]).toEqual([6, false]);
  });

  test('is held back while it takes nothing', async () => {
    const target = new Duplex({ read: () => undefined, write: () => undefined, highWaterMark: 1 });
    const { ws } = joined(target);
    ws.emit('message', Buffer.from('more than it takes'));
    expect(ws.pause).toHaveBeenCalledOnce();
    target.emit('drain');
    expect(ws.resume).toHaveBeenCalledOnce();
  });

  test.each([
    ['is let go of at once where it was cut', 1006, true],
    ['may take what came before an end', 1000, false],
  ])('%s', async (_what, code, isDestroyed) => {
    const taken: (() => void)[] = [];
    const target = new Duplex({
      read: () => undefined,
      write: (_chunk, _encoding, done) => taken.push(done),
    });
    const { ws } = joined(target);
    ws.emit('message', Buffer.from('the last word'));
    ws.emit('close', code);
    await nextTurn();
    expect(target.destroyed).toBe(isDestroyed);
    for (const done of taken) done();
    await vi.waitFor(() => expect(target.destroyed).toBe(true));
  });

  test('has what came before an end taken for as long as some of it is', async () => {
    withFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    const taken: (() => void)[] = [];
    const target = new Duplex({
      read: () => undefined,
      write: (_chunk, _encoding, done) => taken.push(done),
    });
    const { ws } = joined(target);
    for (const word of ['one', 'two', 'three', 'four']) ws.emit('message', Buffer.from(word));
    target.pause();
    ws.emit('close', 1000);
    // Who is not read may not read either.
    expect(target.isPaused()).toBe(false);
    for (let rounds = 0; rounds < 3; rounds += 1) {
      taken.shift()?.();
      await nextTurn();
      vi.advanceTimersByTime(600_000);
      expect(target.destroyed).toBe(false);
    }
    vi.advanceTimersByTime(600_000);
    expect(target.destroyed).toBe(true);
    await nextTurn();
    expect(vi.getTimerCount()).toBe(0);
  });

  test('leaves no timer where its target is gone before it', async () => {
    withFakeTimers({ toFake: ['setInterval', 'clearInterval', 'setTimeout', 'clearTimeout'] });
    const target = new PassThrough();
    const { ws } = joined(target);
    target.end();
    await nextTurn();
    await nextTurn();
    expect(target.closed).toBe(true);
    ws.emit('close', 1005);
    expect(vi.getTimerCount()).toBe(0);
  });

  test('says what broke, once, and reads the answer to that', async () => {
    const target = new PassThrough();
    const { ws } = joined(target);
    target.destroy(new Error('gone'));
    await nextTurn();
    expect(ws.close.mock.calls[0]).toEqual([1011, 'broken']);
    expect(ws.resume).toHaveBeenCalled();
  });
});

test('codes of an end are those of a side that has nothing more to say', () => {
  expect([1000, 1005, 1001, 1006, 1008, 1011, 1014].filter((code) => isEnd(code))).toEqual([1000, 1005]);
});

test('a reason fits into a close frame', () => {
  expect(closeReason(`é${'x'.repeat(200)}`)).toBe(`?${'x'.repeat(122)}`);
});
