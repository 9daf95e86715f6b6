import type { KeyObject } from 'node:crypto';
import { runnerPort } from '../../api/runner.ts';
import type { VmUsage } from '../../api/vmusage.ts';
import { isSvc3Error, messageOf, Svc3Error } from '../../errors.ts';
import { keepFresh } from '../../fresh.ts';
import type { VmUsages } from '../call/services.ts';
import { runnerClientOf } from './runnerconnections.ts';

/** So long figures of a VM are good, however many ask for them: one connection to its runner. In milliseconds. */
const freshMs = 1_000;
/** A page asks every two seconds. */
const callTimeoutMs = 5_000;

/**
 * What VMs use, asked of their runners with tokens signed by the installation's key.
 *
 * @param port - of the runners; only tests change it
 */
export function createVmUsages(key: () => KeyObject | undefined, port = runnerPort): VmUsages {
  const fresh = keepFresh<VmUsage>(freshMs);
  return {
    of: (vm) =>
      fresh(vm.metadata.uid, async () => {
        const client = runnerClientOf(vm, key, { port, callTimeoutMs });
        return await client.usage().catch((error: unknown) => {
          throw refusalOf(vm.metadata.name, error);
        });
      }),
  };
}

/**
 * The error of a runner as the caller is told it: what it says of its guest, and that it does not answer. A runner does not decide who the
 * caller is (401, 403) or that there is no such VM (404).
 */
export function refusalOf(name: string, cause: unknown): Svc3Error {
  if (isSvc3Error(cause, 'Conflict', 'ServiceUnavailable', 'Timeout')) return cause;
  if (isSvc3Error(cause, 'NotFound'))
    return new Svc3Error(
      'NotImplemented',
      `the runner of VM ${name} is of a version that tells no figures; the VM's next pod has them`,
      { cause },
    );
  const said = isSvc3Error(cause) ? `: ${messageOf(cause)}` : '';
  return new Svc3Error('BadGateway', `the runner of VM ${name} gave no figures${said}`, { cause });
}
