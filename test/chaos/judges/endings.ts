/** Invariant: no running guest ended without a cause. Running is a guest whose pod was Ready: somebody may use it. */
import type { Vm } from '../../../src/api/vm.ts';
import { type Fault, type GuestLife, type History, sightsOf, type Sight } from '../record/history.ts';
import { timeline } from './timeline.ts';
import type { Violation } from './violation.ts';

/** A guest is given 60 s to shut down, and whoever asks it to may have been away before. */
const shutdownMs = 100_000;
/** A verb that was asked for may be carried out so much later: the operator may have been away. */
const verbMs = 180_000;
/** Scans are a second apart, and a machine under load is slow to bury its dead. */
const slackMs = 15_000;
/** Kinds of faults that end a guest; all others must not. */
const endings = /^(kill QEMU|kill runner|reboot node)$/;

export function unexplainedEndings(history: History): Violation[] {
  const vms = sightsOf(history, 'vms');
  const pods = sightsOf(history, 'pods');
  return history.guests.flatMap((life) => {
    if (life.until === undefined || !wasReady(life, life.until, pods)) return [];
    if (causeOf(life, life.until, history, vms) !== undefined) return [];
    const { namespace = '?', name = life.vmUid } =
      vms.find(({ object }) => object.metadata.uid === life.vmUid)?.object.metadata ?? {};
    return [
      {
        object: `${namespace}/${name}`,
        at: life.until,
        what: `its guest (QEMU ${life.pid}) on ${life.node} ended after ${Math.round((life.until - life.since) / 1000)} s, and nobody asked for it`,
        evidence: timeline(history, { namespace, name }, life.until - 90_000, life.until + 20_000),
      },
    ];
  });
}

/** Readiness of the pod while this QEMU was there; a start that fails is no end of a running guest. */
function wasReady({ podUid, since }: GuestLife, until: number, pods: readonly Sight<'pods'>[]): boolean {
  return pods.some(
    ({ at, object: { metadata, status } }) =>
      metadata.uid === podUid &&
      at >= since &&
      at < until &&
      status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') === true,
  );
}

/** Why a guest ended, in words; undefined where nothing explains it. */
export function causeOf(
  life: GuestLife,
  until: number,
  history: History,
  vms: readonly Sight<'vms'>[],
): string | undefined {
  return (
    askedFor(life, until, vms) ??
    verbOf(life, until, history) ??
    faultOf(life, until, history.faults) ??
    evictionOf(life, history)
  );
}

/** The VM was being deleted, or was to be stopped or reverted, as kube-apiserver had it. Who deleted it is another question. */
function askedFor(
  { vmUid, lastSeen }: GuestLife,
  until: number,
  vms: readonly Sight<'vms'>[],
): string | undefined {
  const own = vms.filter(({ object }) => object.metadata.uid === vmUid);
  const before = own.filter(({ at }) => at <= until + slackMs);
  if (
    before.some(({ type, object }) => type === 'DELETED' || object.metadata.deletionTimestamp !== undefined)
  )
    return 'the VM was deleted';
  const recent = before.filter(({ at }, index) => at >= lastSeen - shutdownMs || index === before.length - 1);
  const requested = recent.map(({ object }) => requestOf(object)).find((request) => request !== undefined);
  return requested;
}

function requestOf({ spec, status }: Vm): string | undefined {
  if (spec.powerState === 'Stopped') return 'it was to be stopped';
  const isReverted = spec.revertRequest === undefined || spec.revertRequest === status?.revertRequest;
  return isReverted ? undefined : 'it was to be reverted';
}

/** A verb that has ended a guest before this one is used up. */
function verbOf(
  { vmUid, lastSeen, since }: GuestLife,
  until: number,
  { operations, guests }: History,
): string | undefined {
  const isUsedUp = (at: number): boolean =>
    guests.some((other) => other.vmUid === vmUid && (other.until ?? 0) >= at && (other.until ?? 0) <= since);
  const found = operations.find(
    ({ verb, vmUid: uid, at, outcome }) =>
      uid === vmUid &&
      (verb === 'stop' || verb === 'revert' || verb === 'delete') &&
      outcome !== 'refused' &&
      at <= until &&
      at >= lastSeen - verbMs &&
      !isUsedUp(at),
  );
  return found === undefined ? undefined : `${found.verb} was asked for`;
}

function faultOf(life: GuestLife, until: number, faults: readonly Fault[]): string | undefined {
  const found = faults.find(
    (fault) =>
      endings.test(fault.kind) &&
      isOn(fault, life) &&
      fault.at <= until &&
      until <= (fault.until ?? Number.POSITIVE_INFINITY) + slackMs &&
      life.since <= fault.at + slackMs,
  );
  return found === undefined ? undefined : `${found.kind} ${found.target.what}`;
}

function isOn({ kind, target }: Fault, { pid, podUid, node }: GuestLife): boolean {
  if (kind === 'kill QEMU') return target.pids?.includes(pid) === true;
  return kind === 'kill runner' ? target.podUid === podUid : target.node === node;
}

function evictionOf({ podUid, until = 0 }: GuestLife, history: History): string | undefined {
  const pods = sightsOf(history, 'pods').filter(
    ({ object, at }) => object.metadata.uid === podUid && at <= until + slackMs,
  );
  const isEvicted = pods.some(
    ({ object: { status } }) =>
      status?.reason === 'Evicted' ||
      status?.conditions?.some(({ type, status }) => type === 'DisruptionTarget' && status === 'True') ===
        true,
  );
  return isEvicted ? 'its pod was evicted' : undefined;
}
