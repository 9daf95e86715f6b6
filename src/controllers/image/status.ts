import type { Image, ImageMemory, ImageStatus, Iso } from '../../api/image.ts';
import { formatQuantity } from '../../api/quantity.ts';
import { conditionTypes, diskRefusals, diskWaitsForPerson, diskWaitsForUpload } from '../../api/reasons.ts';
import type { WorkDone } from '../../api/worker.ts';
import { findCondition, removeCondition, setCondition } from '../../controller/conditions.ts';
import { readyStatus, type Progress } from '../../controller/kstatus.ts';
import type { Verdict } from './decide.ts';
import { commitOf, type Taken } from './names.ts';
import { referenceOf, type RepositoryPath } from './repositorypath.ts';

const { ready, committed, stalled, reconciling } = conditionTypes;
type Conditions = NonNullable<ImageStatus['conditions']>;
type Condition = Conditions[number];

/** What a piece of work made, as status fields. */
export interface Stored {
  readonly digest: string;
  readonly reference: string;
  readonly size: string;
  readonly storedSize: string;
  readonly format: 'qcow2' | 'raw' | 'iso';
  readonly architecture: 'amd64' | 'arm64';
  readonly memory?: ImageMemory;
}

export function storedBy(result: WorkDone, path: RepositoryPath): Stored {
  return {
    digest: result.digest,
    reference: referenceOf(path, result.digest),
    size: sizeText(result.size),
    storedSize: formatQuantity(result.storedSize),
    format: result.format,
    architecture: result.architecture,
    ...memoryOf(result),
  };
}

function memoryOf({ digest, memory }: WorkDone): Pick<Stored, 'memory'> {
  if (memory === undefined) return {};
  const { bytes, ...found } = memory;
  return { memory: { ...found, digest, size: formatQuantity(bytes) } };
}

/** As people say sizes: 120G is no binary number. */
export function sizeText(bytes: number): string {
  const isBinary = bytes % 2 ** 20 === 0;
  for (const [unit, factor] of [
    ['T', 1e12],
    ['G', 1e9],
    ['M', 1e6],
  ] as const)
    if (!isBinary && bytes % factor === 0) return `${bytes / factor}${unit}`;
  return formatQuantity(bytes);
}

function generationOf({ metadata }: Image | Iso): number {
  return metadata.generation ?? 0;
}

type Answer = Pick<ImageStatus, 'request' | 'commitRequest'>;

/** The disk is in the store: what was made now, or what was there before (a description has changed). */
export function storedStatus(
  disk: Image | Iso,
  now: Date,
  made?: { stored: Stored; answer: Answer },
): ImageStatus {
  const { conditions: old, progress: _progress, worker: _worker, ...known } = withoutTaken(disk.status ?? {});
  const observedGeneration = generationOf(disk);
  const message = `stored as ${made?.stored.digest ?? known.digest}`;
  const isReady = { type: ready, status: 'True', reason: 'Stored', message, observedGeneration } as const;
  let conditions = setCondition(old, isReady, now);
  conditions = removeCondition(removeCondition(conditions, stalled), reconciling);
  if (isSaidInVain(disk, findCondition(conditions, committed)))
    conditions = removeCondition(conditions, committed);
  if (made?.answer.commitRequest !== undefined)
    conditions = setCondition(conditions, { ...isReady, type: committed }, now);
  return { ...known, ...made?.stored, ...made?.answer, observedGeneration, conditions };
}

/** Whether what is said of a commit is of none that anybody asks for. The refusal of an upload over a stored disk is said there, too. */
function isSaidInVain(disk: Image | Iso, said: Condition | undefined): boolean {
  if (said === undefined || said.status === 'True') return false;
  // No commit waits for an upload; a stored disk that had lost its annotation was said to.
  if (diskWaitsForUpload.has(said.reason)) return true;
  const isOfUpload = diskRefusals.has(said.reason) && said.observedGeneration === generationOf(disk);
  return commitOf(disk) === undefined && !isOfUpload;
}

