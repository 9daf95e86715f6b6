import { expect, onTestFinished, test } from 'vitest';
import { Agent, request } from 'undici';
import { createCertificate } from '../../../../src/runner/certificate.ts';
import { createMetricsServer } from '../../../../src/runner/metrics/server.ts';
import { signMetricsToken } from '../../../../src/runnerapi/metricstoken.ts';
import { createControlKey, parseControlKeys } from '../../../../src/runnerapi/token.ts';

const { privateKey, publicKey } = createControlKey();
const keys = () => Promise.resolve(parseControlKeys(publicKey));

async function listening(collect: () => Promise<never[]> = () => Promise.resolve([])) {
  const server = createMetricsServer({
    certificate: createCertificate('vm'),
    keys,
    namespace: 'team',
    collect,
  });
  const port = await server.listen('127.0.0.1', 0);
  onTestFinished(() => server.close());
  return port;
}

/** A client with connections of its own. */
function aClient(port: number) {
  const dispatcher = new Agent({ connect: { rejectUnauthorized: false } });
  onTestFinished(() => dispatcher.destroy());
  return async (path: string, authorization?: string, method: 'GET' | 'POST' = 'GET') => {
    const headers = authorization === undefined ? {} : { authorization };
    const reply = await request(`https://127.0.0.1:${port}${path}`, { dispatcher, headers, method });
    return { status: reply.statusCode, headers: reply.headers, text: await reply.body.text() };
  };
}

const started = async (collect?: () => Promise<never[]>) => aClient(await listening(collect));

const good = `Bearer ${signMetricsToken('team', privateKey)}`;

test.each([
  ['nothing', '/metrics', undefined, 401],
  ['a token of another namespace', '/metrics', `Bearer ${signMetricsToken('other', privateKey)}`, 401],
  ['a password', '/metrics', 'Basic YTpi', 401],
  ['the token and another path', '/v1/state', good, 404],
  ['the token', '/metrics', good, 200],
])('who comes with %s and asks for %s gets its answer', async (_what, path, authorization, status) => {
  const ask = await started();
  expect((await ask(path, authorization)).status).toBe(status);
});

test('writes are refused, and a refusal says nothing of the token', async () => {
  const ask = await started();
  expect((await ask('/metrics', good, 'POST')).status).toBe(404);
  const forged = good.slice(0, -6);
  const { status, text } = await ask('/metrics', forged);
  expect([status, text]).toEqual([401, 'signed by no known key\n']);
});

test('many who ask at once are one question to QEMU and guest', async () => {
  let collected = 0;
  const ask = await started(() => {
    collected += 1;
    return Promise.resolve([]);
  });
  await Promise.all(Array.from({ length: 8 }, () => ask('/metrics', good)));
  expect(collected).toBe(1);
});

test('a connection is kept for the next scrape, longer than Prometheus keeps one, and not for who is refused', async () => {
  const ask = await started();
  const { headers } = await ask('/metrics', good);
  expect(Number(/^timeout=(\d+)$/.exec(String(headers['keep-alive']))?.[1])).toBeGreaterThan(300);
  for (const [path, authorization] of [
    ['/metrics', 'Bearer none'],
    ['/other', good],
  ] as const)
    expect((await ask(path, authorization)).headers).toMatchObject({ connection: 'close' });
});

test('connections that are kept and not used keep nobody out', async () => {
  const port = await listening();
  for (let i = 0; i < 20; i += 1) expect((await aClient(port)('/metrics', good)).status).toBe(200);
});
