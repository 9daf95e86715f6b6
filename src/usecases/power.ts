import { group } from '../api/meta.ts';
import { vms } from '../api/resources.ts';
import type { Vm } from '../api/vm.ts';
import { isSvc3Error, Svc3Error } from '../errors.ts';
import type { KubeClient } from '../kube/types.ts';
import { powerOutcome, powerRequest, type PowerRequest, type WrittenVm } from '../wire/power.ts';
import type { PowerCommand } from '../wire/powercommands.ts';
import { vmMessage, vmState } from '../wire/vm.ts';
import { powerTimeoutMs, type Waiter } from './waiter.ts';

export interface PowerEnvironment {
  /** Whose right it is to write the VM's spec. */
  readonly writer: KubeClient;
  readonly wait: Waiter;
  /** The VM that has the name now, as kube-apiserver has it: a cache may show the one before. @throws NotFound */
  now(): Promise<Vm>;
}

export interface PowerOptions {
  readonly wait: boolean;
  /** Called with every state that is seen. */
  progress?(vm: Vm): void;
  /** Called once it is written, with the VM as it is then. */
  noteWritten?(patched: Vm, requested: PowerRequest): void;
}

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
  options: PowerOptions,
): Promise<boolean> {
  const { name } = vm.metadata;
  const { requested, patched } = await ask(environment, vm, command);
  if (powerOutcome(patched, requested, patched) === 'superseded') throw superseded(patched, requested);
  options.noteWritten?.(patched, requested);
  if (!options.wait) return false;
  const waited = await environment.wait(vms, patched, {
    timeoutMs: powerTimeoutMs,
    done(seen) {
      options.progress?.(seen);
      return powerOutcome(seen, requested, patched) !== 'underWay';
    },
  });
  if (waited.kind === 'gone') throw new Svc3Error('NotFound', `vms "${name}" not found`);
  return waited.kind === 'done' && isCarriedOut(waited.object, requested, patched);
}

/**
 * Whether a command has been carried out, by what is seen of its VM; false: it goes on.
 *
 * @param asked - the VM as the command was written
 * @throws Svc3Error Conflict where it has failed, or another request or a deletion came in between
 */
export function isCarriedOut(vm: Vm, requested: PowerRequest, asked: WrittenVm): boolean {
  const outcome = powerOutcome(vm, requested, asked);
  if (outcome === 'superseded') throw superseded(vm, requested);
  if (outcome === 'underWay') return false;
  const { name } = vm.metadata;
  if (vmState(vm) === 'Failed')
    throw new Svc3Error('Conflict', `VM ${name} is Failed: ${vmMessage(vm) ?? 'see its conditions'}`);
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
