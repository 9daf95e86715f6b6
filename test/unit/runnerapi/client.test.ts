import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { finished } from 'node:stream/promises';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { WebSocket } from 'ws';
import type { ClaimRequest } from '../../../src/api/runner.ts';
import type { ErrorReason, Svc3Error } from '../../../src/errors.ts';
import { createCertificate } from '../../../src/runner/certificate.ts';
import {
  createRunnerClient,
  type RunnerClient,
  type RunnerClientOptions,
} from '../../../src/runnerapi/client.ts';
import type { ControlClaims } from '../../../src/runnerapi/token.ts';
import { connectionsOf, type StandIn, standIn } from './standin.ts';
import { withFakeTimers } from '../timers.ts';

const state = { version: 1, vmUid: 'vm-1', powerState: 'Running', guestReachable: true, revision: 7 };
const anExport = { id: 'a b', state: 'Copying', progress: 5 };
const ticket = { ticket: 't', path: '/v1/exports/a/data', expiresAt: '2026-01-01T00:00:00Z' };
const usage = {
  timestamp: '2026-01-01T00:00:00.000Z',
  uptimeSeconds: 60.5,
  cpu: { cpus: 2 },
  memory: { totalBytes: 2 ** 30 },
  disks: [{ name: 'disk', readBytes: 1, writtenBytes: 2, reads: 3, writes: 4 }],
};
const port = { podPort: 80, guestPort: 80, protocol: 'TCP' as const };
/** Its other fields are read by the runner alone. */
const aClaim = { podUid: 'p' } as ClaimRequest;
const grown = { diskSize: 5, fileSystemGrown: true, message: '' };

function clientOf({ port }: { port: number }, more: Partial<RunnerClientOptions> = {}): RunnerClient {
  return createRunnerClient({
    address: '127.0.0.1',
    port,
    vmUid: 'vm-1',
    sign: (claims) => JSON.stringify(claims),
    ...more,
  });
}

const replying = (value: unknown, status = 200): Promise<StandIn> =>
  standIn((_asked, response) => response.writeHead(status).end(JSON.stringify(value)));

/** The claims of the token that came. */
const claimsOf = (authorization: string): ControlClaims =>
  JSON.parse(authorization.replace(/^Bearer /, '')) as ControlClaims;

