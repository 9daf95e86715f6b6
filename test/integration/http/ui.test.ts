import { randomBytes } from 'node:crypto';
import { request } from 'node:https';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { events, namespaces, serviceAccounts, vms } from '../../../src/api/resources.ts';
import { isSvc3Error } from '../../../src/errors.ts';
import { createSealer } from '../../../src/http/auth/seals.ts';
import { runningVm, startTestApi, type Answer, type TestApi } from '../../support/api.ts';
import { identity } from '../../support/identity.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../../support/cluster.ts';

let cluster: TestCluster;
/** Two replicas of one installation. */
let api: TestApi;
let other: TestApi;
let namespace: string;

beforeAll(async () => {
  cluster = await testCluster();
  namespace = await uniqueNamespace(cluster.client, 'page');
  // Where the codes are taken.
  await cluster.client.create(namespaces, { metadata: { name: 'svc3-system' } }).catch((error: unknown) => {
    if (!isSvc3Error(error, 'AlreadyExists')) throw error;
  });
  const seals = createSealer(randomBytes(32));
  [api, other] = await Promise.all([
    startTestApi(cluster.client, { seals }, { confirmEveryMs: 100 }),
    startTestApi(cluster.client, { seals }),
  ]);
});

afterAll(async () => {
  await Promise.all([api?.close(), other?.close()]);
});

const ofThePage = (of = api) => ({ origin: of.baseUrl, 'sec-fetch-site': 'same-origin' });
const cookieIn = ({ headers }: Answer) => String(headers['set-cookie']).split(';', 1)[0]!;
const signIn = (body: object, of = api) => of.call('POST', '/ui/session', { body, headers: ofThePage(of) });
const read = (path: string, cookie: string, of = api) =>
  of.call('GET', path, { headers: { ...ofThePage(of), cookie } });
const list = () => `/ui/api/v1/namespaces/${namespace}/vms`;

describe('a session', () => {
  test('begins with a token, holds on every replica, and shows the token to nobody', async () => {
    const token = await identity(cluster.client, 'ann', { namespace, role: 'view' });
    const answer = await signIn({ token });
    expect([answer.status, answer.json.user]).toEqual([200, `system:serviceaccount:${namespace}:ann`]);
    expect(answer.json.expirationTimestamp).toMatch(/^\d{4}-/);
    expect(answer.text + String(answer.headers['set-cookie'])).not.toContain(token);
    expect(String(answer.headers['set-cookie'])).toMatch(
      /; Path=\/ui; .*; Secure; HttpOnly; SameSite=Strict$/,
    );
    for (const replica of [api, other])
      expect((await read('/ui/session', cookieIn(answer), replica)).json).toEqual(answer.json);
    expect(api.log.lines.join('\n')).not.toContain(token);
  });

  test.each([
    ['a token that nobody gave', { token: 'nonsense' }, 401],
    ['a token that is none', { token: 'a b' }, 401],
    ['a code that is none', { code: 'bm9uc2Vuc2U' }, 401],
    ['nothing', {}, 422],
  ])('does not begin with %s', async (_, body, status) => {
    const answer = await signIn(body);
    expect([answer.status, answer.headers['set-cookie']]).toEqual([status, undefined]);
  });

  test('does not begin, end, write or read for another site', async () => {
    const cookie = cookieIn(await signIn({ token: cluster.adminToken }));
    const headers = { origin: 'https://evil.example.com', 'sec-fetch-site': 'cross-site', cookie };
    const body = { token: cluster.adminToken };
    const answers = await Promise.all([
      api.call('POST', '/ui/session', { body, headers }),
      api.call('DELETE', '/ui/session', { headers }),
      api.call('POST', list(), { body: {}, headers }),
      api.call('GET', list(), { headers }),
      api.call('GET', list(), { headers: { cookie } }),
      api.call('DELETE', `${list()}/any`, { headers: { cookie, 'sec-fetch-site': 'same-origin' } }),
    ]);
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 403));
  });

  test('is over with its account', async () => {
    const token = await identity(cluster.client, 'gone', { namespace, role: 'view' });
    const cookie = cookieIn(await signIn({ token }));
    expect((await read('/ui/session', cookie)).status).toBe(200);
    await cluster.client.delete(serviceAccounts, { name: 'gone', namespace });
    await expect.poll(async () => (await read('/ui/session', cookie)).status).toBe(401);
  });

  test('is forgotten by who signs out', async () => {
    const answer = await api.call('DELETE', '/ui/session', { headers: ofThePage() });
    expect([answer.status, String(answer.headers['set-cookie'])]).toEqual([
      200,
      expect.stringMatching(/^__Secure-svc3-ui-\w{8}=; Path=\/ui; Max-Age=0; /),
    ]);
  });
});

test('the page takes nothing from elsewhere, and is in no other page', async () => {
  const policy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'";
  for (const path of ['/ui', '/ui/files/page.js', '/ui/files/page.css']) {
    const { status, headers } = await api.call('GET', path);
    expect([path, status, headers['content-security-policy']]).toEqual([path, 200, policy]);
  }
});

