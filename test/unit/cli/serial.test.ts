import { PassThrough, Readable } from 'node:stream';
import { describe, expect, test, vi } from 'vitest';
import type { Context } from '../../../src/cli/context.ts';
import { pipeSerial } from '../../../src/cli/serial.ts';
import { aTerminal } from './environment.ts';

/** A terminal at which this is typed, key by key, and a guest that answers. */
async function typed(keys: readonly string[], answer = '', setRawMode = vi.fn()) {
  const terminal = aTerminal();
  const stdin = Object.assign(Readable.from(keys.map((key) => Buffer.from(key))), {
    isTTY: true,
    setRawMode,
  });
  const guest = new PassThrough();
  const received: string[] = [];
  guest.write = ((chunk: Buffer) => received.push(chunk.toString('utf8')) > 0) as never;
  if (answer !== '') setImmediate(() => guest.emit('data', Buffer.from(answer)));
  const { environment } = terminal;
  const context = {
    environment: { ...environment, stdin },
    signal: environment.signal,
  } as unknown as Context;
  await pipeSerial(context, 'web', guest);
  return { received: received.join(''), terminal, setRawMode };
}

describe('a terminal at the serial console', () => {
  test('passes every key on but the one that ends it, Ctrl-C too', async () => {
    const { received, terminal } = await typed(['ls\r', '\x03', 'ab\x1dcd', 'never sent']);
    expect(received).toBe('ls\r\x03ab');
    expect(terminal.stderr()).toBe('Serial console of VM web; Ctrl-] ends the connection\n\n');
  });

  test('is put back as it was', async () => {
    const { setRawMode } = await typed(['\x1d']);
    expect(setRawMode.mock.calls).toEqual([[true], [false]]);
  });

  test('is put back also when the connection breaks', async () => {
    const guest = new PassThrough();
    const setRawMode = vi.fn();
    const stdin = Object.assign(new PassThrough(), { isTTY: true, setRawMode });
    const { environment } = aTerminal();
    const context = {
      environment: { ...environment, stdin },
      signal: environment.signal,
    } as unknown as Context;
    const piped = pipeSerial(context, 'web', guest);
    guest.destroy(new Error('reset'));
    await expect(piped).rejects.toThrow('reset');
    expect(setRawMode.mock.calls).toEqual([[true], [false]]);
  });
});
