import { createServer, type Server, type Socket } from 'node:net';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { createGuestAgent } from '../../../src/runner/agent.ts';
import { connectQmp, QmpError, type Qmp, type QmpEvent } from '../../../src/runner/qmp.ts';

/** A peer that says what the test wants, byte by byte: the faults that a real QEMU does not show on demand. */
async function aPeer(onLine: (line: string, socket: Socket) => void, greeting?: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'svc3-peer-'));
  const path = join(folder, 'sock');
  const sockets = new Set<Socket>();
  const server: Server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    if (greeting !== undefined) socket.write(greeting);
    let rest = '';
    socket.on('data', (chunk: Buffer) => {
      const lines = (rest + chunk.toString('latin1')).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) onLine(line, socket);
    });
  });
  await new Promise<void>((resolve) => server.listen(path, resolve));
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
    await rm(folder, { recursive: true });
  });
  return path;
}

const hello = '{"QMP":{"version":{}}}\r\n';
const idOf = (line: string) => (JSON.parse(line) as { id: number }).id;
const commandOf = (line: string) => (JSON.parse(line) as { execute: string }).execute;

async function aMonitor(onLine: (line: string, socket: Socket) => void): Promise<Qmp> {
  const path = await aPeer((line, socket) => {
    if (commandOf(line) === 'qmp_capabilities') socket.write(`{"return":{},"id":${idOf(line)}}\r\n`);
    else onLine(line, socket);
  }, hello);
  const qmp = await connectQmp(path, AbortSignal.timeout(5000));
  onTestFinished(() => qmp.close());
  return qmp;
}

describe('a monitor', () => {
  test('answers each command by its id, whatever the order and however the bytes are cut', async () => {
    const kept: number[] = [];
    const qmp = await aMonitor((line, socket) => {
      kept.push(idOf(line));
      if (kept.length < 2) return;
      const text = kept
        .toReversed()
        .map((id) => `{"return":"to ${id}","id":${id}}\r\n`)
        .join('');
      for (const byte of Buffer.from(text)) socket.write(Buffer.from([byte]));
    });
    const [first, second] = await Promise.all([qmp.execute<string>('a'), qmp.execute<string>('b')]);
    expect(first).toBe(`to ${kept[0]}`);
    expect(second).toBe(`to ${kept[1]}`);
  });

  test('passes events on while a command waits', async () => {
    const qmp = await aMonitor((line, socket) =>
      socket.write(
        `{"event":"STOP","data":{"x":1}}\r\n{"event":"RESUME"}\r\nnot json\r\n{"return":{},"id":${idOf(line)}}\r\n`,
      ),
    );
    const seen: QmpEvent[] = [];
    qmp.onEvent((event) => seen.push(event));
    await qmp.execute('stop');
    expect(seen).toEqual([
      { event: 'STOP', data: { x: 1 } },
      { event: 'RESUME', data: {} },
    ]);
  });

  test('gives a refusal its class', async () => {
    const qmp = await aMonitor((line, socket) =>
      socket.write(`{"error":{"class":"DeviceNotFound","desc":"no cd"},"id":${idOf(line)}}\r\n`),
    );
    const refusal = qmp.execute('eject');
    await expect(refusal).rejects.toBeInstanceOf(QmpError);
    await expect(refusal).rejects.toMatchObject({ kind: 'DeviceNotFound', message: 'no cd' });
  });

  test('that does not answer is given up after the time, and its late answer belongs to nobody', async () => {
    const qmp = await aMonitor((line, socket) => {
      if (commandOf(line) === 'slow')
        setTimeout(() => socket.write(`{"return":"late","id":${idOf(line)}}\r\n`), 50);
      else setTimeout(() => socket.write(`{"return":"own","id":${idOf(line)}}\r\n`), 100);
    });
    await expect(qmp.execute('slow', undefined, { timeoutMs: 10 })).rejects.toThrow(
      'QEMU did not answer slow within 10 ms',
    );
    expect(await qmp.execute('next')).toBe('own');
  });

  test('that is closed ends every command', async () => {
    const qmp = await aMonitor((_line, socket) => socket.destroy());
    await expect(qmp.execute('a')).rejects.toThrow('QEMU closed its monitor');
    await expect(qmp.execute('b')).rejects.toThrow('QEMU closed its monitor');
  });

  test('that sends a line without end is closed', async () => {
    const qmp = await aMonitor((_line, socket) => {
      const more = (): void => {
        if (socket.write('x'.repeat(2 ** 20))) setImmediate(more);
        else socket.once('drain', more);
      };
      more();
    });
    await expect(qmp.execute('query-status', undefined, { timeoutMs: 60_000 })).rejects.toThrow(
      'QEMU closed its monitor',
    );
  });

  test('without a greeting (another client holds it) is given up by the signal', async () => {
    const path = await aPeer(() => undefined);
    await expect(connectQmp(path, AbortSignal.timeout(100))).rejects.toThrow();
  });

  test('that never appears is given up by the signal', async () => {
    await expect(connectQmp('/nonexistent/sock', AbortSignal.timeout(100))).rejects.toThrow();
  });
});