describe('a call to a runner', () => {
  test.each<[string, (client: RunnerClient) => Promise<unknown>, string, string, string, unknown, unknown]>([
    ['state', (client) => client.state(), 'GET', '/v1/state', 'state', undefined, state],
    [
      'the next state',
      (client) => client.state({ revision: 7, waitSeconds: 30 }),
      'GET',
      '/v1/state?revision=7&wait=30',
      'state',
      undefined,
      state,
    ],
    [
      'power',
      (client) => client.power({ action: 'revert', revertRequest: 'ö' }),
      'POST',
      '/v1/power',
      'power',
      { action: 'revert', revertRequest: 'ö' },
      state,
    ],
    ['what it uses', (client) => client.usage(), 'GET', '/v1/usage', 'usage', undefined, usage],
    ['a guest', (client) => client.claim(aClaim), 'POST', '/v1/claim', 'claim', aClaim, state],
    ['resize', (client) => client.resize(5), 'POST', '/v1/resize', 'resize', { bytes: 5 }, grown],
    ['eject', (client) => client.eject(), 'POST', '/v1/eject', 'eject', {}, state],
    [
      'ports',
      (client) => client.ports({ ports: [port] }),
      'POST',
      '/v1/ports',
      'ports',
      { ports: [port] },
      state,
    ],
    [
      'the start of an export',
      (client) => client.startExport('a b', 'image'),
      'POST',
      '/v1/exports',
      'export',
      { id: 'a b', owner: 'image' },
      anExport,
    ],
    [
      'the start of an export in a pod that has a limit',
      (client) => client.startExport('a', 'image', false, 40),
      'POST',
      '/v1/exports',
      'export',
      { id: 'a', owner: 'image', podLimitBytes: 40 },
      anExport,
    ],
    [
      'an export',
      (client) => client.getExport('a b'),
      'GET',
      '/v1/exports/a%20b',
      'export',
      undefined,
      anExport,
    ],
    [
      'a ticket',
      (client) => client.exportTicket('a b'),
      'POST',
      '/v1/exports/a%20b/ticket',
      'export',
      {},
      ticket,
    ],
  ])('for %s asks that and nothing else', async (...[, ask, method, path, action, body, reply]) => {
    const runner = await replying(reply);
    expect(await ask(clientOf(runner))).toMatchObject(reply as object);
    expect(runner.asked).toMatchObject([
      {
        method,
        path,
        body: body === undefined ? '' : JSON.stringify(body),
        headers: { connection: 'close', host: 'runner' },
      },
    ]);
    const { headers, authorization } = runner.asked[0]!;
    expect(headers['content-type']).toBe(body === undefined ? undefined : 'application/json');
    expect(claimsOf(authorization)).toEqual({
      vmUid: 'vm-1',
      action,
      fingerprint: runner.certificate.fingerprint,
      exp: expect.any(Number),
    });
  });

  test('for the end of an export has no reply', async () => {
    const runner = await standIn((_asked, response) => response.writeHead(204).end());
    await expect(clientOf(runner).deleteExport('a')).resolves.toBeUndefined();
    expect(runner.asked).toMatchObject([{ method: 'DELETE', path: '/v1/exports/a' }]);
    expect(claimsOf(runner.asked[0]!.authorization).action).toBe('export');
  });

  test('carries a token that is good for a minute', async () => {
    const runner = await replying(state);
    const before = Math.floor(Date.now() / 1000);
    await clientOf(runner).state();
    const after = Math.floor(Date.now() / 1000);
    const { exp } = claimsOf(runner.asked[0]!.authorization);
    expect(exp).toBeGreaterThanOrEqual(before + 60);
    expect(exp).toBeLessThanOrEqual(after + 60);
  });

  test.each<[number, ErrorReason]>([
    [400, 'BadRequest'],
    [401, 'Unauthorized'],
    [403, 'Forbidden'],
    [404, 'NotFound'],
    [409, 'Conflict'],
    [410, 'Gone'],
    [422, 'Invalid'],
    [501, 'NotImplemented'],
    [503, 'ServiceUnavailable'],
    [504, 'Timeout'],
    [300, 'BadGateway'],
    [418, 'BadGateway'],
    [500, 'BadGateway'],
  ])('that is refused with %i is %s, in the words of the runner', async (status, reason) => {
    const runner = await replying({ message: 'not now' }, status);
    await expect(clientOf(runner).eject()).rejects.toMatchObject({ reason, message: 'not now' });
  });

  test.each([
    ['', 'the runner answered 409'],
    ['{"message":""}', 'the runner answered 409'],
    ['{"message":5}', 'the runner answered 409'],
    [`{"message":"${'x'.repeat(2_000)}"}`, `${'x'.repeat(1023)}…`],
  ])('that is refused with %s is told', async (body, message) => {
    const runner = await standIn((_asked, response) => response.writeHead(409).end(body));
    await expect(clientOf(runner).eject()).rejects.toMatchObject({ reason: 'Conflict', message });
  });

  test.each([
    [200, 'no JSON'],
    [500, '<html>'],
  ])('that is answered %i %s is the fault of the runner', async (status, body) => {
    const runner = await standIn((_asked, response) => response.writeHead(status).end(body));
    await expect(clientOf(runner).state()).rejects.toMatchObject({
      reason: 'BadGateway',
      message: `the runner answered ${status} with something that is not JSON`,
    });
  });

  test('may have a reply of a mebibyte and no more', async () => {
    const sized = (bytes: number): string => JSON.stringify(state).padEnd(bytes);
    let reply = sized(2 ** 20);
    const runner = await standIn((_asked, response) => response.end(reply));
    await expect(clientOf(runner).state()).resolves.toMatchObject(state);
    reply = sized(2 ** 20 + 1);
    await expect(clientOf(runner).state()).rejects.toThrow('the reply of the runner is too large');
  });

  test('whose connection is cut says so', async () => {
    const runner = await standIn((_asked, response) => response.destroy());
    await expect(clientOf(runner).state()).rejects.toMatchObject({
      reason: 'ServiceUnavailable',
      message: 'the connection to the runner was lost',
    });
  });
});

