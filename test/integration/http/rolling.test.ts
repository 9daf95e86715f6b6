import { Agent, request } from 'undici';
import { beforeAll, expect, test } from 'vitest';
import { vmConfigs } from '../../../src/api/resources.ts';
import { startTestApi, type TestApi } from '../../support/api.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../../support/cluster.ts';

let cluster: TestCluster;
let namespace: string;

beforeAll(async () => {
  cluster = await testCluster();
  namespace = await uniqueNamespace(cluster.client, 'rolling');
});

const path = () => `/api/v1/namespaces/${namespace}/vmconfigs`;

/** A client with one kept connection, as those of CI systems are. */
function createClient(api: TestApi) {
  const agent = new Agent({ connect: { ca: api.tls.cert }, allowH2: false, connections: 1, pipelining: 1 });
  const send = async (method: 'GET' | 'POST', body?: object) => {
    const {
      statusCode,
      headers,
      body: reply,
    } = await request(`${api.baseUrl}${path()}`, {
      method,
      dispatcher: agent,
      headers: { authorization: `Bearer ${cluster.adminToken}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    await reply.dump();
    return { status: statusCode, leaves: headers['connection'] === 'close' };
  };
  return { send, close: () => agent.close() };
}

/** That the connection was gone before anything of an answer came: clients may then ask once more (RFC 9110, 9.2.2). */
function wasNotAnswered(error: unknown): boolean {
  const code = (error as { code?: string }).code ?? '';
  return ['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET', 'ECONNREFUSED'].includes(code);
}

/** How long a server that leaves serves on, in milliseconds: long enough for every client to hear of it. */
const leaveMs = 10_000;
const clients = 6;

test('a rolling restart under load over HTTP/1.1 loses no read and does no write twice', async () => {
  let current = await startTestApi(cluster.client);
  const stop = new AbortController();
  const outcomes: string[] = [];
  const written: string[] = [];
  /** Calls whose connection was gone before an answer came. */
  const lost: string[] = [];
  /** The server that has answered each client last. */
  const used = new Map<number, TestApi>();
  let number = 0;

  /** Asks. A write whose answer did not come is asked for once more over a new connection, as careful clients do, a read is not. */
  async function ask(
    client: ReturnType<typeof createClient>,
    method: 'GET' | 'POST',
    name: string,
  ): Promise<boolean> {
    const body = method === 'GET' ? undefined : { name, image: 'registry.example.com/team/debian:12' };
    try {
      const { status, leaves } = await client.send(method, body);
      outcomes.push(`${method} ${status}`);
      return !leaves;
    } catch (error) {
      if (!wasNotAnswered(error)) throw error;
      lost.push(`${method} ${String(error)}`);
    }
    if (method === 'GET') return false;
    const other = createClient(current);
    const { status } = await other.send(method, body).finally(() => void other.close());
    // The write whose answer did not come was done (409) or not.
    outcomes.push(`${method} ${status === 409 ? 201 : status}`);
    return false;
  }

  /** Keeps its connection until a reply says that it shall leave. */
  async function work(id: number): Promise<void> {
    for (let index = 0; !stop.signal.aborted;) {
      const server = current;
      const client = createClient(server);
      for (let goesOn = true; goesOn && !stop.signal.aborted; index += 1) {
        const method = index % 4 === 3 ? 'POST' : 'GET';
        const name = `c${(number += 1)}`;
        goesOn = await ask(client, method, name).catch((error: unknown) => {
          outcomes.push(`${method} ${String(error)}`);
          return false;
        });
        if (method === 'POST') written.push(name);
        used.set(id, server);
      }
      await client.close();
    }
  }

  const load = Promise.all(Array.from({ length: clients }, (_, id) => work(id)));
  for (let round = 0; round < 3; round += 1) {
    const old = current;
    await expect
      .poll(() => used.size === clients && [...used.values()].every((api) => api === old))
      .toBe(true);
    current = await startTestApi(cluster.client);
    const closing = old.close(20_000, leaveMs);
    await expect.poll(() => [...used.values()].filter((api) => api === old)).toEqual([]);
    // Nobody can lose anything any more.
    expect(old.api.http.drain.aborted).toBe(false);
    await closing;
  }
  stop.abort();
  await load;
  await current.close();
  expect(lost.filter((call) => call.startsWith('GET'))).toEqual([]);
  expect(new Set(outcomes)).toEqual(new Set(['GET 200', 'POST 201']));
  const { items } = await cluster.client.list(vmConfigs, { namespace });
  expect(new Set(items.map(({ metadata }) => metadata.name))).toEqual(new Set(written));
  // Nothing was written over.
  expect(items.filter(({ metadata }) => metadata.generation !== 1)).toEqual([]);
});
