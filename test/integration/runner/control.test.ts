import { readFile, rm, writeFile } from 'node:fs/promises';
import type { Duplex } from 'node:stream';
import { finished } from 'node:stream/promises';
import { connect } from 'node:tls';
import { describe, expect, onTestFinished, test } from 'vitest';
import { runnerPaths } from '../../../src/api/runner.ts';
import { createRunnerClient } from '../../../src/runnerapi/client.ts';
import { createControlKey, signControlToken, type ControlClaims } from '../../../src/runnerapi/token.ts';
import { kill } from '../../support/processes.ts';
import { allowBootTime, aPod, clientFor, installation, startRunner } from './harness.ts';

allowBootTime();

/** Resolves with the first bytes that the other side sends by itself. */
function firstBytes(stream: Duplex): Promise<string> {
  return new Promise((resolve, reject) => {
    stream.once('data', (chunk: Buffer) => resolve(chunk.toString('latin1')));
    stream.once('error', reject);
    stream.once('close', () => reject(new Error('the stream ended')));
  });
}

describe('the control endpoint', () => {
  test('refuses every token that is not for this VM, action, certificate and time', async () => {
    const runner = await startRunner(await aPod({ powerState: 'Stopped' }));
    await runner.reaches({ powerState: 'Stopped' });
    const forging = (forge: (claims: ControlClaims) => string) =>
      createRunnerClient({
        address: '127.0.0.1',
        port: runner.port,
        vmUid: runner.pod.spec.vm.uid,
        sign: forge,
      }).power({ action: 'start' });
    const signed = (claims: ControlClaims) => signControlToken(claims, installation.privateKey);
    const outsider = createControlKey().privateKey;
    const refused = { reason: 'Unauthorized' };
    await expect(forging((claims) => signControlToken(claims, outsider))).rejects.toMatchObject({
      ...refused,
      message: expect.stringContaining('signed by no known key'),
    });
    await expect(forging((claims) => signed({ ...claims, vmUid: 'other' }))).rejects.toMatchObject({
      ...refused,
      message: expect.stringContaining('meant for another VM'),
    });
    await expect(forging((claims) => signed({ ...claims, action: 'state' }))).rejects.toMatchObject({
      ...refused,
      message: expect.stringContaining('meant for another action'),
    });
    await expect(forging((claims) => signed({ ...claims, fingerprint: '00' }))).rejects.toMatchObject({
      ...refused,
      message: expect.stringContaining('another certificate'),
    });
    await expect(forging((claims) => signed({ ...claims, exp: 1 }))).rejects.toMatchObject({
      ...refused,
      message: expect.stringContaining('expired'),
    });
    await expect(forging(() => '')).rejects.toMatchObject({
      ...refused,
      message: 'a control token is required',
    });
    await expect(runner.client.openTunnel(22)).rejects.toMatchObject({
      reason: 'Conflict',
      message: 'the VM is Stopped',
    });
    expect((await runner.client.state()).powerState).toBe('Stopped');
  });

  test('is pinned: a client that knows another certificate sends nothing', async () => {
    const runner = await startRunner(await aPod({ powerState: 'Stopped' }));
    let asked = 0;
    const client = createRunnerClient({
      address: '127.0.0.1',
      port: runner.port,
      vmUid: runner.pod.spec.vm.uid,
      pin: 'ab'.repeat(32),
      sign: () => `${asked++}`,
    });
    await expect(client.state()).rejects.toMatchObject({ reason: 'Forbidden' });
    expect(asked).toBe(0);
  });

  test('takes new keys as soon as the annotation shows them, and no longer the old ones', async () => {
    const runner = await startRunner(await aPod({ powerState: 'Stopped' }));
    await runner.reaches({ powerState: 'Stopped' });
    const next = createControlKey();
    const file = runner.pod.root + runnerPaths.controlKeys;
    // As the kubelet does it: a new file in place of the old one.
    const before = await readFile(file, 'utf8');
    await rm(file);
    await writeFile(file, `${before}\n${next.publicKey}`);
    expect((await runner.client.state()).powerState).toBe('Stopped');
    await rm(file);
    await writeFile(file, next.publicKey);
    await expect(runner.client.state()).rejects.toMatchObject({ reason: 'Unauthorized' });
  });

  test.each([
    ['an unknown verb', '/v1/power', { action: 'explode' }, 'Invalid', 'action:'],
    ['a size that is no number', '/v1/resize', { bytes: 'big' }, 'Invalid', 'bytes:'],
    ['an export with an odd name', '/v1/exports', { id: '../x' }, 'Invalid', 'id:'],
    [
      'an export with an odd limit',
      '/v1/exports',
      { id: 'x', podLimitBytes: -1 },
      'Invalid',
      'podLimitBytes:',
    ],
  ])('names the field of %s', async (_sentence, path, body, reason, message) => {
    const runner = await startRunner(await aPod({ powerState: 'Stopped' }, ''));
    await runner.client.state().catch(() => undefined);
    const action = path === '/v1/power' ? 'power' : path === '/v1/resize' ? 'resize' : 'export';
    const fingerprint = runner.client.fingerprint() ?? '';
    const token = signControlToken(
      { vmUid: runner.pod.spec.vm.uid, action, fingerprint, exp: Math.floor(Date.now() / 1000) + 60 },
      installation.privateKey,
    );
    const reply = await post(runner.port, path, token, JSON.stringify(body));
    expect(reply).toMatchObject({ reason });
    expect(reply.message).toContain(message);
  });

  test('says 404 for unknown paths and answers probes without a token', async () => {
    const runner = await startRunner(await aPod({ powerState: 'Stopped' }));
    await runner.reaches({ powerState: 'Stopped' });
    expect(await get(runner.port, '/livez')).toMatch(/^HTTP\/1.1 200 /);
    expect(await get(runner.port, '/readyz')).toMatch(/^HTTP\/1.1 503 [^]*"status":"Stopped"/);
    expect(await get(runner.port, '/v2/state')).toMatch(/^HTTP\/1.1 404 /);
    expect(await get(runner.port, '/v1/power')).toMatch(/^HTTP\/1.1 405 /);
    expect(await get(runner.port, '/v1/exports/x/data?ticket=guess')).toMatch(/^HTTP\/1.1 401 /);
  });
});

