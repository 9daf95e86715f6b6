import { longestMessage } from '../api/condition.ts';
import type { Condition } from '../api/object.ts';
import { shortened } from '../errors.ts';

/** A condition as a controller decides it; when it changed is found out here. */
export type DecidedCondition = Omit<Condition, 'lastTransitionTime'>;

/** metav1.Time: RFC 3339 in whole seconds, UTC. */
export function formatTime(time: Date): string {
  return `${time.toISOString().slice(0, 19)}Z`;
}

/** metav1.MicroTime: six digits, or kube-apiserver refuses it. */
export function formatMicroTime(time: Date): string {
  return `${time.toISOString().slice(0, -1)}000Z`;
}

export function findCondition(
  conditions: readonly Condition[] | undefined,
  type: string,
): Condition | undefined {
  return conditions?.find((condition) => condition.type === type);
}

export function isTrue(conditions: readonly Condition[] | undefined, type: string): boolean {
  return findCondition(conditions, type)?.status === 'True';
}

function isSame(one: DecidedCondition, other: DecidedCondition): boolean {
  return (
    one.status === other.status &&
    one.reason === other.reason &&
    one.message === other.message &&
    one.observedGeneration === other.observedGeneration
  );
}

/**
 * The conditions with one of them set: in its place, or at the end. `lastTransitionTime` moves only when the status
 * changes (API conventions). Where nothing changes the very same array comes back. A message that quotes others is shortened: kube-apiserver refuses a
 * status for one that is too long, with all else that it says.
 */
export function setCondition(
  conditions: readonly Condition[] | undefined,
  said: DecidedCondition,
  now: Date | string,
): Condition[] {
  const decided = { ...said, message: shortened(said.message, longestMessage) };
  const known = (conditions ?? []) as Condition[];
  const old = findCondition(known, decided.type);
  if (old !== undefined && isSame(old, decided)) return known;
  const nowText = typeof now === 'string' ? now : formatTime(now);
  const lastTransitionTime =
    old !== undefined && old.status === decided.status ? old.lastTransitionTime : nowText;
  const next: Condition = { ...decided, lastTransitionTime };
  return old === undefined
    ? [...known, next]
    : known.map((condition) => (condition === old ? next : condition));
}

/** The conditions without one of them. */
export function removeCondition(conditions: readonly Condition[] | undefined, type: string): Condition[] {
  const known = (conditions ?? []) as Condition[];
  return known.some((condition) => condition.type === type)
    ? known.filter((condition) => condition.type !== type)
    : known;
}
