import { once } from 'node:events';
import { createServer, type RequestListener, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { openIssuer, type Issuer } from '../../../src/cli/oidc/issuer.ts';
import { deviceLogin } from '../../../src/cli/oidc/login.ts';

/** An HTTP server that does what no honest issuer does, and a client of it. */
async function aServer(
  listener: RequestListener,
  timeoutMs?: number,
): Promise<{ url: string; issuer: Issuer }> {
  const server = createServer(listener);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const issuer = await openIssuer(undefined, timeoutMs);
  onTestFinished(async () => {
    await issuer.close();
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, issuer };
}

const secret = { refresh_token: 'canary' };

test('a reply without end is given up', async () => {
  const { url, issuer } = await aServer((_, response) => {
    const more = () => {
      while (!response.destroyed && response.write('x'.repeat(65_536)));
    };
    response.on('drain', more);
    more();
  });
  await expect(issuer.post(url, secret)).rejects.toMatchObject({
    reason: 'BadGateway',
    message: expect.stringMatching(/sent more than 262144 bytes$/),
  });
});

test.each([
  ['no reply', () => {}],
  ['half a reply', (response: ServerResponse) => response.write('{')],
])('%s is given up', async (_, answer) => {
  const { url, issuer } = await aServer((_, response) => void answer(response), 200);
  const refusal = await issuer.post(url, secret).catch((error: unknown) => error);
  expect(refusal).toMatchObject({ reason: 'ServiceUnavailable' });
  expect(String(refusal)).not.toContain('canary');
});

test('a redirection is not followed: what was sent is secret', async () => {
  const paths: (string | undefined)[] = [];
  const { url, issuer } = await aServer((request, response) => {
    paths.push(request.url);
    response.writeHead(307, { location: '/elsewhere' }).end();
  });
  expect(await issuer.post(`${url}/token`, secret)).toEqual({ status: 307, value: undefined });
  expect(paths).toEqual(['/token']);
});

test.each(['', '<html>', '['.repeat(100_000)])('what is no JSON is nothing: %#', async (text) => {
  const { url, issuer } = await aServer((_, response) => response.end(text));
  expect(await issuer.get(url)).toEqual({ status: 200, value: undefined });
});

test('a certificate authority that is not there is named', async () => {
  await expect(openIssuer('/nonexistent.pem')).rejects.toThrow(
    '--oidc-ca-file /nonexistent.pem cannot be read',
  );
});

test('a device login goes through slow_down, an outage and what quotes its secrets', async () => {
  const answers = ['slow_down', 'cut', 'authorization_pending', 'access_denied'];
  const { url, issuer } = await aServer((request, response) => {
    const base = `http://${request.headers.host}`;
    const documents: Record<string, object> = {
      '/.well-known/openid-configuration': {
        issuer: base,
        token_endpoint: `${base}/token`,
        device_authorization_endpoint: `${base}/device`,
      },
      '/device': { device_code: 'canary', user_code: 'A', verification_uri: base, interval: 5 },
    };
    const document = documents[request.url ?? ''];
    const error = document === undefined ? answers.shift() : undefined;
    if (error === 'cut') request.socket.destroy();
    else if (document !== undefined) response.end(JSON.stringify(document));
    else response.writeHead(400).end(JSON.stringify({ error, error_description: 'canary is refused' }));
  });
  const sleeps: number[] = [];
  const login = deviceLogin({
    issuer,
    client: { issuerUrl: url, clientId: 'svc3' },
    signal: new AbortController().signal,
    show: () => {},
    now: () => new Date(0),
    sleep: (ms) => Promise.resolve(void sleeps.push(ms)),
  });
  await expect(login).rejects.toMatchObject({
    reason: 'Forbidden',
    message: 'the login was refused in the browser; nothing was saved',
  });
  expect(sleeps).toEqual([5000, 10_000, 20_000, 20_000]);
});
