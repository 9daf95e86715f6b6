import type { PowerRequest, RunnerState } from '../../../api/runner.ts';
import type { Condition } from '../../../api/object.ts';
import type { Vm, VmStatus } from '../../../api/vm.ts';
import { memoryOnDiskRefusal } from '../facts/claim.ts';
import { suspendsTo } from '../facts/hibernation.ts';
import { answeredRequest, type RequestField } from '../facts/requests.ts';
import { requestsMedium } from '../resolve/livesettings.ts';

/** Why a revert that is asked for is not carried out yet: Images that were asked for before are to have the disk as it is. */
export interface RevertHold {
  /** What it waits for, for people. */
  readonly message: string;
  /** Whether one of them is to have the memory of the guest too, which only a guest that runs has. */
  readonly needsGuest: boolean;
}

/** What the requested power state asks of the runner now. */
export type PowerStep =
  | { readonly kind: 'none' }
  | { readonly kind: 'verb'; readonly request: PowerRequest }
  /** The guest turned itself off; the request to run is older than that. */
  | { readonly kind: 'guestStopped' }
  /** QEMU cannot be started any more by itself. */
  | { readonly kind: 'failed' }
  | { readonly kind: 'unsupported'; readonly message: string };

/** Whether the guest is to be started with the settings as they are by then. */
export function isBoot(step: PowerStep): boolean {
  return step.kind === 'verb' && (step.request.action === 'start' || step.request.action === 'restart');
}

const none: PowerStep = { kind: 'none' };

/** Pure: requested state, last report and what the runner says → at most one verb. Nothing is asked of a VM that goes but its end. */
export function powerStep(vm: Vm, state: RunnerState, held?: Pick<RevertHold, 'needsGuest'>): PowerStep {
  if (vm.metadata.deletionTimestamp !== undefined) return none;
  if (state.busy !== undefined || isOnItsWay(state)) return none;
  const revert = vm.spec.revertRequest;
  if (revert !== undefined && isAsked('revertRequest', vm, state)) {
    const stopped = vm.spec.powerState === 'Stopped';
    if (held !== undefined) return whileHeld(vm, state, held);
    return {
      kind: 'verb',
      request: { action: 'revert', revertRequest: revert, ...(stopped ? { stopped } : {}) },
    };
  }
  return towards(vm, state);
}

/**
 * The guest whose work a revert discards goes on only where its disk could not be saved else, whatever the VM is to be after that: no runner copies one that
 * is suspended on its disk, since what the guest has not written yet is in its memory.
 */
function whileHeld(vm: Vm, state: RunnerState, { needsGuest }: Pick<RevertHold, 'needsGuest'>): PowerStep {
  if (vm.spec.powerState === 'Stopped') return towards(vm, state);
  const isOnDisk = state.powerState === 'Suspended' && state.suspendKind === 'Disk';
  if (!needsGuest && !isOnDisk) return none;
  const step = run(vm, state);
  // The revert would boot it as well.
  return step.kind === 'guestStopped' ? start(vm, state) : step;
}

function towards(vm: Vm, state: RunnerState): PowerStep {
  switch (vm.spec.powerState) {
    case 'Running':
      return run(vm, state);
    case 'Stopped':
      return isStopped(state) ? none : { kind: 'verb', request: { action: 'stop' } };
    default:
      return suspend(vm, state);
  }
}

/** The runner boots by itself when its pod starts, and ends by itself when its pod ends. */
function isOnItsWay({ reason }: RunnerState): boolean {
  return reason === 'Starting' || reason === 'ShuttingDown';
}

/** A runner whose guest went down by itself is told that it is to be so: else it does not know later that it is to be so no more. */
function isStopped({ powerState, reason }: RunnerState): boolean {
  return powerState === 'Stopped' && reason !== 'GuestShutdown';
}

function run(vm: Vm, state: RunnerState): PowerStep {
  switch (state.powerState) {
    case 'Running':
      return isAsked('restartRequest', vm, state) ? restart(vm) : none;
    case 'Suspended':
      return { kind: 'verb', request: { action: 'resume' } };
    case 'Stopped':
      if (state.reason !== 'GuestShutdown' || wasToBeStopped(vm)) return start(vm, state);
      return isBootAsked(vm, state) ? start(vm, state) : { kind: 'guestStopped' };
    default:
      // Its guest is there, and is not started: only a restart ends it.
      if (state.reason === 'DiskFull') return isAsked('restartRequest', vm, state) ? restart(vm) : none;
      // Whoever asks need not wait for the backoff before the next restart.
      if (isBootAsked(vm, state)) return start(vm, state);
      // Whether the status was written since the medium was taken out says nothing of what keeps the guest from starting.
      if (state.reason === 'IsoMissing' && !requestsMedium(vm)) return start(vm, state);
      if (state.retrying) return none;
      return isSpecNewer(vm) ? start(vm, state) : { kind: 'failed' };
  }
}

function start(vm: Vm, state: RunnerState): PowerStep {
  const { startRequest, restartRequest } = vm.spec;
  const request = {
    ...(isAsked('startRequest', vm, state) ? { startRequest } : {}),
    // Else it would be carried out on the guest that has just been started.
    ...(isAsked('restartRequest', vm, state) ? { restartRequest } : {}),
  };
  return { kind: 'verb', request: { action: 'start', ...request } };
}

function restart({ spec: { restartRequest } }: Vm): PowerStep {
  return { kind: 'verb', request: { action: 'restart', restartRequest } };
}

function isBootAsked(vm: Vm, state: RunnerState): boolean {
  return isAsked('startRequest', vm, state) || isAsked('restartRequest', vm, state);
}

/**
 * Not carried out by the runner, and not reported as answered: a start that was asked for while the guest ran is, and what the runner has written
 * down lies on the VM's disk, which may have been restored from before that.
 */
function isAsked(member: RequestField, vm: Vm, state: RunnerState): boolean {
  const asked = vm.spec[member];
  return asked !== undefined && asked !== state[member] && asked !== answeredRequest(vm, member);
}

function suspend(vm: Vm, state: RunnerState): PowerStep {
  const suspendTo = suspendsTo(vm);
  switch (state.powerState) {
    case 'Suspended':
      if (suspendTo === 'Memory' || state.suspendKind === 'Disk') return none;
      return suspendToDisk(vm);
    case 'Running':
      if (suspendTo === 'Disk') return suspendToDisk(vm);
      return { kind: 'verb', request: { action: 'suspend' } };
    default:
      return { kind: 'unsupported', message: 'spec.powerState: a VM that does not run cannot be suspended' };
  }
}

function suspendToDisk({ status }: Vm): PowerStep {
  const refusal = status?.effective === undefined ? undefined : memoryOnDiskRefusal(status.effective);
  if (refusal !== undefined) return { kind: 'unsupported', message: `spec.suspendTo: ${refusal}` };
  return { kind: 'verb', request: { action: 'suspend', suspendTo: 'Disk' } };
}

/** Whether the guest that is off was reported as it was to be: there is another request since. */
function wasToBeStopped({ status }: Vm): boolean {
  return status?.powerState === 'Stopped' && readyOf(status)?.reason === 'Stopped';
}

/** Whether the spec has changed since a crash was reported: it may be what heals it. */
function isSpecNewer({ metadata, status }: Vm): boolean {
  const ready = readyOf(status);
  return ready?.reason === 'Crashed' && (ready.observedGeneration ?? 0) < (metadata.generation ?? 0);
}

function readyOf(status: VmStatus | undefined): Condition | undefined {
  return status?.conditions?.find(({ type }) => type === 'Ready');
}
