import { randomUUID } from 'node:crypto';
import type { PowerState, Vm } from '../api/vm.ts';
import { Svc3Error } from '../errors.ts';
import { vmState, type VmState } from './vm.ts';

export const powerCommands = ['start', 'stop', 'resume', 'suspend', 'revert'] as const;
export type PowerCommand = (typeof powerCommands)[number];

interface Verb {
  readonly from: readonly VmState[];
  readonly to: PowerState;
  readonly done: string;
}

/** From which observed state each command may be given, and what it leads to. */
export const powerVerbs: Readonly<Record<PowerCommand, Verb>> = {
  start: { from: ['Stopped', 'Failed'], to: 'Running', done: 'started' },
  stop: { from: ['Running', 'Suspended', 'Failed'], to: 'Stopped', done: 'stopped' },
  resume: { from: ['Suspended'], to: 'Running', done: 'resumed' },
  suspend: { from: ['Running'], to: 'Suspended', done: 'suspended' },
  revert: { from: ['Running', 'Stopped', 'Suspended', 'Failed'], to: 'Running', done: 'reverted' },
};

export interface PowerRequest {
  readonly powerState: PowerState;
  readonly revertRequest?: string;
  readonly startRequest?: string;
}

/**
 * What of a VM's spec a command changes. A command that has been asked for already and is under way may be repeated. A start
 * is asked for once whatever the spec says: a guest that went down by itself leaves it at Running.
 * @throws Svc3Error Conflict when the command does not fit the observed state
 */
export function powerRequest(vm: Vm, command: PowerCommand): PowerRequest {
  const verb = powerVerbs[command];
  const state = vmState(vm);
  const name = vm.metadata.name ?? '';
  const underWay = command !== 'revert' && vm.spec.powerState === verb.to && state !== verb.to;
  if (!verb.from.includes(state) && !(underWay && state !== 'Failed' && state !== 'Pending')) {
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
  }
  if (command === 'revert') return { powerState: verb.to, revertRequest: randomUUID() };
  if (command === 'start') return { powerState: verb.to, startRequest: randomUUID() };
  return { powerState: verb.to };
}

/** Whether the operator has carried out what was written with this generation. */
export function powerDone(vm: Vm, requested: PowerRequest, generation: number): boolean {
  if ((vm.status?.observedGeneration ?? 0) < generation) return false;
  const state = vmState(vm);
  if (state === 'Failed') return isFailedSince(vm, requested);
  if (requested.revertRequest !== undefined && vm.status?.revertRequest !== requested.revertRequest)
    return false;
  return state === requested.powerState;
}

/** Whether the failure is what came of the request, and not the one before it that is being mended. */
function isFailedSince({ status }: Vm, { startRequest }: PowerRequest): boolean {
  if (status?.conditions?.some(({ type, status: is }) => type === 'Reconciling' && is === 'True') === true)
    return false;
  // One that never ran has no runner that could answer a request.
  return (
    startRequest === undefined || status?.powerState !== 'Failed' || status.startRequest === startRequest
  );
}
