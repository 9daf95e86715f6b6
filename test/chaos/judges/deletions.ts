/** Invariant: nobody but its user deletes a VM, except one that never ran, at its start deadline. */
import { type History, type Sight, sightsOf } from '../record/history.ts';
import { timeline } from './timeline.ts';
import type { Violation } from './violation.ts';

export function unaskedDeletions(history: History): Violation[] {
  const vms = sightsOf(history, 'vms');
  const gone = firstOfEach(
    vms.filter(({ type, object }) => type === 'DELETED' || object.metadata.deletionTimestamp !== undefined),
  );
  return gone.flatMap(({ at, object }) => {
    const { namespace, name, uid } = object.metadata;
    const isAsked = history.operations.some(
      (operation) =>
        operation.verb === 'delete' &&
        operation.outcome !== 'refused' &&
        operation.vmUid === uid &&
        operation.at <= at,
    );
    const ranSince = readySince(history, uid);
    if (isAsked || (hasMissedDeadline(history, uid) && (ranSince === undefined || ranSince > at))) return [];
    const had =
      ranSince === undefined
        ? 'it never ran'
        : `its pod was Ready ${Math.round((at - ranSince) / 1000)} s before`;
    return [
      {
        object: `${namespace}/${name}`,
        at,
        what: `it was deleted, and its user had not asked for it; ${had}`,
        evidence: timeline(history, { namespace, name }, at - 120_000, at + 5_000),
      },
    ];
  });
}

function firstOfEach(sights: readonly Sight<'vms'>[]): Sight<'vms'>[] {
  const seen = new Set<string | undefined>();
  return sights.filter(({ object }) => {
    const isNew = !seen.has(object.metadata.uid);
    seen.add(object.metadata.uid);
    return isNew;
  });
}

function hasMissedDeadline(history: History, uid: string): boolean {
  return sightsOf(history, 'events').some(
    ({ object }) => object.reason === 'StartDeadlineExceeded' && object.regarding?.uid === uid,
  );
}

/** When a pod of the VM was first seen Ready. */
function readySince(history: History, uid: string): number | undefined {
  return sightsOf(history, 'pods').find(
    ({ object: { metadata, status } }) =>
      metadata.ownerReferences?.some((owner) => owner.uid === uid) === true &&
      status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') === true,
  )?.at;
}
