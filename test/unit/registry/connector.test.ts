import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { Agent, request } from 'undici';
import { type BeforeConnect, toldConnector } from '../../../src/registry/connector.ts';

let port: number;
let requests: number;

beforeEach(async () => {
  requests = 0;
  const server = createServer((_, response) => {
    requests += 1;
    response.end('ok');
  });
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  ({ port } = server.address() as AddressInfo);
});

/** What was told of a call to this host, and how the call ended. */
async function call(host: string, refuse?: string) {
  const told: Parameters<BeforeConnect>[] = [];
  const connect = toldConnector({}, (name, addresses) => {
    told.push([name, addresses]);
    if (refuse !== undefined) throw new Error(refuse);
  });
  const dispatcher = new Agent({ connect });
  try {
    const { statusCode } = await request(`http://${host}:${port}/`, { dispatcher });
    return { told, outcome: statusCode };
  } catch (error) {
    return { told, outcome: (error as Error).message };
  } finally {
    await dispatcher.destroy();
  }
}

describe('who is told of a connection', () => {
  test('hears the host and its addresses before it is made', async () => {
    const { told, outcome } = await call('localhost');
    expect(outcome).toBe(200);
    expect(told.map(([host]) => host)).toEqual(['localhost']);
    expect(told[0]?.[1]).toContain('127.0.0.1');
  });

  test('hears of an address too, which is not looked up', async () => {
    expect(await call('127.0.0.1')).toEqual({ told: [['127.0.0.1', ['127.0.0.1']]], outcome: 200 });
  });

  test.each(['localhost', '127.0.0.1'])(
    'ends the call to %s by an error, and nothing is sent',
    async (host) => {
      expect(await call(host, 'not there')).toMatchObject({ outcome: 'not there' });
      expect(requests).toBe(0);
    },
  );
});
