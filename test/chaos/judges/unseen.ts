/** Invariant: the run had something to judge. Where nothing was tried, no other one can be violated. */
import type { History, Operation } from '../record/history.ts';

/**
 * What is asked for so often in vain does not work. A few times in a row are chance: a credential that is removed need not be there, and a fault
 * lasts for half a minute.
 */
const enoughTries = 10;

/** A guest that has run for so long has booted, also where many of them share two processors. */
const bootedMs = 2 * 60_000;

/** What every run has to have seen and this one has not, one sentence each. */
export function unseen(history: History): string[] {
  const { faults, guests, store } = history;
  return [
    ...(faults.some(({ problem }) => problem === undefined)
      ? []
      : [`no fault was injected, ${faults.length} were tried`]),
    ...(guests.length > 0 ? [] : ['no guest ran']),
    ...(store.some(({ repositories }) => repositories.size > 0)
      ? []
      : [`the registry's folder held nothing, in ${store.length} looks`]),
    ...vainVerbs(history),
  ];
}

function vainVerbs(history: History): string[] {
  const verbs = new Set(history.operations.map(({ verb }) => verb));
  return [...verbs].flatMap((verb) => {
    const all = history.operations.filter((each) => each.verb === verb);
    const tries = all.filter((each) => isFair(history, each)).length;
    if (tries < enoughTries || all.some(({ outcome }) => outcome === 'accepted')) return [];
    return [`${verb} was asked for ${tries} times and never accepted; last: ${all.at(-1)?.answer}`];
  });
}

/** Whether it could have been done: a guest that boots cannot be reached yet. */
function isFair({ guests }: History, { verb, vmUid, at }: Operation): boolean {
  if (verb !== 'mark') return true;
  return guests.some(
    (life) =>
      life.vmUid === vmUid && life.since <= at - bootedMs && (life.until === undefined || life.until > at),
  );
}