describe('a code of svc3 ui', () => {
  const codeFor = async (token: string) => (await api.call('POST', '/ui/code', { token, body: {} })).json;

  test('signs in once, whichever replica it is brought to', async () => {
    const { code, page } = await codeFor(cluster.adminToken);
    expect(page).toBe(`/ui#code=${code}`);
    const answers = await Promise.all([signIn({ code }), signIn({ code }, other), signIn({ code })]);
    expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 401, 401]);
    expect(answers.find(({ status }) => status === 401)?.json.message).toContain('has been used');
    const { items } = await cluster.client.list(events, { namespace: 'svc3-system' });
    expect(JSON.stringify(items)).not.toContain(code);
  });

  test('makes nobody another user unasked, as by a link that somebody else has sent', async () => {
    const [ann, ben] = await Promise.all(
      ['annie', 'benny'].map((name) => identity(cluster.client, name, { namespace })),
    );
    const cookie = cookieIn(await signIn({ token: ann }));
    const bring = (body: object) =>
      api.call('POST', '/ui/session', { body, headers: { ...ofThePage(), cookie } });
    const { code } = await codeFor(ben!);
    const answer = await bring({ code });
    expect([answer.status, answer.headers['set-cookie']]).toEqual([409, undefined]);
    expect(answer.json.message).toBe(
      `this browser is signed in as system:serviceaccount:${namespace}:annie, and the code is one of system:serviceaccount:${namespace}:benny`,
    );
    expect((await bring({ code: (await codeFor(ann!)).code })).status).toBe(200);
    const changed = await bring({ code, changesUser: true });
    expect([changed.status, changed.json.user]).toEqual([200, `system:serviceaccount:${namespace}:benny`]);
  });

  test('is given for a token that is good only', async () => {
    const statuses = [undefined, 'nonsense'].map(
      async (token) => (await api.call('POST', '/ui/code', { token, body: {} })).status,
    );
    expect(await Promise.all(statuses)).toEqual([401, 401]);
  });
});

describe('what the page is told', () => {
  test('are the namespaces and the rights of who is signed in', async () => {
    await cluster.client.create(vms, {
      metadata: { name: 'there', namespace },
      spec: { image: 'debian', powerState: 'Stopped' },
    });
    await api.services.caches.vms.changes.until(
      { name: 'there', namespace },
      (vm) => vm !== undefined,
      AbortSignal.timeout(60_000),
    );
    const viewer = cookieIn(await signIn({ token: await identity(cluster.client, 'viewer', { namespace }) }));
    expect((await read('/ui/namespaces', viewer)).json).toEqual({ items: [], all: false });
    expect((await read(`/ui/rights?namespace=${namespace}`, viewer)).json).toEqual({ routes: [] });
    const admin = cookieIn(await signIn({ token: cluster.adminToken }));
    const all = (await read('/ui/namespaces', admin)).json as { items: string[]; all: boolean };
    expect([all.all, all.items.includes(namespace)]).toEqual([true, true]);
    const { routes } = (await read(`/ui/rights?namespace=${namespace}`, admin)).json as { routes: string[] };
    expect(routes).toEqual(expect.arrayContaining(['deployVm', 'execVm', 'addRegistryCredential']));
    expect(routes).not.toContain('createServiceAccountToken');
  });

  test('is what hands out no token', async () => {
    const cookie = cookieIn(await signIn({ token: cluster.adminToken }));
    const headers = { ...ofThePage(), cookie };
    const paths = [`namespaces/${namespace}/serviceaccounts/default/token`, 'upload/cert'];
    for (const path of paths)
      expect((await api.call('POST', `/ui/api/v1/${path}`, { headers, body: {} })).status).toBe(404);
  });

  test('comes as it happens, until the right is lost', async () => {
    const token = await identity(cluster.client, 'watcher', { namespace, clusterRole: 'cluster-admin' });
    const cookie = cookieIn(await signIn({ token }));
    const stream = openStream(`/ui/live?namespace=${namespace}`, cookie);
    await expect.poll(() => stream.text()).toMatch(/event: snapshot\ndata: \{"vms":\[/);
    await runningVm(api, namespace, 'new');
    await expect.poll(() => stream.text()).toMatch(/event: change\ndata: .*"name":"new".*"status":"Running"/);
    await cluster.client.delete(vms, { name: 'new', namespace });
    await expect.poll(() => stream.text()).toContain(`"gone":["${namespace}/new"]`);
    await cluster.client.delete(serviceAccounts, { name: 'watcher', namespace });
    await expect.poll(() => stream.text()).toMatch(/event: over\ndata: .*the account was deleted/);
    await expect.poll(() => stream.isOver()).toBe(true);
  });

  test('comes also to who sends a body along, of which nothing is held', async () => {
    const cookie = cookieIn(await signIn({ token: cluster.adminToken }));
    const session = api.http2();
    onTestFinished(() => session.destroy());
    const path = `/ui/live?namespace=${namespace}`;
    const stream = session.request({ ...ofThePage(), ':path': path, cookie }, { endStream: false });
    let text = '';
    stream.setEncoding('utf8').on('data', (part: string) => (text += part));
    let isSent = false;
    // More than may be on its way to somebody who does not read it.
    stream.write(Buffer.alloc(300_000), () => (isSent = true));
    await expect.poll(() => text).toContain('event: snapshot');
    await expect.poll(() => isSent).toBe(true);
  });

  test('is nothing for who may list nothing, and ends when the server drains', async () => {
    const token = await identity(cluster.client, 'nobody', { namespace });
    const draining = await startTestApi(cluster.client);
    const cookie = cookieIn(await signIn({ token }, draining));
    const stream = openStream('/ui/live', cookie, draining);
    await expect.poll(() => stream.text()).toBe('event: snapshot\ndata: {}\n\n');
    await draining.close(20_000);
    expect(stream.isOver()).toBe(true);
  });
});

function openStream(path: string, cookie: string, of = api) {
  let text = '';
  let isOver = false;
  const headers = { ...ofThePage(of), cookie };
  const asked = request(`${of.baseUrl}${path}`, { ca: of.tls.cert, headers }, (reply) => {
    reply.setEncoding('utf8');
    reply.on('data', (part: string) => (text += part));
    reply.once('close', () => (isOver = true));
  });
  asked.end();
  return { text: () => text, isOver: () => isOver };
}
