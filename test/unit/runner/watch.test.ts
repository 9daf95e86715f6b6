import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { createGuestAgent, type GuestAgent } from '../../../src/runner/agent.ts';
import type { Machine } from '../../../src/runner/machine.ts';
import type { QmpEvent } from '../../../src/runner/qmp.ts';
import { createStatusBoard } from '../../../src/runner/status.ts';
import { watchMachine } from '../../../src/runner/watch.ts';
import { withGlobalDelays } from '../delays.ts';
import { createQueue } from '../../../src/runner/powerstate.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  withGlobalDelays();
});
afterEach(() => void vi.useRealTimers());

/** An agent that answers at once. */
function anAgent(told: GuestAgent['execute']): GuestAgent {
  return { isAnswering: async () => true, execute: told, send: async () => undefined, alone: createQueue() };
}

/** A QEMU whose disk is full: it stops its guest again whenever that goes on. */
function watched(given: { readonly agent?: GuestAgent } = {}) {
  const onEvent = vi.fn<(listen: (event: QmpEvent) => void) => void>();
  const disk = { isFull: true, flushesForMs: 0 };
  let state = 'running';
  const tell = (event: string, data: QmpEvent['data'] = {}) => {
    for (const [listen] of onEvent.mock.calls) listen({ event, data });
  };
  const stop = () => {
    state = 'io-error';
    tell('STOP');
  };
  const execute = vi.fn(async (command: string, _args?: object, { timeoutMs = 10_000 } = {}) => {
    const { flushesForMs } = disk;
    if (flushesForMs > 0)
      await new Promise((resolve) => setTimeout(resolve, Math.min(flushesForMs, timeoutMs)));
    if (flushesForMs > timeoutMs) throw new Error('QEMU did not answer');
    if (command === 'cont') {
      state = 'running';
      if (disk.isFull) stop();
    }
    return { status: state };
  });
  const { promise: exited, resolve: end } = Promise.withResolvers<void>();
  // Else its guest would be looked for as long as the process of the tests lives, in the time of other tests.
  onTestFinished(() => end());
  const told = vi.fn(async (..._asked: unknown[]) => undefined);
  const { agent = anAgent(told as unknown as GuestAgent['execute']) } = given;
  const machine = { qmp: { execute, onEvent }, exited, agent };
  const status = createStatusBoard({
    powerState: 'Running',
    guestReachable: true,
    retrying: false,
    restarts: 0,
    ports: [],
    ejected: false,
  });
  const error = vi.fn();
  const running = watchMachine(machine as unknown as Machine, {
    input: { accelerator: 'tcg' } as never,
    readiness: { timeoutSeconds: 0 },
    status,
    log: { error } as never,
    beforeQuit: async () => undefined,
  });
  const continued = () => execute.mock.calls.filter(([command]) => command === 'cont').length;
  return { disk, tell, stop, execute, status, error, continued, told, running };
}

test('a guest whose disk is full is told to go on every six seconds, however often it stops, and the time once it does', async () => {
  const { disk, stop, status, error, continued, told } = watched();
  stop();
  await vi.advanceTimersByTimeAsync(120_000);
  expect(status.current).toMatchObject({ powerState: 'Failed', reason: 'DiskFull', retrying: true });
  expect([continued(), error.mock.calls.length]).toEqual([20, 1]);
  expect(told).not.toHaveBeenCalled();
  disk.isFull = false;
  await vi.advanceTimersByTimeAsync(6_000);
  expect(told.mock.calls).toEqual([
    ['guest-fsfreeze-status'],
    ['guest-set-time', { time: expect.any(Number) }],
  ]);
  expect(status.current).toMatchObject({ powerState: 'Running', reason: undefined, retrying: false });
  expect(continued()).toBe(21);
});

test('a guest that meets a full disk again after it was suspended is told to go on again', async () => {
  const { stop, status, continued } = watched();
  stop();
  await vi.advanceTimersByTimeAsync(1_000);
  status.update({ powerState: 'Suspended', reason: 'Requested', message: undefined, retrying: false });
  status.update({ powerState: 'Running', reason: undefined });
  stop();
  await vi.advanceTimersByTimeAsync(30_000);
  expect(status.current.reason).toBe('DiskFull');
  expect(continued()).toBe(5);
});