describe('a call that is not answered', () => {
  test.each<[string, (client: RunnerClient) => Promise<unknown>, number]>([
    ['state', (client) => client.state(), 15_000],
    ['the next state', (client) => client.state({ revision: 1, waitSeconds: 30 }), 45_000],
    ['eject', (client) => client.eject(), 15_000],
    // The guest's grace period is bounded by the VM's own setting, of 600 s at most.
    ['power', (client) => client.power({ action: 'stop' }), 660_000],
    ['resize', (client) => client.resize(1), 120_000],
    ['ports', (client) => client.ports({ ports: [port] }), 660_000],
    ['VNC', (client) => client.openVnc(), 15_000],
  ])('for %s is given up after its time and not before', async (_what, ask, ms) => {
    let come: () => void;
    const arrived = new Promise<void>((resolve) => (come = resolve));
    const runner = await standIn(
      () => come(),
      () => (come(), 'refused'),
    );
    withFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    let ended = false;
    const call = ask(clientOf(runner)).finally(() => (ended = true));
    call.catch(() => undefined);
    await arrived;
    await vi.advanceTimersByTimeAsync(ms - 1);
    expect(ended).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    await expect(call).rejects.toMatchObject({ reason: 'Timeout' });
  });

  test('ends with the signal of the client', async () => {
    const moved = new AbortController();
    const runner = await standIn(() => moved.abort());
    const client = clientOf(runner, { signal: moved.signal });
    await expect(client.state()).rejects.toMatchObject({ reason: 'ServiceUnavailable' });
    await expect(client.state()).rejects.toMatchObject({
      reason: 'ServiceUnavailable',
      message: 'the runner has moved',
    });
    expect(runner.asked).toHaveLength(1);
  });

  test.each<[string, (client: RunnerClient, signal: AbortSignal) => Promise<unknown>]>([
    ['a verb', (client, signal) => client.power({ action: 'stop' }, signal)],
    ['a larger disk', (client, signal) => client.resize(2 ** 30, signal)],
  ])('for %s ends with the signal of who asks', async (_what, call) => {
    const enough = new AbortController();
    const runner = await standIn(() => enough.abort());
    await expect(call(clientOf(runner), enough.signal)).rejects.toMatchObject({
      reason: 'ServiceUnavailable',
    });
  });

  test('ends with its own signal, and the client goes on', async () => {
    const enough = new AbortController();
    const runner = await standIn((asked, response) =>
      asked.path === '/v1/state' ? response.end(JSON.stringify(state)) : enough.abort(),
    );
    const client = clientOf(runner);
    const wait = { revision: 7, waitSeconds: 30, signal: enough.signal };
    await expect(client.state(wait)).rejects.toMatchObject({ reason: 'ServiceUnavailable' });
    await expect(client.state()).resolves.toMatchObject({ revision: 7 });
  });

  test('of a port where nobody listens says that nobody answers', async () => {
    const runner = await replying(state);
    runner.close();
    await expect(clientOf(runner).state()).rejects.toMatchObject({
      reason: 'ServiceUnavailable',
      message: 'the runner at 127.0.0.1 does not answer',
    });
  });

  test('of a port that says nothing is given up after the time of a connection', async () => {
    const silent = createServer((socket) => void socket.on('error', () => undefined).resume());
    silent.listen(0, '127.0.0.1');
    onTestFinished(() => void silent.close());
    await once(silent, 'listening');
    const { port } = silent.address() as AddressInfo;
    withFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    for (const [options, ms] of [
      [{}, 5_000],
      [{ connectTimeoutMs: 50 }, 50],
    ] as const) {
      let ended = false;
      const call = clientOf({ port }, options)
        .state()
        .finally(() => (ended = true));
      call.catch(() => undefined);
      await vi.advanceTimersByTimeAsync(ms - 1);
      expect(ended).toBe(false);
      await vi.advanceTimersByTimeAsync(1);
      await expect(call).rejects.toMatchObject({ reason: 'ServiceUnavailable' });
    }
    await expect.poll(() => connectionsOf(silent)).toBe(0);
  });
});

