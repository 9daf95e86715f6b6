import { randomUUID } from 'node:crypto';
import type { PowerState, Vm, VmStatus } from '../api/vm.ts';
import { Svc3Error } from '../errors.ts';
import { type PowerCommand, powerVerbs } from './powercommands.ts';
import { conditionOf, fits, isDownByItself, requireStaying, vmState } from './vm.ts';

export interface PowerRequest {
  readonly powerState: PowerState;
  readonly revertRequest?: string | undefined;
  readonly startRequest?: string | undefined;
  readonly restartRequest?: string | undefined;
}

/**
 * What of a VM's spec a command changes. A command that has been asked for already and is under way may be repeated. A start
 * is asked for once whatever the spec says: a guest that went down by itself leaves it at Running.
 * @throws Svc3Error Conflict when the command does not fit the VM as it is, or the VM is being deleted
 */
export function powerRequest(vm: Vm, command: PowerCommand): PowerRequest {
  requireStaying(vm, command);
  const verb = powerVerbs[command];
  const state = vmState(vm);
  const name = vm.metadata.name;
  const isOnce = command === 'revert' || command === 'restart';
  const underWay = !isOnce && vm.spec.powerState === verb.to && state !== verb.to;
  const staysDown = command === 'stop' && isDownByItself(vm);
  if (!fits(vm, command) && !staysDown && !(underWay && state !== 'Failed' && state !== 'Pending'))
    throw new Svc3Error(
      'Conflict',
      `VM ${name} is ${state}, ${command} needs it to be ${verb.from.join(' or ')}`,
      {
        details: {
          group: 'svc3.dev',
          kind: 'vms',
          name,
          causes: [{ field: 'command', message: `the VM is ${state}` }],
        },
      },
    );
  if (command === 'revert') return { powerState: verb.to, revertRequest: randomUUID() };
  if (command === 'start') return { powerState: verb.to, startRequest: randomUUID() };
  if (command === 'restart') return { powerState: verb.to, restartRequest: randomUUID() };
  return { powerState: verb.to };
}

/** Reasons of Ready while what the VM is does not last: a verb is being carried out, or its pod begins. */
const passing: Readonly<Record<PowerState, ReadonlySet<string>>> = {
  Running: new Set(['Stopping', 'Suspending']),
  Stopped: new Set(['Starting', 'Stopping', 'Restarting', 'Suspending', 'Resuming', 'Reverting']),
  Suspended: new Set(['Starting', 'Resuming', 'Suspending']),
};

/** Whether the operator has carried out what was written with this generation. */
export function powerDone(vm: Vm, requested: PowerRequest, generation: number): boolean {
  if ((vm.status?.observedGeneration ?? 0) < generation) return false;
  const state = vmState(vm);
  if (state === 'Failed') return isFailedSince(vm, requested);
  if (requested.revertRequest !== undefined && vm.status?.revertRequest !== requested.revertRequest)
    return false;
  if (requested.restartRequest !== undefined && vm.status?.restartRequest !== requested.restartRequest)
    return false;
  return state === requested.powerState && !isPassing(vm, requested.powerState);
}

/** Of a VM, as a request was written into it, what tells later whether that is done. */
export interface WrittenVm {
  readonly metadata: { readonly generation?: number | undefined };
  readonly status?: Pick<VmStatus, 'revertRequest' | 'restartRequest'> | undefined;
}

/** `superseded`: nobody carries it out any more, since the spec asks for something else by now or the VM is being deleted. */
export type PowerOutcome = 'underWay' | 'done' | 'superseded';

/**
 * What has become of a request by what is seen of its VM. Where the same was asked for once more, that stands for it.
 *
 * @param asked - the VM as the request was written
 */
export function powerOutcome(seen: Vm, requested: PowerRequest, asked: WrittenVm): PowerOutcome {
  const { generation = 0 } = asked.metadata;
  if (powerDone(seen, requested, generation)) return 'done';
  if (seen.metadata.deletionTimestamp !== undefined) return 'superseded';
  const now = requestedNow(seen, requested, asked);
  if (now === undefined) return 'superseded';
  return powerDone(seen, now, generation) ? 'done' : 'underWay';
}

function requestedNow(seen: Vm, requested: PowerRequest, asked: WrittenVm): PowerRequest | undefined {
  const { generation = 0 } = seen.metadata;
  if (generation <= (asked.metadata.generation ?? 0)) return requested;
  const { powerState, revertRequest, startRequest, restartRequest } = seen.spec;
  if (powerState !== requested.powerState) return undefined;
  const isTakenBack = (member: 'revertRequest' | 'restartRequest'): boolean =>
    // What was carried out before is not carried out again.
    requested[member] !== undefined && [undefined, asked.status?.[member]].includes(seen.spec[member]);
  if (isTakenBack('revertRequest') || isTakenBack('restartRequest')) return undefined;
  return {
    powerState,
    ...(requested.revertRequest === undefined || revertRequest === undefined ? {} : { revertRequest }),
    ...(requested.startRequest === undefined || startRequest === undefined ? {} : { startRequest }),
    ...(requested.restartRequest === undefined || restartRequest === undefined ? {} : { restartRequest }),
  };
}

/** Whether the VM is going to be something else before it is this for good, as one that is stopped while its guest is on its way up. */
function isPassing({ status }: Vm, powerState: PowerState): boolean {
  const ready = conditionOf(status?.conditions, 'Ready');
  // A pod without a node has no guest.
  const isNowhere = conditionOf(status?.conditions, 'Scheduled')?.status === 'False';
  return ready?.status === 'False' && passing[powerState].has(ready.reason) && !isNowhere;
}

/** Whether the failure is what came of the request, and not the one before it that is being mended. */
function isFailedSince({ status }: Vm, { startRequest, restartRequest }: PowerRequest): boolean {
  if (status?.conditions?.some(({ type, status: is }) => type === 'Reconciling' && is === 'True') === true)
    return false;
  // One that never ran has no runner that could answer a request.
  if (status?.powerState !== 'Failed') return true;
  const isStarted = startRequest === undefined || status.startRequest === startRequest;
  return isStarted && (restartRequest === undefined || status.restartRequest === restartRequest);
}
