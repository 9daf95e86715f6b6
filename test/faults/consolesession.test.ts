import { PassThrough, type Duplex } from 'node:stream';
import { randomBytes } from 'node:crypto';
import { WebSocket } from 'ws';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { roleBindings, serviceAccounts } from '../../src/api/resources.ts';
import { createTicketSigner } from '../../src/http/auth/tickets.ts';
import { runningVm, startTestApi, type TestApi } from '../support/api.ts';
import { identity, tokenOf } from '../support/identity.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../support/cluster.ts';

let cluster: TestCluster;
let api: TestApi;
let namespace: string;
const signer = createTicketSigner(randomBytes(32));
const poll = { interval: 25 };
const role = 'cluster-admin';
/** The name that chart value api.baseUrl gives the api. */
const apiDomain = 'vms.example.com';

const runner = (): Promise<Duplex> => Promise.resolve(new PassThrough());

beforeAll(async () => {
  cluster = await testCluster();
  namespace = await uniqueNamespace(cluster.client, 'session');
  const parts = { runners: { openVnc: runner, openSerial: runner, openTunnel: runner }, tickets: signer };
  api = await startTestApi(
    cluster.client,
    ({ settings }) => ({ ...parts, settings: { ...settings, apiDomain } }),
    { confirmEveryMs: 100 },
  );
  await runningVm(api, namespace, 'guest');
});

afterAll(() => api?.close());

const consolePath = () => `/api/v1/namespaces/${namespace}/vms/guest/console`;

interface Opened {
  readonly socket: WebSocket;
  /** 101, or what a refusal said. */
  readonly status: number;
  readonly text: string;
  readonly cookie: string | undefined;
  readonly closed: Promise<readonly [number, string]>;
}

function open(path: string, headers: Record<string, string>, to = api): Promise<Opened> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(`wss://localhost:${to.port}${path}`, { ca: to.tls.cert, headers });
    onTestFinished(() => socket.terminate());
    const closed = new Promise<readonly [number, string]>((done) => {
      socket.once('close', (code, reason) => done([code, reason.toString()]));
    });
    let cookie: string | undefined;
    socket.once('upgrade', (response) => (cookie = response.headers['set-cookie']?.[0]));
    socket.once('open', () => resolve({ socket, status: 101, text: '', cookie, closed }));
    socket.once('unexpected-response', (_request, response) => {
      let text = '';
      response.on('data', (chunk: Buffer) => (text += chunk.toString('utf8')));
      response.once('end', () => resolve({ socket, status: response.statusCode ?? 0, text, cookie, closed }));
    });
    socket.once('error', reject);
  });
}

/** With the cookie, as the page of the console does. */
function reopen(cookie: string, to = api): Promise<Opened> {
  const origin = `https://localhost:${to.port}`;
  return open(`${consolePath()}/stream`, { cookie: cookie.split(';', 1)[0] ?? '', origin }, to);
}

async function withTicket(token: string): Promise<Opened> {
  let ticket = '';
  const asked = async () => {
    const { status, json } = await api.call('POST', consolePath(), { token });
    if (status === 200) ({ ticket } = json as { ticket: string });
    return status;
  };
  await expect.poll(asked, poll).toBe(200);
  return open(`${consolePath()}/stream?ticket=${ticket}`, {});
}

function claimsOf(cookie = ''): { exp: number; user: { uid: string } } {
  return signer.verify(/^[^=]+=([^;]+)/.exec(cookie)?.[1] ?? '') as never;
}