/** The request was answered before: what is stored is, and what was refused is refused for the disk as it is now, too. */
export function answeredStatus(disk: Image | Iso, now: Date): ImageStatus {
  const refusal = findCondition(disk.status?.conditions, stalled);
  return disk.status?.digest === undefined && refusal !== undefined
    ? verdictStatus(disk, { reason: refusal.reason, message: refusal.message }, now)
    : storedStatus(disk, now);
}

export interface VerdictExtra {
  readonly worker?: string | undefined;
  /** The VM whose disk is being taken. */
  readonly taken?: Taken | undefined;
}

/** Something other than "stored" is to be said. A version from before stays usable: then it is said of the commit alone. */
export function verdictStatus(
  disk: Image | Iso,
  verdict: Verdict,
  now: Date,
  extra: VerdictExtra = {},
): ImageStatus {
  const { progress: _progress, worker: _worker, ...known } = disk.status ?? {};
  const { worker, taken } = extra;
  return {
    ...(taken === undefined ? known : withTaken(disk, known, taken)),
    ...(worker === undefined ? {} : { worker }),
    ...(verdict.progress === undefined ? {} : { progress: verdict.progress }),
    ...(isUsable(disk)
      ? commitConditions(disk, verdict, now)
      : readyStatus(disk, { ...verdict, isReady: false }, progressOf(verdict.reason), now)),
  };
}

function withTaken(disk: Image | Iso, known: ImageStatus, { vmUid, podUid }: Taken): ImageStatus {
  const commit = commitOf(disk);
  return {
    ...withoutTaken(known),
    vmUid,
    ...(podUid === undefined ? {} : { vmPodUid: podUid }),
    ...(commit === undefined ? {} : { vmRequest: commit.request }),
  };
}

/** What is said of whose disk is being taken is over. */
function withoutTaken({
  vmUid: _vmUid,
  vmRequest: _vmRequest,
  vmPodUid: _vmPodUid,
  ...others
}: ImageStatus): ImageStatus {
  return others;
}

/** The request is answered for good, and what it asked for was not made. */
export function refusedStatus(disk: Image | Iso, verdict: Verdict, now: Date, answer: Answer): ImageStatus {
  const status = withoutTaken(verdictStatus(disk, verdict, now));
  if (!isUsable(disk)) return { ...status, ...answer };
  return { ...storedStatus({ ...disk, status }, now), ...answer };
}

function isUsable({ metadata, status }: Image | Iso): boolean {
  return status?.digest !== undefined && metadata.deletionTimestamp === undefined;
}

type ReportedConditions = Pick<ImageStatus, 'observedGeneration' | 'conditions'>;

/** `observedGeneration` stays behind until the commit is carried out or refused. */
function commitConditions(disk: Image | Iso, { reason, message }: Verdict, now: Date): ReportedConditions {
  const { conditions: old, observedGeneration } = disk.status ?? {};
  const generation = generationOf(disk);
  const status = reason === 'Working' ? 'Unknown' : 'False';
  const commit = { type: committed, status, reason, message, observedGeneration: generation } as const;
  const conditions = setProgressing(setCondition(old, commit, now), message, generation, now);
  return {
    ...(observedGeneration === undefined ? {} : { observedGeneration }),
    conditions: removeCondition(conditions, stalled),
  };
}

/** A VM that still uses a disk that is being deleted is nothing that svc3 works on. */
function progressOf(reason: string): Progress {
  if (diskWaitsForPerson.has(reason)) return 'stalled';
  return reason === 'InUse' ? 'idle' : 'reconciling';
}

function setProgressing(
  conditions: Conditions,
  message: string,
  observedGeneration: number,
  now: Date,
): Conditions {
  const progressing = { status: 'True', reason: 'Progressing', message, observedGeneration } as const;
  return setCondition(conditions, { type: reconciling, ...progressing }, now);
}
