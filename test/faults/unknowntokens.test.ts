import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect, type ClientHttp2Session } from 'node:http2';
import { connect as connectTcp } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import { createClient } from '../../src/kube/client.ts';
import { startTestApi, type TestApi, untilAllowed } from '../support/api.ts';
import { identity } from '../support/identity.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../support/cluster.ts';

let cluster: TestCluster;
let namespace: string;
const poll = { interval: 25 };
const unknownTokens = 300;

beforeAll(async () => {
  cluster = await testCluster();
  namespace = await uniqueNamespace(cluster.client, 'tokens');
});

/** One that has met nobody yet. */
async function freshApi(): Promise<TestApi> {
  const client = createClient(cluster.connection);
  const api = await startTestApi(client);
  onTestFinished(async () => {
    await api.close();
    await client.close();
  });
  return api;
}

function session(api: TestApi, from = '127.0.0.1'): ClientHttp2Session {
  const opened = connect(`https://localhost:${api.port}`, {
    createConnection: () =>
      connectTls({
        socket: connectTcp({ host: '127.0.0.1', port: api.port, localAddress: from }),
        servername: 'localhost',
        ca: api.tls.cert,
        ALPNProtocols: ['h2'],
      }),
  });
  onTestFinished(() => opened.destroy());
  return opened;
}

interface Refusal {
  readonly retryAfter: unknown;
  readonly body: unknown;
}

/** The status; what a 429 says goes to `refusals`. */
async function list(http2: ClientHttp2Session, token: string, refusals: Refusal[] = []): Promise<number> {
  const stream = http2.request({
    ':path': `/api/v1/namespaces/${namespace}/vms`,
    authorization: `Bearer ${token}`,
  });
  const [headers] = (await once(stream, 'response')) as [Record<string, unknown>];
  let text = '';
  for await (const chunk of stream) text += String(chunk);
  const status = Number(headers[':status']);
  if (status === 429) refusals.push({ retryAfter: headers['retry-after'], body: JSON.parse(text) });
  return status;
}

/** All of them are on their way when this returns. */
async function sendUnknown(
  api: TestApi,
): Promise<{ readonly answers: number[]; readonly refusals: Refusal[]; readonly done: Promise<unknown> }> {
  const answers: number[] = [];
  const refusals: Refusal[] = [];
  // A session takes no more than 250 requests at the same time.
  const sessions = [session(api), session(api)];
  await Promise.all(sessions.map((each) => once(each, 'connect')));
  const done = Promise.all(
    Array.from({ length: unknownTokens }, async (_, index) => {
      answers.push(await list(sessions[index % 2]!, randomBytes(24).toString('hex'), refusals));
    }),
  );
  // The first refusal: they are being worked through.
  await expect.poll(() => answers.length, { interval: 1 }).toBeGreaterThan(0);
  return { answers, refusals, done };
}

const asked = (answers: readonly number[]) => answers.filter((status) => status === 401).length;

test('300 random tokens delay nobody from the same address whose account exists', async () => {
  const token = await identity(cluster.client, 'newcaller', { namespace, role: 'cluster-admin' });
  await untilAllowed(cluster.client, token, namespace);
  const api = await freshApi();
  const own = session(api);
  await once(own, 'connect');
  const { answers, done } = await sendUnknown(api);
  const before = asked(answers);
  expect(await list(own, token)).toBe(200);
  // It has not waited behind all who waited when it came.
  expect(asked(answers) - before).toBeLessThan(32);
  await done;
  // Beyond what may wait nobody is asked about.
  expect(asked(answers)).toBeLessThan(unknownTokens / 2);
  expect(new Set(answers)).toEqual(new Set([401, 429]));
});

test('300 random tokens delay nobody from another address, whatever token that is', async () => {
  const api = await freshApi();
  const own = session(api, '127.0.0.2');
  await once(own, 'connect');
  const { answers, done } = await sendUnknown(api);
  const before = asked(answers);
  expect(await list(own, cluster.adminToken)).toBe(200);
  expect(asked(answers) - before).toBeLessThan(32);
  await done;
});

test('a refusal says when to come again, and a refused token is not asked about twice', async () => {
  const api = await freshApi();
  const { refusals, done } = await sendUnknown(api);
  await done;
  expect(refusals[0]).toMatchObject({
    retryAfter: '1',
    body: {
      kind: 'Status',
      reason: 'TooManyRequests',
      message: expect.stringContaining('from one address'),
    },
  });
  const token = randomBytes(24).toString('hex');
  const path = `/api/v1/namespaces/${namespace}/vms`;
  await expect.poll(async () => (await api.call('GET', path, { token })).status, poll).toBe(401);
  const same = await Promise.all(Array.from({ length: 100 }, () => api.call('GET', path, { token })));
  expect(new Set(same.map(({ status }) => status))).toEqual(new Set([401]));
});