test('the session of a console ends with the token that opened it, however often the page comes back', async () => {
  const before = Math.floor(Date.now() / 1000);
  const token = await identity(cluster.client, 'hourly', { namespace, role });
  const first = await withTicket(token);
  expect(first.status).toBe(101);
  const { exp, user } = claimsOf(first.cookie);
  // `tokenOf` asks for an hour.
  expect(exp).toBeGreaterThanOrEqual(before + 3590);
  expect(exp).toBeLessThanOrEqual(Math.floor(Date.now() / 1000) + 3600);
  expect(Number(/Max-Age=(\d+)/.exec(first.cookie ?? '')?.[1])).toBeLessThanOrEqual(3600);
  const account = await cluster.client.get(serviceAccounts, 'hourly', namespace);
  expect(user.uid).toBe(account.metadata.uid);

  const again = await reopen(first.cookie ?? '');
  expect(again.status).toBe(101);
  // No cookie that lasts longer than the one it came with.
  expect(again.cookie).toBeUndefined();

  const over = signer.sign({ ...claimsOf(first.cookie), exp: Math.floor(Date.now() / 1000) - 1 });
  expect((await reopen(`__Secure-svc3-console=${over}`)).status).toBe(401);
});

test('the page comes back behind a proxy that writes another Host, from the name of the api only', async () => {
  const token = await identity(cluster.client, 'proxied', { namespace, role });
  const { cookie = '' } = await withTicket(token);
  const come = (origin: string) =>
    open(`${consolePath()}/stream`, {
      cookie: cookie.split(';', 1)[0] ?? '',
      origin,
      host: 'svc3-api.svc3-system.svc',
    });
  expect((await come(`https://${apiDomain}`)).status).toBe(101);
  expect((await come('https://evil.example.com')).status).toBe(401);
});

test('an open console ends when the session does', async () => {
  const token = await identity(cluster.client, 'short', { namespace, role });
  const { cookie } = await withTicket(token);
  // The console has to be open by then, on a loaded machine too.
  const until = Math.floor(Date.now() / 1000) + 10;
  const soonOver = signer.sign({ ...claimsOf(cookie), exp: until, until });
  const { status, closed } = await reopen(`__Secure-svc3-console=${soonOver}`);
  expect(status).toBe(101);
  expect(await closed).toEqual([1008, 'Unauthorized: the session has ended with the token that opened it']);
  expect(Date.now() / 1000).toBeGreaterThanOrEqual(until);
});

test('a deleted account loses its open console and its cookie', async () => {
  const token = await identity(cluster.client, 'leaver', { namespace, role });
  const { cookie = '', closed } = await withTicket(token);
  const back = await reopen(cookie);
  expect(back.status).toBe(101);
  await cluster.client.delete(serviceAccounts, { name: 'leaver', namespace });
  const gone = [1008, 'Unauthorized: the account was deleted'];
  expect([await closed, await back.closed]).toEqual([gone, gone]);
  const refused = await reopen(cookie);
  expect([refused.status, refused.text]).toEqual([401, expect.stringContaining('the account was deleted')]);

  // Not the account that opened it, though its name is the same.
  await cluster.client.create(serviceAccounts, { metadata: { name: 'leaver', namespace } });
  const renewed = await tokenOf(cluster.client, namespace, 'leaver');
  expect((await withTicket(renewed)).status).toBe(101);
  expect((await reopen(cookie)).status).toBe(401);
});

test('an account that was deleted while no replica watched has no session any more', async () => {
  const token = await identity(cluster.client, 'unwatched', { namespace, role });
  const { cookie = '' } = await withTicket(token);
  await cluster.client.delete(serviceAccounts, { name: 'unwatched', namespace });
  const parts = { runners: { openVnc: runner, openSerial: runner, openTunnel: runner }, tickets: signer };
  const next = await startTestApi(cluster.client, parts);
  onTestFinished(() => next.close());
  expect((await reopen(cookie, next)).status).toBe(401);
});

test.each([
  ['by a ticket', (token: string) => withTicket(token)],
  ['by a token', (token: string) => open(`${consolePath()}/stream`, { authorization: `Bearer ${token}` })],
])('an open console that was opened %s ends when the right to it does', async (_, opened) => {
  const name = `demoted-${_.length}`;
  const token = await identity(cluster.client, name, { namespace, role });
  await expect.poll(async () => (await api.call('POST', consolePath(), { token })).status, poll).toBe(200);
  const { status, closed } = await opened(token);
  expect(status).toBe(101);
  await cluster.client.delete(roleBindings, { name: `${namespace}-${name}`, namespace });
  expect(await closed).toEqual([1008, expect.stringContaining('is forbidden')]);
});
