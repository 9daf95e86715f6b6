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

test('a rolling restart under load over HTTP/1.1 loses no read and does no write twice', async () => {
  let current = await startTestApi(cluster.client);
  const stop = new AbortController();
  const outcomes: string[] = [];
  const written: string[] = [];
  let number = 0;

  /** How often a call found its connection gone. */
  let unanswered = 0;

  /** Asks, and once more over a new connection where the first was gone before the answer, as careful clients do. */
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
    }
    unanswered += 1;
    const other = createClient(current);
    const { status } = await other.send(method, body).finally(() => void other.close());
    // The write whose answer did not come was done (409) or not.
    outcomes.push(`${method} ${status === 409 ? 201 : status}`);
    return false;
  }

  async function work(): Promise<void> {
    while (!stop.signal.aborted) {
      const client = createClient(current);
      for (let index = 0; index < 20; index += 1) {
        const method = index % 4 === 3 ? 'POST' : 'GET';
        const name = `c${(number += 1)}`;
        const goesOn = await ask(client, method, name).catch((error: unknown) => {
          outcomes.push(`${method} ${String(error)}`);
          return false;
        });
        if (method === 'POST') written.push(name);
        if (!goesOn) break;
      }
      await client.close();
    }
  }

  const load = Promise.all(Array.from({ length: 6 }, work));
  for (let round = 0; round < 3; round += 1) {
    const old = current;
    current = await startTestApi(cluster.client);
    const before = outcomes.length;
    await expect.poll(() => outcomes.length).toBeGreaterThan(before + 20);
    await old.close(20_000, 1_000);
  }
  stop.abort();
  await load;
  await current.close();
  expect(new Set(outcomes)).toEqual(new Set(['GET 200', 'POST 201']));
  // No more than a call of each client at each restart.
  expect(unanswered).toBeLessThanOrEqual(3 * 6);
  const { items } = await cluster.client.list(vmConfigs, { namespace });
  expect(new Set(items.map(({ metadata }) => metadata.name))).toEqual(new Set(written));
  // Nothing was written over.
  expect(items.filter(({ metadata }) => metadata.generation !== 1)).toEqual([]);
});
