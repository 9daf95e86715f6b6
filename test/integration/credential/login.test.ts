import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { verifyLogin } from '../../../src/controllers/credential/login.ts';
import { startRegistry, type TestRegistry } from '../../support/registry.ts';

describe.each([
  { title: 'basic authentication on plain HTTP', options: { auth: 'basic' } },
  { title: 'basic authentication on self-signed TLS', options: { auth: 'basic', tls: true } },
  { title: 'a token service', options: { auth: 'token' } },
] as const)('a registry with $title', ({ options }) => {
  let registry: TestRegistry;

  beforeAll(async () => {
    registry = await startRegistry(options);
  });
  afterAll(() => registry?.stop());

  const login = (password: string) =>
    verifyLogin({
      server: `${registry.scheme}://${registry.address}`,
      allowInsecure: true,
      username: registry.username,
      password,
    });

  test('accepts the right password', async () => {
    expect(await login(registry.password)).toEqual({
      outcome: 'Accepted',
      message: `registry ${registry.address} accepted the credential`,
    });
  });

  test('refuses a wrong one', async () => {
    const { outcome, message } = await login('wrong-canary');
    expect(outcome).toBe('Refused');
    expect(message).toContain(`registry ${registry.address} refused the login`);
    expect(message).not.toContain('canary');
  });
});

test('a registry whose certificate is not trusted is not reached without allowInsecure', async () => {
  const registry = await startRegistry({ auth: 'basic', tls: true });
  try {
    const { address, username, password } = registry;
    const request = { server: `https://${address}`, username, password };
    const { outcome, message } = await verifyLogin({ ...request, allowInsecure: false });
    expect(outcome).toBe('Unreachable');
    expect(message).toMatch(/certificate/);
  } finally {
    await registry.stop();
  }
});

test('a registry that is not there is unreachable, not refused', async () => {
  const result = await verifyLogin({
    server: 'http://127.0.0.1:9',
    allowInsecure: true,
    username: 'alice',
    password: 'canary',
  });
  expect(result.outcome).toBe('Unreachable');
  expect(result.message).not.toContain('canary');
});

/** It cannot show how real registries accept and refuse; the first tests of this file do. */
describe('a registry that answers with everything it got', () => {
  const [username, password] = ['alice', 'canary/"p4ss wörd"'];
  let server: Server;
  let status = 401;
  let asked = 0;

  beforeAll(async () => {
    server = createServer((request, response) => {
      asked += 1;
      const { authorization } = request.headers;
      const decoded = Buffer.from(authorization?.split(' ')[1] ?? '', 'base64').toString('utf8');
      const message = `${authorization} is ${decoded}, ${encodeURIComponent(decoded)}`;
      response.writeHead(authorization === undefined ? 401 : status, {
        'www-authenticate': `Basic realm="${encodeURIComponent(decoded)}"`,
        location: `/v2/?${encodeURIComponent(decoded)}`,
      });
      response.end(JSON.stringify({ errors: [{ code: 'DENIED', message }] }));
    });
    await new Promise<void>((resolve) => {
      server.listen(0, '127.0.0.1', resolve);
    });
  });
  afterAll(() => {
    server.close();
  });

  test.each([
    [401, 'Refused'],
    [403, 'Refused'],
    [404, 'Unreachable'],
    [500, 'Unreachable'],
    [307, 'Unreachable'],
  ])('and status %i is %s, and nothing of the credential comes out', async (code, outcome) => {
    status = code;
    asked = 0;
    const { port } = server.address() as AddressInfo;
    const request = { server: `http://127.0.0.1:${port}`, allowInsecure: true, username, password };
    const result = await verifyLogin(request);
    expect(result.outcome).toBe(outcome);
    expect(asked).toBeGreaterThan(1);
    const forms = [
      password,
      Buffer.from(password).toString('base64'),
      encodeURIComponent(password),
      'canary',
    ];
    for (const form of [...forms, Buffer.from(`${username}:${password}`).toString('base64')])
      expect(result.message).not.toContain(form);
  });
});
