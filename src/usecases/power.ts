import { group } from '../api/meta.ts';
import { vms } from '../api/resources.ts';
import type { Vm } from '../api/vm.ts';
import { isSvc3Error, Svc3Error } from '../errors.ts';
import type { KubeClient } from '../kube/types.ts';
import { powerOutcome, powerRequest, type PowerRequest } from '../wire/power.ts';
import type { PowerCommand } from '../wire/powercommands.ts';
import { vmMessage, vmState } from '../wire/vm.ts';
import type { Waiter } from './waiter.ts';

export interface PowerEnvironment {
  /** Whose right it is to write the VM's spec. */
  readonly writer: KubeClient;
  readonly wait: Waiter;
  /** The VM that has the name now, as kube-apiserver has it: a cache may show the one before. @throws NotFound */
  now(): Promise<Vm>;
}

const timeoutMs = 120_000;

/**
 * Writes what a command asks for into the VM's spec and, with `wait`, waits until the operator has carried it out, 2 minutes at most.
 *
 * @returns whether it has been carried out; false: it goes on.
 * @throws Svc3Error Conflict when the command does not fit the VM's state, has failed, or another request or a deletion came in between; NotFound when the VM is gone
 */
export async function execute(
  environment: PowerEnvironment,
  vm: Vm,
  command: PowerCommand,
  options: { readonly wait: boolean; progress?(vm: Vm): void },
): Promise<boolean> {
  const { name } = vm.metadata;
  const { requested, patched } = await ask(environment, vm, command);
  if (powerOutcome(patched, requested, patched) === 'superseded') throw superseded(patched, requested);
  if (!options.wait) return false;
  const waited = await environment.wait(vms, patched, {
    timeoutMs,
    done(seen) {
      options.progress?.(seen);
      return powerOutcome(seen, requested, patched) !== 'underWay';
    },
  });
  if (waited.kind === 'gone') throw new Svc3Error('NotFound', `vms "${name}" not found`);
  if (waited.kind !== 'done') return false;
  const { object } = waited;
  if (powerOutcome(object, requested, patched) === 'superseded') throw superseded(object, requested);
  if (vmState(object) === 'Failed')
    throw new Svc3Error('Conflict', `VM ${name} is Failed: ${vmMessage(object) ?? 'see its conditions'}`);
  return true;
}

function superseded(vm: Vm, requested: PowerRequest): Svc3Error {
  const { name } = vm.metadata;
  const message = `another request for VM ${name} came in between: ${whyNot(vm, requested)}`;
  return new Svc3Error('Conflict', message, { details: { group, kind: 'vms', name } });
}

function whyNot({ metadata, spec }: Vm, { powerState }: PowerRequest): string {
  if (metadata.deletionTimestamp !== undefined) return 'it is being deleted';
  return spec.powerState === powerState
    ? 'what was asked for was taken back'
    : `it is to be ${spec.powerState}`;
}

interface Asked {
  readonly requested: PowerRequest;
  readonly patched: Vm;
}

async function ask(environment: PowerEnvironment, seen: Vm, command: PowerCommand): Promise<Asked> {
  try {
    return await askOf(environment, seen, command);
  } catch (error) {
    if (!isSvc3Error(error, 'Conflict')) throw error;
    const current = await environment.now();
    if (current.metadata.uid === seen.metadata.uid) throw error;
    return askOf(environment, current, command);
  }
}

/** Of this very VM: what it is decides whether the command fits. */
async function askOf({ writer }: PowerEnvironment, vm: Vm, command: PowerCommand): Promise<Asked> {
  const { name, namespace, uid } = vm.metadata;
  const requested = powerRequest(vm, command);
  const body = { metadata: { uid }, spec: requested };
  return { requested, patched: await writer.patch(vms, { name, namespace }, { type: 'merge', body }) };
}
