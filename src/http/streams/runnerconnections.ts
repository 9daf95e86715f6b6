import { createHmac, type KeyObject } from 'node:crypto';
import type { Secret } from '../../api/core.ts';
import type { Vm } from '../../api/vm.ts';
import { createRunnerClient, type RunnerClient, type RunnerClientOptions } from '../../runnerapi/client.ts';
import { readControlKeys, signControlToken } from '../../runnerapi/token.ts';
import { Svc3Error } from '../../errors.ts';
import type { RunnerConnections, Sealer, TicketSigner } from '../call/services.ts';
import { createSealer } from '../auth/seals.ts';
import { createTicketSigner } from '../auth/tickets.ts';

/** The key that the installation signs with, out of its Secret; undefined where none can be read, which the operator mends. */
export function controlKeyOf(secret: Secret | undefined): KeyObject | undefined {
  return readControlKeys(secret?.data).keys[0];
}

function noKey(): Svc3Error {
  return new Svc3Error(
    'ServiceUnavailable',
    'the installation has no control key that can be read; is the operator running?',
  );
}

/** The client of a VM's runner. @throws Svc3Error Conflict: there is none yet; ServiceUnavailable: there is no key yet. */
export function runnerClientOf(
  vm: Vm,
  key: () => KeyObject | undefined,
  more: Pick<RunnerClientOptions, 'port' | 'callTimeoutMs'> = {},
): RunnerClient {
  const { runner } = vm.status ?? {};
  const name = vm.metadata.name;
  if (runner?.address === undefined)
    throw new Svc3Error('Conflict', `VM ${name} has no runner that could be reached yet`);
  const privateKey = key();
  if (privateKey === undefined) throw noKey();
  return createRunnerClient({
    address: runner.address,
    vmUid: vm.metadata.uid,
    ...(runner.fingerprint === undefined ? {} : { pin: runner.fingerprint }),
    sign: (claims) => signControlToken(claims, privateKey),
    ...more,
  });
}

/** Streams to runners, each opened with a token signed by the installation's key. */
export function createRunnerConnections(key: () => KeyObject | undefined): RunnerConnections {
  const clientOf = (vm: Vm) => runnerClientOf(vm, key);
  return {
    openVnc: async (vm, once) => await clientOf(vm).openVnc(once),
    openSerial: async (vm) => await clientOf(vm).openSerial(),
    openTunnel: async (vm, port) => await clientOf(vm).openTunnel(port),
  };
}

/** A key for one use, which every replica has: derived from the installation's. */
function derivedKey(key: () => KeyObject | undefined, use: string): Buffer {
  const privateKey = key();
  if (privateKey === undefined) throw noKey();
  const secret = privateKey.export({ type: 'pkcs8', format: 'der' });
  return createHmac('sha256', secret).update(use).digest();
}

/** Tickets that every replica can check. */
export function createSharedTicketSigner(key: () => KeyObject | undefined): TicketSigner {
  const signer = (): TicketSigner => createTicketSigner(derivedKey(key, 'svc3 console tickets'));
  return { sign: (claims) => signer().sign(claims), verify: (ticket) => signer().verify(ticket) };
}

/** Seals that every replica can open. */
export function createSharedSealer(key: () => KeyObject | undefined): Sealer {
  const sealer = (): Sealer => createSealer(derivedKey(key, 'svc3 page seals'));
  return {
    get keyId() {
      return sealer().keyId;
    },
    seal: (purpose, claims) => sealer().seal(purpose, claims),
    open: (purpose, text) => sealer().open(purpose, text),
  };
}
