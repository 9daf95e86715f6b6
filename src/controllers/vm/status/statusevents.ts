import type { VmStatus } from '../../../api/vm.ts';
import { readyReasons } from '../../../api/reasons.ts';
import type { Condition } from '../../../api/object.ts';
import { isPersistent } from '../facts/claim.ts';

export interface StatusEvent {
  readonly type: 'Normal' | 'Warning';
  readonly reason: string;
  readonly message: string;
}

/** Steps of an ordinary life that have no event. */
const silent = new Set([
  'AskingRegistry',
  'AwaitingScheduler',
  'Claiming',
  'PullingImage',
  'Prepared',
  'Booting',
  'GuestNotReady',
  'NotRunning',
  'Starting',
  'Stopping',
  'Suspending',
  'Resuming',
  'Restarting',
  'Reverting',
  'Pending',
  'Terminating',
  'Progressing',
  'StartedFromMemory',
  'MemoryUsed',
  ...readyReasons,
]);

/** Events of the way from one status to the next: one for each condition whose reason changed, named after the reason. */
export function eventsBetween(before: VmStatus | undefined, after: VmStatus): StatusEvent[] {
  const events: StatusEvent[] = [];
  for (const condition of after.conditions ?? []) {
    const old = before?.conditions?.find(({ type }) => type === condition.type);
    if (old?.reason === condition.reason && old.status === condition.status) continue;
    const event = eventOf(condition, old);
    if (event !== undefined && !events.some(({ reason }) => reason === event.reason)) events.push(event);
  }
  if (before?.powerState !== undefined && before.powerState !== after.powerState) {
    const change = powerEvent(before, after);
    if (change !== undefined) events.push(change);
  }
  const lost = diskEvent(before, after);
  if (lost !== undefined) events.push(lost);
  const warning = warningEvent(before, after);
  if (warning !== undefined) events.push(warning);
  return inOne(events);
}

/** A start that is told in one status is told in one Event: every write counts while a thousand VMs start. */
function inOne(events: readonly StatusEvent[]): StatusEvent[] {
  const scheduled = events.find(({ reason }) => reason === 'Scheduled');
  const booted = events.find(({ reason }) => reason === 'Booted');
  if (scheduled === undefined || booted === undefined) return [...events];
  const told = events.filter((event) => event !== scheduled && event !== booted);
  return [{ ...booted, message: `${scheduled.message}; ${booted.message}` }, ...told];
}

/** What of the spec has no effect, where no condition says it: whoever applies a file does not look at the status. */
function warningEvent(before: VmStatus | undefined, after: VmStatus): StatusEvent | undefined {
  const known = new Set([
    ...(before?.warnings ?? []),
    ...(after.conditions ?? []).map(({ message }) => message),
  ]);
  const fresh = (after.warnings ?? []).filter((warning) => !known.has(warning));
  return fresh.length === 0
    ? undefined
    : { type: 'Warning', reason: 'SpecWarning', message: fresh.join('; ') };
}

/** The pod that the guest ran in goes, and with it an Ephemeral disk: once per pod. */
function diskEvent(before: VmStatus | undefined, after: VmStatus): StatusEvent | undefined {
  const old = before?.runner?.podUid;
  if (old === undefined || before?.powerState === undefined || after.runner?.podUid === old) return undefined;
  if (after.effective === undefined || isPersistent(after.effective)) return undefined;
  const message = `the changes to the disk went with pod ${before.podName ?? ''}${before.node === undefined ? '' : ` on node ${before.node}`} (spec.disk.storage is Ephemeral): the VM boots fresh from its image`;
  return { type: 'Warning', reason: 'DiskReset', message };
}

function eventOf(
  { type, status, reason, message }: Condition,
  old: Condition | undefined,
): StatusEvent | undefined {
  if (silent.has(reason)) return undefined;
  if (type === 'Booted' && status === 'True')
    return old?.status === 'True' ? undefined : { type: 'Normal', reason: 'Booted', message };
  const good = status === 'True' && type !== 'Stalled' && reason !== 'IdentityShared';
  return { type: good ? 'Normal' : 'Warning', reason, message };
}

function powerEvent(before: VmStatus, after: VmStatus): StatusEvent | undefined {
  const ready = after.conditions?.find(({ type }) => type === 'Ready');
  if (ready === undefined || !readyReasons.has(ready.reason) || after.powerState === 'Running')
    return undefined;
  if (after.powerState === undefined || after.powerState === before.powerState) return undefined;
  return { type: 'Normal', reason: after.powerState, message: ready.message };
}