describe('streams', () => {
  test('carry the screen and a port of the guest', async () => {
    const runner = await startRunner(await aPod());
    await runner.reaches({ powerState: 'Running', guestReachable: true });
    expect(await get(runner.port, '/readyz')).toMatch(/^HTTP\/1.1 200 /);
    const screen = await runner.client.openVnc();
    expect(await firstBytes(screen)).toMatch(/^RFB 003\.\d{3}\n/);
    screen.destroy();
    // The guest's agent answers before its SSH server does.
    const greeting = async () => {
      const ssh = await runner.client.openTunnel(22);
      return firstBytes(ssh)
        .catch(() => '')
        .finally(() => ssh.destroy());
    };
    await expect.poll(greeting).toMatch(/^SSH-2\.0-/);
    await runner.guest(
      'nc -ll -p 7777 -e cat >/dev/null 2>&1 </dev/null & until grep -q :1E61 /proc/net/tcp*; do usleep 20000; done',
    );
    const echo = await runner.client.openTunnel(7777);
    // More than every buffer on the way holds.
    const sent = Buffer.alloc(3 * 1024 * 1024, 'svc3 tunnel ');
    const back = collect(echo, sent.length);
    echo.write(sent);
    expect((await back).equals(sent)).toBe(true);
    echo.destroy();
    await expect(runner.client.openTunnel(0)).rejects.toMatchObject({ reason: 'Invalid' });
    await runner.client.power({ action: 'stop' });
    await expect(runner.client.openVnc()).rejects.toThrow('the VM is Stopped');
  });

  test('carry the serial console, to everybody who is connected and over a restart of the guest', async () => {
    const runner = await startRunner(await aPod());
    await runner.reaches({ powerState: 'Running', guestReachable: true });
    const [one, other] = await Promise.all([runner.client.openSerial(), runner.client.openSerial()]);
    for (const stream of [one, other]) onTestFinished(() => void stream.destroy());
    const seen = [one, other].map((stream) => {
      let text = '';
      stream.on('data', (chunk: Buffer) => (text += chunk.toString('utf8')));
      return () => text;
    });
    // The guest's agent answers before there is a prompt, and what is typed before it is discarded there.
    await expect.poll(() => runner.serial()).toContain('login: ');
    one.write('nobody\n');
    for (const text of seen) await expect.poll(text).toContain('Password: ');
    other.destroy();
    const before = seen[0]?.().length;
    await expect.poll(() => runner.serial()).toContain('Password: ');
    const written = runner.serial().length;
    await runner.client.power({ action: 'restart' });
    await runner.reaches({ powerState: 'Running', guestReachable: true });
    const since = () => seen[0]?.().slice(before);
    await expect.poll(since).toContain('login: ');
    one.write('nobody\n');
    await expect.poll(since).toContain('Password: ');
    await expect.poll(() => runner.serial().slice(written)).toContain('Password: ');
    one.destroy();
  });

  test('say that the guest has ended where QEMU does, which looks like the end of what it leads to', async () => {
    const runner = await startRunner(await aPod({ readiness: { tcp: { port: 22 }, timeoutSeconds: 180 } }));
    await runner.reaches({ powerState: 'Running', guestReachable: true });
    const ends = [await runner.client.openVnc(), await runner.client.openTunnel(22)].map(async (stream) => {
      await firstBytes(stream);
      return { over: finished(stream.resume(), { writable: false }) };
    });
    const told = (await Promise.all(ends)).map(({ over }) =>
      expect(over).rejects.toMatchObject({ reason: 'BadGateway', message: 'the guest has ended' }),
    );
    kill(await runner.qemuPid());
    await Promise.all(told);
  });

  test('of a VM without console are refused with a sentence', async () => {
    const runner = await startRunner(await aPod({ vncConsole: false }));
    await runner.reaches({ powerState: 'Running', vncConsole: false });
    await expect(runner.client.openVnc()).rejects.toMatchObject({
      reason: 'Conflict',
      message: 'the VNC console of this VM is off',
    });
    const outsider = clientFor(runner.port, 'another-vm');
    await expect(outsider.openTunnel(22)).rejects.toMatchObject({ reason: 'Unauthorized' });
  });
});

function collect(stream: Duplex, length: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  return new Promise((resolve, reject) => {
    stream.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      size += chunk.length;
      if (size >= length) resolve(Buffer.concat(chunks));
    });
    stream.once('error', reject);
  });
}

function speak(port: number, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false }, () => socket.write(text));
    let reply = '';
    socket.on('data', (chunk: Buffer) => (reply += chunk.toString('utf8')));
    socket.once('end', () => resolve(reply));
    socket.once('error', reject);
  });
}

function get(port: number, path: string): Promise<string> {
  return speak(port, `GET ${path} HTTP/1.1\r\nHost: runner\r\nConnection: close\r\n\r\n`);
}

async function post(
  port: number,
  path: string,
  token: string,
  body: string,
): Promise<{ reason: string; message: string }> {
  const head = `POST ${path} HTTP/1.1\r\nHost: runner\r\nAuthorization: Bearer ${token}\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n`;
  const reply = await speak(port, head + body);
  return JSON.parse(reply.slice(reply.indexOf('\r\n\r\n'))) as { reason: string; message: string };
}