test('a guest whose full disk QEMU flushes for a minute, in which it answers nobody, is told of and goes on', async () => {
  const { disk, stop, status } = watched();
  disk.flushesForMs = 60_000;
  stop();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(status.current).toMatchObject({ powerState: 'Failed', reason: 'DiskFull', retrying: true });
  Object.assign(disk, { isFull: false, flushesForMs: 0 });
  await vi.advanceTimersByTimeAsync(6_000);
  expect(status.current).toMatchObject({ powerState: 'Running', reason: undefined, retrying: false });
});

test('of a guest that is being taken down by the time QEMU answers nothing is said', async () => {
  const { disk, stop, status, running } = watched();
  disk.flushesForMs = 60_000;
  stop();
  running.expected = true;
  await vi.advanceTimersByTimeAsync(120_000);
  expect(status.current.powerState).toBe('Running');
});

test.each<[words: string, ...faults: object[]]>([
  ['full', { nospace: true, reason: 'No space left on device' }],
  [
    'full or not writable (Disk quota exceeded)',
    { nospace: false, reason: 'Disk quota exceeded' },
    { nospace: true, reason: 'No space left on device' },
  ],
  ['full or not writable'],
])('a guest that met storage that is %s is told of in these words', async (words, ...faults) => {
  const { tell, stop, status } = watched();
  for (const fault of faults.toReversed())
    tell('BLOCK_IO_ERROR', { operation: 'write', action: 'stop', ...fault });
  // What a guest is told of, and goes on with, stops nothing.
  tell('BLOCK_IO_ERROR', {
    operation: 'read',
    action: 'report',
    nospace: true,
    reason: 'Input/output error',
  });
  stop();
  await vi.advanceTimersByTimeAsync(1_000);
  expect(status.current.reason).toBe('DiskFull');
  expect(status.current.message?.split(';')[0]).toBe(`the VM's storage is ${words}`);
});

test('a disk that is no longer full but cannot be written to either is told of in other words, once', async () => {
  const { tell, stop, status, error } = watched();
  tell('BLOCK_IO_ERROR', { operation: 'write', action: 'stop', nospace: true, reason: 'No space left' });
  stop();
  await vi.advanceTimersByTimeAsync(1_000);
  tell('BLOCK_IO_ERROR', {
    operation: 'write',
    action: 'stop',
    nospace: false,
    reason: 'Input/output error',
  });
  await vi.advanceTimersByTimeAsync(30_000);
  expect(status.current.message).toContain('is full or not writable (Input/output error); ');
  expect(error).toHaveBeenCalledTimes(2);
});

test('a guest that goes to sleep is woken: nobody could do that', async () => {
  const { tell, execute, status } = watched();
  tell('SUSPEND');
  await vi.advanceTimersByTimeAsync(1_000);
  expect(execute).toHaveBeenCalledWith('system_wakeup');
  expect(status.current.powerState).toBe('Running');
});

/** A guest without a program that has the agent's port open: nobody answers. */
async function aSilentAgent(): Promise<GuestAgent> {
  const folder = await mkdtemp(join(tmpdir(), 'svc3-watch-'));
  const sockets: Socket[] = [];
  const server = createServer((socket) => void sockets.push(socket.on('error', () => undefined)));
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
    await rm(folder, { recursive: true });
  });
  const path = join(folder, 'agent.sock');
  await new Promise<void>((resolve) => server.listen(path, resolve));
  return createGuestAgent(path);
}

test('a guest that resets all the time keeps no command to its agent waiting for more than a look at it', async () => {
  const agent = await aSilentAgent();
  const { tell } = watched({ agent });
  for (let resets = 0; resets < 100; resets += 1) {
    tell('RESET');
    await vi.advanceTimersByTimeAsync(50);
  }
  const isOver = vi.fn();
  agent.execute('guest-info', undefined, { timeoutMs: 100 }).catch(isOver);
  await vi.advanceTimersByTimeAsync(2_100);
  expect(isOver).toHaveBeenCalledWith(new Error('the guest agent does not answer'));
});