describe('what has ended', () => {
  const upgradeRefused = 'HTTP/1.1 410 Gone\r\ncontent-length: 0\r\n\r\n';

  test.each<[string, (client: RunnerClient) => Promise<unknown>]>([
    ['a call', (client) => client.state()],
    ['a stream that was refused', (client) => client.openSerial().catch(() => 'refused')],
  ])('as %s leaves no timer, which would keep the process alive', async (_what, ask) => {
    const runner = await standIn(
      (_asked, response) => response.end(JSON.stringify(state)),
      (_asked, socket) => (socket.end(upgradeRefused), 'refused'),
    );
    withFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    await ask(clientOf(runner));
    await expect.poll(() => vi.getTimerCount()).toBe(0);
  });

  test('before there was a connection leaves no timer either', async () => {
    const runner = await replying(state);
    runner.close();
    withFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    await expect(clientOf(runner).state()).rejects.toMatchObject({ reason: 'ServiceUnavailable' });
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe("a runner's certificate", () => {
  test('that is seen first is told of once and is the one from then on', async () => {
    const runner = await replying(state);
    const pinned: string[] = [];
    const client = clientOf(runner, { onPin: (pin) => pinned.push(pin) });
    expect(client.fingerprint()).toBeUndefined();
    await client.state();
    await client.state();
    expect(pinned).toEqual([runner.certificate.fingerprint]);
    expect(client.fingerprint()).toBe(runner.certificate.fingerprint);
    expect(runner.connections()).toBe(2);
  });

  test('that is known is not told of again', async () => {
    const runner = await replying(state);
    const pin = runner.certificate.fingerprint;
    const client = clientOf(runner, { pin, onPin: () => expect.unreachable() });
    expect(client.fingerprint()).toBe(pin);
    await expect(client.state()).resolves.toMatchObject({ revision: 7 });
  });

  test('that is another than before is told nothing, not even a token', async () => {
    const runner = await replying(state);
    const { fingerprint } = createCertificate('vm-2');
    const sign = vi.fn(() => 'token');
    const client = clientOf(runner, { pin: fingerprint, sign });
    for (const ask of [() => client.state(), () => client.openVnc()])
      await expect(ask()).rejects.toMatchObject({
        reason: 'Forbidden',
        message: expect.stringContaining('the runner at 127.0.0.1 shows another certificate than before'),
      });
    expect(sign).not.toHaveBeenCalled();
    expect(runner.asked).toEqual([]);
    await expect.poll(() => runner.open()).toBe(0);
  });
});

describe('a stream', () => {
  test.each<[string, (client: RunnerClient) => ReturnType<RunnerClient['openVnc']>, string, object]>([
    ['of the screen', (client) => client.openVnc(), '/v1/vnc', { action: 'vnc' }],
    ['of the screen, once', (client) => client.openVnc('x'), '/v1/vnc', { action: 'vnc', once: 'x' }],
    ['of the serial console', (client) => client.openSerial(), '/v1/serial', { action: 'serial' }],
    ['to a port', (client) => client.openTunnel(22), '/v1/tunnel?port=22', { action: 'tunnel' }],
  ])('%s carries bytes both ways', async (_what, open, path, claims) => {
    const runner = await standIn(() => undefined);
    const stream = await open(clientOf(runner));
    stream.write('hello');
    const [heard] = (await once(stream, 'data')) as [Buffer];
    expect(heard.toString()).toBe('heard hello');
    stream.destroy();
    const { authorization, ...asked } = runner.asked[0]!;
    expect(asked).toMatchObject({ path });
    expect(claimsOf(authorization)).toEqual({
      vmUid: 'vm-1',
      fingerprint: runner.certificate.fingerprint,
      exp: expect.any(Number),
      ...claims,
    });
  });

  test.each<[string, string, object]>([
    [
      'is refused in the words of the runner',
      'HTTP/1.1 410 Gone\r\ncontent-length: 21\r\n\r\n{"message":"used up"}',
      { reason: 'Gone', message: 'used up' },
    ],
    [
      'that is answered without being opened is the fault of the runner',
      'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}',
      { reason: 'BadGateway', message: 'the runner did not open the stream' },
    ],
    ['that is no HTTP has failed', 'what?\r\n\r\n', { reason: 'ServiceUnavailable' }],
  ])('%s', async (_sentence, reply, error) => {
    const runner = await standIn(
      () => undefined,
      (_asked, socket) => (socket.end(reply), 'refused'),
    );
    await expect(clientOf(runner).openTunnel(22)).rejects.toMatchObject(error);
  });

  const told = (headers: string[]) => headers.push('Svc3-Stream-Ends: told');
  const silent = (): void => undefined;
  test.each<[string, (headers: string[]) => unknown, (ws: WebSocket) => void, string]>([
    ['that ends', told, (ws) => ws.close(), 'ended'],
    ['that ends with the code of an end', told, (ws) => ws.close(1000), 'ended'],
    ['that is cut', told, (ws) => ws.terminate(), "the connection to the VM's runner was cut"],
    ['that the runner closes', told, (ws) => ws.close(1011, 'the guest broke'), 'the guest broke'],
    ['of a runner that tells no ends, which cuts it at its end', silent, (ws) => ws.terminate(), 'ended'],
    ['of such a runner that closes it', silent, (ws) => ws.close(1001, 'long enough'), 'ended'],
  ])('%s says so', async (_what, headersOf, act, outcome) => {
    const runner = await standIn(() => undefined);
    runner.sockets.on('headers', headersOf);
    const stream = await clientOf(runner).openTunnel(22);
    stream.write('hello');
    await once(stream, 'data');
    for (const ws of runner.sockets.clients) act(ws);
    stream.resume();
    const seen = await finished(stream, { writable: false }).then(
      () => 'ended',
      ({ reason, message }: Svc3Error) => [reason, message],
    );
    expect(seen).toEqual(outcome === 'ended' ? outcome : ['BadGateway', outcome]);
    // Who still writes has nobody to write to.
    await expect.poll(() => stream.closed).toBe(true);
  });

  test('to a runner that is gone without a word is cut within a minute', async () => {
    const runner = await standIn(() => undefined);
    runner.sockets.on('headers', told);
    withFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    const stream = await clientOf(runner).openTunnel(22);
    for (const ws of runner.sockets.clients) ws.pause();
    vi.advanceTimersByTime(60_000);
    await expect(finished(stream, { writable: false })).rejects.toMatchObject({ reason: 'BadGateway' });
  });

  test('that we leave tells of no cut', async () => {
    const runner = await standIn(() => undefined);
    runner.sockets.on('headers', told);
    const stream = await clientOf(runner).openSerial();
    const failed = vi.fn();
    stream.on('error', failed);
    stream.destroy();
    await once(stream, 'close');
    expect(failed).not.toHaveBeenCalled();
  });

  test('that is open is not ended by the time of a call', async () => {
    const runner = await standIn(() => undefined);
    withFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const stream = await clientOf(runner).openTunnel(22);
    await vi.advanceTimersByTimeAsync(3_600_000);
    stream.write('still here?');
    expect(String((await once(stream, 'data'))[0])).toBe('heard still here?');
    stream.destroy();
  });
});