describe('the guest agent', () => {
  const sync = (line: string) => {
    const from = line.indexOf('{');
    const { execute, arguments: args } = JSON.parse(line.slice(from)) as {
      execute: string;
      arguments?: { id: number };
    };
    return execute === 'guest-sync-delimited' ? args?.id : undefined;
  };

  test('is not believed for replies to somebody before', async () => {
    const path = await aPeer((line, socket) => {
      const id = sync(line);
      if (id === undefined) socket.write('{"return":"mine"}\n');
      else
        socket.write(
          Buffer.from(`{"return":"stale"}\n{"return":${id - 1}}\n\u00ff{"return":${id}}\n`, 'latin1'),
        );
    });
    expect(await createGuestAgent(path).execute('guest-info')).toBe('mine');
  });

  test('that refuses says why', async () => {
    const path = await aPeer((line, socket) => {
      const id = sync(line);
      socket.write(
        id === undefined
          ? '{"error":{"desc":"disabled"}}\n'
          : Buffer.from(`\u00ff{"return":${id}}\n`, 'latin1'),
      );
    });
    await expect(createGuestAgent(path).execute('guest-exec')).rejects.toThrow('guest agent: disabled');
  });

  test('that is silent or absent is no answer, and no hang', async () => {
    const silent = await aPeer(() => undefined);
    expect(await createGuestAgent(silent).isAnswering(50)).toBe(false);
    expect(await createGuestAgent('/nonexistent/agent').isAnswering(50)).toBe(false);
  });

  test.each([
    ['a line without end', () => 'x'.repeat(65_536)],
    ['replies without end', () => '{"return":{}}\n'.repeat(5_000)],
  ])('that sends %s is hung up on', async (_, bytes) => {
    let sent = 0;
    const isClosed = Promise.withResolvers<void>();
    const path = await aPeer((_line, socket) => {
      socket.once('close', () => isClosed.resolve());
      const more = () => {
        while (!socket.destroyed && sent < 2 ** 28) {
          const text = bytes();
          sent += text.length;
          if (!socket.write(text)) {
            socket.once('drain', more);
            return;
          }
        }
      };
      more();
    });
    await expect(
      createGuestAgent(path).execute('guest-info', undefined, { timeoutMs: 60_000 }),
    ).rejects.toThrow('the guest agent does not answer');
    await isClosed.promise;
    expect(sent).toBeLessThan(2 ** 24);
  });

  test.each([
    ['nothing', 'null'],
    ['a number', '7'],
    ['lists in each other', '['.repeat(50_000) + ']'.repeat(50_000)],
  ])('that answers with %s has not answered', async (_, reply) => {
    const path = await aPeer((line, socket) => {
      const id = sync(line);
      socket.write(
        id === undefined
          ? `${reply}\n{"return":"mine"}\n`
          : Buffer.from(`\u00ff{"return":${id}}\n`, 'latin1'),
      );
    });
    expect(await createGuestAgent(path).execute('guest-info')).toBe('mine');
  });

  test('whose refusal is long or no text is quoted in short', async () => {
    for (const desc of ['x'.repeat(100_000), { a: 1 }, null]) {
      const path = await aPeer((line, socket) => {
        const id = sync(line);
        socket.write(
          id === undefined
            ? `${JSON.stringify({ error: { desc } })}\n`
            : Buffer.from(`\u00ff{"return":${id}}\n`, 'latin1'),
        );
      });
      const refusal = await createGuestAgent(path)
        .execute('guest-info')
        .catch((error: unknown) => error);
      expect((refusal as Error).message).toMatch(/^guest agent: .{0,300}$/);
    }
  });
});
