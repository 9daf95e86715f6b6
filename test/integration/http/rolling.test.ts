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

  async function work(): Promise<void> {
    while (!stop.signal.aborted) {
      const api = current;
      const client = createClient(api);
      for (let index = 0; index < 20; index += 1) {
        const isWrite = index % 4 === 3;
        const name = `c${(number += 1)}`;
        try {
          const body = { name, image: 'registry.example.com/team/debian:12' };
          const { status, leaves } = isWrite ? await client.send('POST', body) : await client.send('GET');
          outcomes.push(`${isWrite ? 'POST' : 'GET'} ${status}`);
          if (isWrite) written.push(name);
          if (leaves) break;
        } catch (error) {
          // With another connection it is asked again; a write is looked for first, as careful clients do.
          if (!wasNotAnswered(error)) outcomes.push(String(error));
          break;
        }
      }
      await client.close();
    }
  }

  const load = Promise.all(Array.from({ length: 6 }, work));
  for (let round = 0; round < 3; round += 1) {
    const old = current;
    current = await startTestApi(cluster.client);
    const before = outcomes.length;
    await expect.poll(() => outcomes.length, { timeout: 30_000 }).toBeGreaterThan(before + 20);
    await old.close(20_000, 1_000);
  }
  stop.abort();
  await load;
  await current.close();
  expect(new Set(outcomes)).toEqual(new Set(['GET 200', 'POST 201']));
  const names = (await cluster.client.list(vmConfigs, { namespace })).items.map(
    ({ metadata }) => metadata.name,
  );
  // What was answered is there; what was not answered is there once or not at all.
  expect(names).toEqual(expect.arrayContaining(written));
});
