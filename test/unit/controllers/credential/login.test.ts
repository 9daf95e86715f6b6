import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { verifyLogin } from '../../../../src/controllers/credential/login.ts';
import { withTooLittleTime } from '../../delays.ts';

const [username, password] = ['alice', 's3cret'];
let address: string;
let asked: (string | undefined)[];
/** What the registry says to a login that it does not take. */
let refusal: number;
/** Whether it asks for a login at all. */
let asks: boolean;
/** What it does instead of all this. */
let answer: ((response: ServerResponse) => unknown) | undefined;

beforeEach(async () => {
  asked = [];
  refusal = 401;
  asks = true;
  answer = undefined;
  const right = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
  const server = createServer((request, response) => {
    const { authorization } = request.headers;
    asked.push(authorization);
    if (answer !== undefined) answer(response);
    else if (authorization === right || !asks) response.end('{}');
    else {
      const status = authorization === undefined ? 401 : refusal;
      response.writeHead(status, { 'www-authenticate': 'Basic realm="x"' }).end(`you sent ${authorization}`);
    }
  });
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
});

const login = (more: Partial<Parameters<typeof verifyLogin>[0]> = {}) =>
  verifyLogin({ server: `http://${address}`, allowInsecure: true, username, password, ...more });

describe('a login', () => {
  test('that the registry takes is accepted', async () => {
    expect(await login()).toEqual({
      outcome: 'Accepted',
      message: `registry ${address} accepted the credential`,
    });
    expect(asked).toHaveLength(2);
  });

  test.each([401, 403])(
    'that the registry answers with %i is refused, and nothing of it is told',
    async (status) => {
      refusal = status;
      const { outcome, message } = await login({ password: 'wrong-one' });
      expect(outcome).toBe('Refused');
      expect(message).toContain(address);
      expect(message).not.toMatch(/wrong-one|d3Jvbmctb25l/);
    },
  );

  test('that nobody asks for is none that was accepted', async () => {
    asks = false;
    expect(await login()).toEqual({
      outcome: 'Unasked',
      message: `registry ${address} asks for no login at /v2/: not verified`,
    });
    expect(asked).toEqual([undefined]);
  });

  test('that nobody answers is none', async () => {
    const { outcome } = await login({ server: 'http://127.0.0.1:9' });
    expect(outcome).toBe('Unreachable');
  });

  test('to a registry that says nothing is told of after ten seconds', async () => {
    const time = new AbortController();
    const timeout = vi.spyOn(AbortSignal, 'timeout').mockReturnValueOnce(time.signal);
    onTestFinished(() => timeout.mockRestore());
    answer = () => time.abort(new DOMException('too late', 'TimeoutError'));
    const message = `registry ${address} did not answer within 10 s`;
    expect(await login()).toEqual({ outcome: 'Unreachable', message });
    expect(timeout).toHaveBeenCalledExactlyOnceWith(10_000);
  });

  test('to a registry that asks to wait longer is told of in its words', async () => {
    const timeout = vi.spyOn(AbortSignal, 'timeout').mockReturnValueOnce(withTooLittleTime());
    onTestFinished(() => timeout.mockRestore());
    answer = (response) => response.writeHead(429, { 'retry-after': '30' }).end();
    const message = `registry ${address} answered 429 and asks to wait 30 s`;
    expect(await login()).toEqual({ outcome: 'Unreachable', message });
  });

  test('that was given up is none', async () => {
    const { outcome } = await login({ signal: AbortSignal.abort() });
    expect(outcome).toBe('Unreachable');
    expect(asked).toEqual([]);
  });

  test('is told of before anybody is contacted, once for each host', async () => {
    const told: string[] = [];
    await login({ contacting: (what) => told.push(what) });
    expect(told).toEqual([`logging in to http://${address}: contacting 127.0.0.1`]);
  });

  test('is told of with the addresses that a name has', async () => {
    const told: string[] = [];
    const server = `http://localhost:${address.split(':')[1]}`;
    await login({ server, contacting: (what) => told.push(what) });
    expect(told[0]).toMatch(
      /^logging in to http:\/\/localhost:\d+: contacting localhost \(.*127\.0\.0\.1.*\)$/,
    );
  });

  test('to an address that is no address of a registry is an error', async () => {
    await expect(login({ server: 'https://' })).rejects.toMatchObject({ reason: 'Invalid' });
  });
});

describe('a login that goes to public registries only', () => {
  test.each([
    ['over plain HTTP', (at: string) => `http://${at}`, 'it is plain HTTP'],
    ['to an address that is not public', (at: string) => `https://${at}`, '127.0.0.1 is no public address'],
    [
      'to a name whose address is not public',
      (at: string) => `https://localhost:${at.split(':')[1]}`,
      /^localhost has .+, which is no public address/,
    ],
  ])('is skipped %s, and nothing is sent', async (_what, serverAt, why) => {
    const { outcome, message } = await login({ server: serverAt(address), onlyPublic: true });
    expect(outcome).toBe('Skipped');
    const told = /^not verified: (.*); --verify logs in all the same$/.exec(message)?.[1];
    if (typeof why === 'string') expect(told).toBe(why);
    else expect(told).toMatch(why);
    expect(asked).toEqual([]);
  });
});
