import type { Image, ImageStatus, Iso } from '../api/image.ts';
import { formatQuantity } from '../api/quantity.ts';
import { conditionTypes } from '../api/reasons.ts';
import type { WorkDone } from '../api/worker.ts';
import { removeCondition, setCondition } from '../controller/conditions.ts';
import type { Verdict } from './decide.ts';
import { referenceOf, type Place } from './place.ts';

const { ready, stalled, reconciling } = conditionTypes;
type Conditions = NonNullable<ImageStatus['conditions']>;

/** What a piece of work made, as status fields. */
export interface Stored {
  readonly digest: string;
  readonly reference: string;
  readonly size: string;
  readonly storedSize: string;
  readonly format: 'qcow2' | 'raw' | 'iso';
  readonly architecture: 'amd64' | 'arm64';
}

export function storedBy(result: WorkDone, place: Place): Stored {
  return {
    digest: result.digest,
    reference: referenceOf(place, result.digest),
    size: sizeText(result.size),
    storedSize: formatQuantity(result.storedSize),
    format: result.format,
    architecture: result.architecture,
  };
}

/** As people say sizes: 120G is no binary number. */
export function sizeText(bytes: number): string {
  const isBinary = bytes % 2 ** 20 === 0;
  for (const [unit, factor] of [
    ['T', 1e12],
    ['G', 1e9],
    ['M', 1e6],
  ] as const) {
    if (!isBinary && bytes % factor === 0) return `${bytes / factor}${unit}`;
  }
  return formatQuantity(bytes);
}

function generationOf({ metadata }: Image | Iso): number {
  return metadata.generation ?? 0;
}

/** The disk is in the store: what was made now, or what was there before (a description has changed). */
export function storedStatus(
  disk: Image | Iso,
  now: Date,
  made?: { stored: Stored; request: string | undefined },
): ImageStatus {
  const { conditions: old, progress: _progress, worker: _worker, ...known } = disk.status ?? {};
  const observedGeneration = generationOf(disk);
  const message = `stored as ${made?.stored.digest ?? known.digest}`;
  const isReady = { type: ready, status: 'True', reason: 'Stored', message, observedGeneration } as const;
  let conditions = setCondition(old, isReady, now);
  conditions = removeCondition(removeCondition(conditions, stalled), reconciling);
  return {
    ...known,
    ...made?.stored,
    ...(made?.request === undefined ? {} : { request: made.request }),
    observedGeneration,
    conditions,
  };
}

/**
 * Something other than "stored" is to be said. Where there is a version from before (a commit is under way or failed), that
 * one stays usable, so Ready stays True; `observedGeneration` stays behind until the wish is carried out or refused.
 */
export function verdictStatus(
  disk: Image | Iso,
  verdict: Verdict,
  now: Date,
  extra: { worker?: string | undefined; request?: string } = {},
): ImageStatus {
  const { conditions: old, progress: _progress, worker: _worker, ...known } = disk.status ?? {};
  const generation = generationOf(disk);
  const hasVersion = known.digest !== undefined && disk.metadata.deletionTimestamp === undefined;
  const isStalled = verdict.isStalled === true;
  const { reason, message } = verdict;
  const observedGeneration = hasVersion && !isStalled ? known.observedGeneration : generation;
  let conditions: Conditions = hasVersion
    ? (old ?? [])
    : setCondition(
        old,
        { type: ready, status: 'False', reason, message, observedGeneration: generation },
        now,
      );
  conditions = isStalled
    ? setCondition(
        conditions,
        { type: stalled, status: 'True', reason, message, observedGeneration: generation },
        now,
      )
    : removeCondition(conditions, stalled);
  // An upload that has not come is nothing that svc3 works on.
  const isIdle = isStalled || reason === 'AwaitingUpload' || reason === 'InUse';
  conditions = isIdle
    ? removeCondition(conditions, reconciling)
    : setCondition(
        conditions,
        { type: reconciling, status: 'True', reason: 'Progressing', message, observedGeneration: generation },
        now,
      );
  return {
    ...known,
    ...(extra.request === undefined ? {} : { request: extra.request }),
    ...(extra.worker === undefined ? {} : { worker: extra.worker }),
    ...(verdict.progress === undefined ? {} : { progress: verdict.progress }),
    ...(observedGeneration === undefined ? {} : { observedGeneration }),
    conditions,
  };
}

/** Same but for the order of fields. */
export function isSameStatus(one: ImageStatus | undefined, other: ImageStatus): boolean {
  if (one === undefined) return false;
  const keys = new Set([...Object.keys(one), ...Object.keys(other)]) as Set<keyof ImageStatus>;
  return [...keys].every((key) => JSON.stringify(one[key]) === JSON.stringify(other[key]));
}
