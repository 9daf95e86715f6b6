import { once } from 'node:events';
import { createServer as createTcpServer, type AddressInfo, type Server } from 'node:net';
import { createServer } from 'node:tls';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { createCertificate } from '../../../src/runner/certificate.ts';
import { connectPinned } from '../../../src/runnerapi/connection.ts';

const certificate = createCertificate('vm-1');

async function portOf(server: Server): Promise<number> {
  onTestFinished(() => void server.close());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

/** A runner that notes what each connection has agreed on, and what came on it. */
async function aRunner() {
  const agreed: (string | false | null)[] = [];
  let came = '';
  const { key, certificate: cert } = certificate;
  const server = createServer({ key, cert, ALPNProtocols: ['http/1.1'] }, (socket) => {
    agreed.push(socket.alpnProtocol);
    socket.on('data', (data: Buffer) => (came += data.toString()));
    socket.on('error', () => undefined);
  });
  return { port: await portOf(server), agreed, came: () => came };
}

describe('a connection to a runner', () => {
  test.each([undefined, certificate.fingerprint])('with the pin %s is to who has it', async (pin) => {
    const { port, agreed } = await aRunner();
    const { socket, fingerprint } = await connectPinned({ address: '127.0.0.1', port, pin });
    onTestFinished(() => void socket.destroy());
    expect(fingerprint).toBe(certificate.fingerprint);
    await expect.poll(() => agreed).toEqual(['http/1.1']);
  });

  test('that shows another certificate is ended with nothing sent', async () => {
    const { port, came } = await aRunner();
    await expect(connectPinned({ address: '127.0.0.1', port, pin: 'another' })).rejects.toMatchObject({
      reason: 'Forbidden',
      message: expect.stringContaining('the runner at 127.0.0.1 shows another certificate than before'),
    });
    expect(came()).toBe('');
  });

  test('that nobody takes is told at once', async () => {
    await expect(connectPinned({ address: '127.0.0.1', port: 9, pin: undefined })).rejects.toMatchObject({
      reason: 'ServiceUnavailable',
      message: 'the runner at 127.0.0.1 does not answer',
    });
  });

  test.each([
    [undefined, 5_000],
    [700, 700],
  ])('that says nothing is given up: allowed %s ms, after %i', async (timeoutMs, waitedMs) => {
    const port = await portOf(createTcpServer());
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const failed = vi.fn();
    const connecting = connectPinned({ address: '127.0.0.1', port, pin: undefined, timeoutMs }).catch(failed);
    vi.advanceTimersByTime(waitedMs - 1);
    await new Promise((resolve) => setImmediate(resolve));
    expect(failed).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    await connecting;
    expect(failed.mock.calls[0]?.[0]).toMatchObject({ reason: 'ServiceUnavailable' });
  });
});
