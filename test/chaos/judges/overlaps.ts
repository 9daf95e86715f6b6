/** Invariants: never two guests on one disk, never two guests of one VM, never two GPU VMs on a node. */
import type { Pod } from '../../../src/api/core.ts';
import { extendedResources } from '../../../src/api/meta.ts';
import { type GuestLife, type History, sightsOf } from '../record/history.ts';
import { clock, type Violation } from './violation.ts';

interface Span {
  readonly key: string;
  readonly name: string;
  readonly from: number;
  readonly until: number;
}

export function sharedDisks({ guests }: History): Violation[] {
  const spans = guests.flatMap((life) => life.disks.map((disk) => ({ ...spanOf(life), key: disk })));
  return overlaps(spans).map(([one, other]) => violation(`disk ${one.key}`, one, other));
}

export function twinGuests({ guests }: History): Violation[] {
  const spans = guests.map((life) => ({ ...spanOf(life), key: life.vmUid }));
  return overlaps(spans).map(([one, other]) => violation(`VM ${one.key}`, one, other));
}

/** By the scans that saw them: the last one, not the first that did not. */
function spanOf({ pid, podUid, node, since, lastSeen }: GuestLife): Omit<Span, 'key'> {
  return { name: `QEMU ${pid} of pod ${podUid} on ${node}`, from: since, until: lastSeen };
}

/** From being bound to a node until its containers have ended or it is gone. */
export function sharedGpus(history: History): Violation[] {
  return overlaps(gpuPods(history)).map(([one, other]) => violation(`GPU of ${one.key}`, one, other));
}

/** Pods that were given a node's GPUs. */
export function gpuPods(history: History): Span[] {
  const spans = new Map<string, Span>();
  for (const { at, type, object } of sightsOf(history, 'pods')) {
    const { uid, namespace, name } = object.metadata;
    const node = object.spec.nodeName;
    if (!wantsGpu(object) || node === undefined) continue;
    const known = spans.get(uid);
    const isOver = known !== undefined && known.until < Number.POSITIVE_INFINITY;
    const hasEnded =
      type === 'DELETED' || object.status?.phase === 'Failed' || object.status?.phase === 'Succeeded';
    const until = isOver ? known.until : hasEnded ? at : Number.POSITIVE_INFINITY;
    spans.set(uid, { key: node, name: `pod ${namespace}/${name}`, from: known?.from ?? at, until });
  }
  return [...spans.values()];
}

function wantsGpu({ spec }: Pod): boolean {
  return spec.containers.some(
    ({ resources }) => Number(resources?.limits?.[extendedResources.gpuPassthrough] ?? 0) > 0,
  );
}

/** Pairs of the same key that were there at the same time. */
function overlaps(spans: readonly Span[]): [Span, Span][] {
  const sorted = spans.toSorted((a, b) => a.from - b.from);
  return sorted.flatMap((one, index) =>
    sorted
      .slice(index + 1)
      .filter((other) => other.key === one.key && other.from <= one.until && other.until >= one.from)
      .map((other): [Span, Span] => [one, other]),
  );
}

function violation(object: string, one: Span, other: Span): Violation {
  const line = ({ name, from, until }: Span): string =>
    `${name}: ${clock(from)} to ${Number.isFinite(until) ? clock(until) : 'the end'}`;
  const at = Math.max(one.from, other.from);
  return {
    object,
    at,
    what: `${one.name} and ${other.name} at the same time`,
    evidence: [line(one), line(other)],
  };
}
