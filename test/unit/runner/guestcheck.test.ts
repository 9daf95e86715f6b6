import { createServer as createHttpServer, type RequestListener } from 'node:http';
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import type { RunnerReadiness } from '../../../src/api/runner.ts';
import { guestCheck } from '../../../src/runner/guestcheck.ts';
import type { GuestPorts } from '../../../src/runner/usernet.ts';

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

async function listening(server: Server): Promise<number> {
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}

const tcp = (greet: (socket: Socket) => void) =>
  listening(
    createServer((socket) => {
      socket.on('error', () => undefined);
      greet(socket);
    }),
  );

/** One look; the guest's ports are forwarded to `port`, where QEMU answers whether or not the guest does. */
function look(
  readiness: Omit<RunnerReadiness, 'timeoutSeconds'>,
  { port, agent = false, taken = [true] }: { port?: number; agent?: boolean; taken?: boolean[] },
) {
  const asked: number[] = [];
  const ports = {
    loopbackPort: async (guestPort: number) => {
      asked.push(guestPort);
      if (port === undefined) throw new Error('not forwarded');
      return port;
    },
    isConnected: async () => taken.shift() ?? false,
  } as unknown as GuestPorts;
  const check = guestCheck(
    { ...readiness, timeoutSeconds: 180 },
    { isAnswering: async () => agent } as never,
    ports,
  );
  return { asked, answer: check?.(AbortSignal.timeout(20_000)) };
}

describe('a guest that is asked for', () => {
  test('nothing is not asked', () => {
    expect(look({ none: {} }, {}).answer).toBeUndefined();
  });

  test.each([true, false])('its agent answers: %s', async (agent) => {
    const { answer, asked } = look({ guestAgent: {} }, { agent });
    expect(await answer).toBe(agent);
    expect(asked).toEqual([]);
  });

  test('a TCP port answers when it has taken the connection, whatever QEMU accepts', async () => {
    const port = await tcp(() => undefined);
    const { answer, asked } = look({ tcp: { port: 5432 } }, { port, taken: [false, false, true] });
    expect(await answer).toBe(true);
    expect(asked).toEqual([5432]);
  });

  test('a TCP port does not answer when QEMU closes the connection', async () => {
    const port = await tcp((socket) => socket.destroy());
    expect(await look({ tcp: { port: 5432 } }, { port, taken: [false, false] }).answer).toBe(false);
  });

  test('a TCP port does not answer where it is not forwarded', async () => {
    expect(await look({ tcp: { port: 5432 } }, {}).answer).toBe(false);
  });

  test.each([
    [200, true],
    [302, true],
    [399, true],
    [400, false],
    [503, false],
  ])('HTTP answers with %i: %s', async (status, expected) => {
    const seen: (string | undefined)[] = [];
    const serve: RequestListener = ({ url, headers }, response) => {
      seen.push(url, headers.host);
      response.writeHead(status).end();
    };
    const port = await listening(createHttpServer(serve));
    expect(await look({ http: { port: 8080, path: '/healthz' } }, { port }).answer).toBe(expected);
    expect(seen).toEqual(['/healthz', 'localhost:8080']);
  });

  test('HTTP does not answer where something else does, or nothing', async () => {
    const port = await tcp((socket) => socket.end('SSH-2.0-x\r\n'));
    expect(await look({ http: { port: 8080, path: '/' } }, { port }).answer).toBe(false);
    expect(await look({ http: { port: 8080, path: '/' } }, {}).answer).toBe(false);
  });
});

describe('a guest of which nothing is said', () => {
  test.each<[string, { agent: boolean; banner?: string }, boolean]>([
    ['answers with its agent', { agent: true }, true],
    ['answers with SSH', { agent: false, banner: 'SSH-2.0-OpenSSH_10\r\n' }, true],
    [
      'does not answer with something else on the port of SSH',
      { agent: false, banner: 'HTTP/1.1 400' },
      false,
    ],
    ['does not answer with neither', { agent: false }, false],
  ])('%s', async (_sentence, { agent, banner }, expected) => {
    const port = await tcp((socket) => (banner === undefined ? socket.destroy() : socket.end(banner)));
    const { answer, asked } = look({}, { port, agent });
    expect(await answer).toBe(expected);
    expect(asked).toEqual([22]);
  });
});
