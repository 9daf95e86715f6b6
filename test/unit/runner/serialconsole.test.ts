import { type Duplex, PassThrough } from 'node:stream';
import { beforeEach, describe, expect, test } from 'vitest';
import { SerialConsole } from '../../../src/runner/serialconsole.ts';

let logged: string;
let console: SerialConsole;

beforeEach(() => {
  logged = '';
  console = new SerialConsole((chunk) => (logged += chunk.toString('utf8')));
});

/** A QEMU: what it writes, and what it is to read. */
function boot() {
  const qemu = { output: new PassThrough(), input: new PassThrough({ highWaterMark: 16 }) };
  console.attach(qemu.output, qemu.input);
  return qemu;
}

const nextTurn = () => new Promise((resolve) => setImmediate(resolve));
/** All that has come. */
function read(stream: Duplex): string {
  const chunks: Buffer[] = [];
  for (let chunk = stream.read() as Buffer | null; chunk !== null; chunk = stream.read() as Buffer | null)
    chunks.push(chunk);
  return Buffer.concat(chunks).toString('utf8');
}

describe('a serial console', () => {
  test('shows what the guest writes in the log, and to everybody who is connected then', async () => {
    const { output } = boot();
    output.write('before ');
    await nextTurn();
    const [one, other] = [console.connect(), console.connect()];
    output.write('after');
    await nextTurn();
    expect([logged, read(one), read(other)]).toEqual(['before after', 'after', 'after']);
  });

  test('takes what any of them types', async () => {
    const { input } = boot();
    console.connect().write('ls');
    console.connect().write('\n');
    await nextTurn();
    expect(read(input)).toBe('ls\n');
  });

  test('goes on with the next boot, and forgets what is typed in between', async () => {
    const first = boot();
    const one = console.connect();
    first.input.destroy();
    await nextTurn();
    one.write('lost');
    const second = boot();
    second.output.write('login: ');
    await nextTurn();
    one.write('root');
    await nextTurn();
    expect([read(one), read(second.input)]).toEqual(['login: ', 'root']);
  });

  test('holds back who types faster than the guest reads, until it reads or ends', async () => {
    for (const end of ['read', 'destroy'] as const) {
      const { input } = boot();
      const one = console.connect();
      let isTaken = false;
      one.write('x'.repeat(64), () => (isTaken = true));
      await nextTurn();
      expect(isTaken).toBe(false);
      input[end]();
      await nextTurn();
      await nextTurn();
      expect(isTaken).toBe(true);
    }
  });

  test('ends for who reads too slowly, and for nobody else', async () => {
    const { output } = boot();
    const [slow, fast] = [console.connect(), console.connect()];
    const told: string[] = [];
    slow.on('error', ({ message }) => told.push(message));
    fast.on('data', () => undefined);
    for (let i = 0; i < 20; i++) {
      output.write(Buffer.alloc(64 * 1024));
      await nextTurn();
    }
    expect([slow.destroyed, fast.destroyed]).toEqual([true, false]);
    expect(told).toEqual(['it was read too slowly']);
    expect(logged).toHaveLength(20 * 64 * 1024);
  });

  test('shows nothing more to who has gone', async () => {
    const { output } = boot();
    const gone = console.connect();
    gone.destroy();
    output.write('x');
    await nextTurn();
    expect(logged).toBe('x');
  });
});
