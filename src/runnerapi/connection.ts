import { connect, createSecureContext, type SecureContext, type TLSSocket } from 'node:tls';
import { Svc3Error } from '../errors.ts';
import { fingerprintOf } from './fingerprint.ts';

export interface PinnedTarget {
  readonly address: string;
  readonly port: number;
  /** Undefined at first contact: the certificate that is seen is the one to pin. */
  readonly pin: string | undefined;
  readonly timeoutMs?: number | undefined;
}

const defaultTimeoutMs = 5000;

let shared: SecureContext | undefined;

/** One for all: it holds nothing of a runner, and to make one takes longer than all else of a call. */
function secureContext(): SecureContext {
  shared ??= createSecureContext();
  return shared;
}

/**
 * A TLS connection to a runner. ServiceUnavailable: nobody answers. Forbidden: another certificate than the pinned one;
 * nothing has been sent then.
 */
export async function connectPinned(
  target: PinnedTarget,
): Promise<{ socket: TLSSocket; fingerprint: string }> {
  const socket = await connectTls(target);
  const fingerprint = fingerprintOf(socket.getPeerCertificate().raw);
  if (target.pin === undefined || fingerprint === target.pin) return { socket, fingerprint };
  socket.destroy();
  throw new Svc3Error(
    'Forbidden',
    `the runner at ${target.address} shows another certificate than before; where that stays so, condition Ready of the VM says what to do`,
  );
}

function connectTls({ address, port, timeoutMs = defaultTimeoutMs }: PinnedTarget): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const socket = connect({
      host: address,
      port,
      secureContext: secureContext(),
      rejectUnauthorized: false,
      ALPNProtocols: ['http/1.1'],
    });
    const fail = (cause: unknown) => {
      clearTimeout(timer);
      socket.destroy();
      reject(new Svc3Error('ServiceUnavailable', `the runner at ${address} does not answer`, { cause }));
    };
    const timer = setTimeout(() => fail(new Error(`no connection within ${timeoutMs} ms`)), timeoutMs);
    socket.once('error', fail);
    socket.once('secureConnect', () => {
      clearTimeout(timer);
      resolve(socket);
    });
  });
}
