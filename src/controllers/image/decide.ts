import type { Image, ImageCommit, ImageStatus, Iso } from '../../api/image.ts';
import type { WorkDone, WorkFailed } from '../../api/worker.ts';
import { diskRefusals } from '../../api/reasons.ts';
import type { ObservedPowerState } from '../../api/vm.ts';
import {
  commitOf,
  hasGoneWithPod,
  isSaveAbandoned,
  meantVm,
  takenFrom,
  vmNameOf,
  wantsMemory,
} from './names.ts';
import type { DiskKind, RepositoryPath } from './repositorypath.ts';

/** The worker pod of the current request, as the cache shows it. */
export type WorkerView =
  | { readonly phase: 'Waiting' | 'Running'; readonly message: string; readonly address: string | undefined }
  /** It cannot begin, and one that is made now has another image, or pulls it otherwise. */
  | { readonly phase: 'Outdated' }
  | { readonly phase: 'Deleting'; readonly lostAt: number }
  | { readonly phase: 'Done'; readonly result: WorkDone }
  | { readonly phase: 'Failed'; readonly failure: WorkFailed; readonly finishedAt: number };

/** The Image or ISO that is to be copied. */
export interface CopySource {
  /** `Leaving`: it is being deleted, and does not wait for this copy. */
  readonly state: 'Ready' | 'NotReady' | 'Leaving';
  readonly status: ImageStatus | undefined;
}

/** The VM whose disk is wanted. */
export interface VmSource {
  readonly uid: string;
  readonly runner: { readonly address: string; readonly fingerprint: string | undefined } | undefined;
  /** UID of the pod that its disk goes with (`podWithDisk`). */
  readonly podUid: string | undefined;
  /** Name of the pod of its runner. */
  readonly podName: string | undefined;
  readonly architecture: 'amd64' | 'arm64';
  /** When its deletion was asked for. */
  readonly deletionTimestamp: string | undefined;
  /** Why it must not be committed to this Image. */
  readonly commitRefusal: string | undefined;
  readonly powerState: ObservedPowerState | undefined;
  /** Why its memory cannot be saved, whatever it does. */
  readonly memoryRefusal: string | undefined;
}

/** What the runner of a VM copies its disk for. */
export interface Export {
  readonly id: string;
  /** Undefined where the VM is gone, and the copy with it. */
  readonly vm: Pick<VmSource, 'uid' | 'runner'> | undefined;
}

/** Everything that a pass knows; nothing in it changes while it runs. */
export interface Observed {
  readonly disk: Image | Iso;
  readonly kind: DiskKind;
  /** Undefined where the installation has no store. */
  readonly path: RepositoryPath | undefined;
  /** The current request (`requestOf`); undefined for an upload that has not come. */
  readonly request: string | undefined;
  readonly worker: WorkerView | undefined;
  /** Any worker pods of this disk's, of whatever request. */
  readonly hasPods: boolean;
  /** Worker pods of a request before. */
  readonly hasOldPods: boolean;
  readonly copySource: CopySource | undefined;
  readonly vmSource: VmSource | undefined;
  /** The commit that was under way, where it is asked for no more. */
  readonly withdrawn: Export | undefined;
  /** Who needs it, as `diskUsers` says; only looked at where it is being deleted. */
  readonly users: string | undefined;
  /** How often work for this request has failed in a row, and when it may be tried again. */
  readonly retryAt: number;
  readonly now: number;
}

/** What is said about a disk. */
export interface Verdict {
  readonly reason: string;
  readonly message: string;
  readonly progress?: number;
}

/** What a source of work is made of. */
export type Work =
  | { readonly kind: 'copy'; readonly from: string; readonly source: CopySource & { status: ImageStatus } }
  | { readonly kind: 'blank'; readonly size: string }
  | { readonly kind: 'pull'; readonly reference: string }
  | { readonly kind: 'upload'; readonly digest: string }
  | {
      readonly kind: 'export';
      readonly vm: string;
      readonly source: VmSource & { runner: { address: string; fingerprint: string | undefined } };
    };

export type Plan =
  /** Nothing to do but to keep the status true, of what is in the store or was refused. */
  | { readonly kind: 'stored'; readonly cleanUp: boolean }
  | { readonly kind: 'say'; readonly verdict: Verdict; readonly requeueAfterMs?: number }
  /** Its upload has not come whole yet. */
  | { readonly kind: 'await'; readonly verdict: Verdict }
  | { readonly kind: 'work'; readonly work: Work }
  | { readonly kind: 'watch'; readonly worker: Extract<WorkerView, { address: unknown }> }
  | { readonly kind: 'finish'; readonly result: WorkDone }
  /** The work failed and is not tried again by itself. */
  | { readonly kind: 'refuse'; readonly verdict: Verdict }
  | { readonly kind: 'retry'; readonly failure: WorkFailed }
  /** Those that run are asked to end, those that are lost go at once, and the others are waited for. */
  | { readonly kind: 'stopWorkers' }
  | { readonly kind: 'purge' }
  | { readonly kind: 'release' };

/** How often a running worker is asked how far it is: a status is written no more often than that. */
export const watchMs = 5_000;
/** A source that is not there may come; events tell of objects, nobody tells of registries. */
const sourcePollMs = 60_000;

/** What to do for an Image or ISO. Deletion first, then work that is under way, then the request. */
export function decide(observed: Observed): Plan {
  const { disk, worker, request } = observed;
  if (disk.metadata.deletionTimestamp !== undefined) return decideDeletion(observed);
  if (request === undefined) {
    const how = `upload it: svc3 ${observed.kind.toLowerCase()} upload FILE ${disk.metadata.name}`;
    return { kind: 'await', verdict: { reason: 'AwaitingUpload', message: how } };
  }
  if (isDone(disk, request))
    return { kind: 'stored', cleanUp: observed.hasPods || observed.withdrawn !== undefined };
  if (isRefused(disk, request)) return { kind: 'stored', cleanUp: observed.hasPods };
  // What is in the store is stored all the same.
  if (isSaveAbandoned(disk) && worker?.phase !== 'Done')
    return refuse('SourceDeleted', `VM ${vmNameOf(disk) ?? ''} was reverted before its disk was saved`);
  if (observed.path === undefined)
    return stall('StoreMissing', 'this installation has no image store (chart value store.url)');
  if (observed.hasOldPods) return { kind: 'stopWorkers' };
  if (worker !== undefined) return decideWorker(observed, worker);
  if (observed.now < observed.retryAt)
    return { kind: 'say', verdict: lastVerdict(disk), requeueAfterMs: observed.retryAt - observed.now };
  return decideWork(observed, request);
}

/** Whether the request has been carried out, or was a commit that was refused: then the version before stays. */
export function isDone(disk: Image | Iso, request: string): boolean {
  const { spec, status } = disk;
  if (status?.digest === undefined) return false;
  const commit = commitOf(disk);
  if (commit !== undefined) return status.commitRequest === commit.request;
  if (spec.source.upload === undefined) return true;
  return status.request === request && stalledOf(status) === undefined;
}

function stalledOf(status: ImageStatus | undefined) {
  return status?.conditions?.find(({ type, status }) => type === 'Stalled' && status === 'True');
}

/** A refusal holds until there is another request. */
export function isRefused({ spec, status }: Image | Iso, request: string): boolean {
  if (status?.digest !== undefined || !diskRefusals.has(stalledOf(status)?.reason ?? '')) return false;
  return spec.source.upload === undefined || status?.request === request;
}

function decideDeletion(observed: Observed): Plan {
  const { users, hasPods, path } = observed;
  if (users !== undefined) return inUse(users);
  if (hasPods) return { kind: 'stopWorkers' };
  return path === undefined ? { kind: 'release' } : { kind: 'purge' };
}

/** A disk that is being deleted stays as long as somebody uses it. */
export function inUse(users: string): Extract<Plan, { kind: 'say' }> {
  return { kind: 'say', verdict: { reason: 'InUse', message: `in use by ${users}` } };
}

/** How long a store that does not answer keeps the name of a disk that was never said to be in it, in milliseconds. */
const awayMs = 300_000;
/** How long a store that refuses to delete a disk is asked again, in milliseconds: nightly collections of garbage take less. */
const refusedMs = 3_600_000;

/**
 * Whether a disk goes although the store did not delete it. One that was never said to be stored has at most a
 * piece there that nothing leads to: a refusal is the store's last word then, and an outage is waited for.
 */
export function isGivenUp({ disk, now }: Pick<Observed, 'disk' | 'now'>, { reason }: Verdict): boolean {
  const { metadata, status } = disk;
  const deletedAt = Date.parse(metadata.deletionTimestamp ?? '');
  const isRefused = reason === 'DeletionRefused';
  if (status?.digest === undefined)
    return isRefused || reason === 'RegistryDenied' || now - deletedAt > awayMs;
  return isRefused && now - (refusedAt(disk) ?? now) >= refusedMs;
}

/** Since when the store refuses: that a disk which is being deleted is worked on is said from then on, and not while it is in use. */
function refusedAt({ metadata, status }: Image | Iso): number | undefined {
  const said = (type: string) => status?.conditions?.find((condition) => condition.type === type);
  const since = said('Reconciling')?.lastTransitionTime;
  if (since === undefined || said('Ready')?.reason !== 'DeletionRefused') return undefined;
  return Math.max(Date.parse(since), Date.parse(metadata.deletionTimestamp ?? ''));
}

function decideWorker(observed: Observed, worker: WorkerView): Plan {
  const { now, retryAt } = observed;
  switch (worker.phase) {
    case 'Deleting': {
      const verdict = { reason: 'Working', message: 'waiting for the worker pod before to end' };
      return now < worker.lostAt
        ? { kind: 'say', verdict, requeueAfterMs: worker.lostAt - now }
        : { kind: 'stopWorkers' };
    }
    case 'Outdated':
      return { kind: 'stopWorkers' };
    case 'Done':
      return { kind: 'finish', result: worker.result };
    case 'Failed':
      return diskRefusals.has(worker.failure.reason)
        ? refuse(worker.failure.reason, worker.failure.message)
        : now < retryAt
          ? {
              kind: 'say',
              verdict: { reason: worker.failure.reason, message: worker.failure.message },
              requeueAfterMs: retryAt - now,
            }
          : { kind: 'retry', failure: worker.failure };
    default:
      return { kind: 'watch', worker };
  }
}

function decideWork(observed: Observed, request: string): Plan {
  const commit = commitOf(observed.disk);
  if (commit !== undefined) return decideCommit(observed, commit);
  const source: Image['spec']['source'] = observed.disk.spec.source;
  if (source.blank !== undefined) return work({ kind: 'blank', size: source.blank.size });
  if (source.remote !== undefined) return work({ kind: 'pull', reference: source.remote.reference });
  if (source.upload !== undefined) return work({ kind: 'upload', digest: `sha256:${request}` });
  if (source.image !== undefined) return decideCopy(observed, source.image.name);
  if (source.vm !== undefined) return decideSave(observed, source.vm.name);
  return stall('SourceNotFound', 'spec.source names nothing');
}

function decideCopy({ copySource, kind }: Observed, name: string): Plan {
  if (copySource === undefined) return stall('SourceNotFound', `${kind} ${name} does not exist`);
  const { status, state } = copySource;
  if (state === 'Leaving')
    return stall(
      'SourceNotFound',
      `${kind} ${name} is being deleted; another one of its name is copied when it is there`,
    );
  if (status?.digest === undefined || state === 'NotReady')
    return say('SourceNotReady', `${kind} ${name} is not ready yet`);
  return work({ kind: 'copy', from: name, source: { state, status } });
}

/** A VM that does not exist yet may come; one that was seen and is gone, or was going before the Image was made, does not. */
function decideSave(observed: Observed, name: string): Plan {
  const { disk, vmSource } = observed;
  const gone = sourceGone(observed, name);
  if (gone !== undefined) return gone;
  if (vmSource === undefined) return stall('SourceNotFound', `VM ${name} does not exist`);
  const { deletionTimestamp } = vmSource;
  const { creationTimestamp = '' } = disk.metadata;
  if (
    takenFrom(disk) === undefined &&
    deletionTimestamp !== undefined &&
    creationTimestamp > deletionTimestamp
  )
    return refuse('SourceDeleted', `VM ${name} was being deleted when this Image was made`);
  return wantsMemory(disk) ? decideMemory(vmSource, name) : decideExport(vmSource, name);
}

/** Only a guest that runs has a memory to save: an Image waits until there is one, as it waits for a VM that has not booted. */
function decideMemory(source: VmSource, name: string): Plan {
  const { memoryRefusal, powerState, deletionTimestamp } = source;
  if (memoryRefusal !== undefined) return refuse('MemoryRefused', `VM ${name}: ${memoryRefusal}`);
  if (powerState === undefined || powerState === 'Running') return decideExport(source, name);
  if (deletionTimestamp !== undefined) {
    const message = `VM ${name} is ${powerState}: only the memory of a VM that runs can be saved`;
    return refuse('MemoryRefused', message);
  }
  const message = `VM ${name} is ${powerState}: its memory is saved once it runs`;
  return { kind: 'say', verdict: { reason: 'SourceNotReady', message }, requeueAfterMs: sourcePollMs };
}

function decideCommit(observed: Observed, { vm }: ImageCommit): Plan {
  const { vmSource } = observed;
  const gone = sourceGone(observed, vm);
  if (gone !== undefined) return gone;
  if (vmSource === undefined) return refuse('SourceNotFound', `VM ${vm} does not exist`);
  if (vmSource.commitRefusal !== undefined) return refuse('CommitRefused', vmSource.commitRefusal);
  return decideExport(vmSource, vm);
}

/** The VM whose disk is being taken, or was meant, is no more, or its disk is not: another one of its name, or another pod, has another disk. */
function sourceGone({ disk, vmSource }: Observed, name: string): Plan | undefined {
  const deleted = refuse('SourceDeleted', `VM ${name} was deleted before its disk was saved`);
  const taken = takenFrom(disk);
  if (taken === undefined) {
    const meant = meantVm(disk);
    // One that was meant and is not there may be one that the cache does not show yet.
    return meant !== undefined && vmSource !== undefined && meant !== vmSource.uid ? deleted : undefined;
  }
  if (taken.vmUid !== vmSource?.uid) return deleted;
  if (!hasGoneWithPod(taken, vmSource.podUid)) return undefined;
  const message = `the disk of VM ${name} went with its pod before it was saved: the VM has another pod, with a new disk`;
  return refuse('SourceDeleted', message);
}

function decideExport(source: VmSource, name: string): Plan {
  const { runner, powerState } = source;
  if (runner === undefined) {
    const message =
      powerState === 'Suspended'
        ? `VM ${name} is suspended on its disk, which is saved once the VM goes on`
        : `VM ${name} has no runner yet`;
    return {
      kind: 'say',
      verdict: { reason: 'SourceNotReady', message },
      requeueAfterMs: sourcePollMs,
    };
  }
  return work({ kind: 'export', vm: name, source: { ...source, runner } });
}

/** What was said last, to be said on: the backoff between two tries changes nothing. */
function lastVerdict({ status }: Image | Iso): Verdict {
  const told = status?.digest === undefined ? 'Ready' : 'Committed';
  const ready = status?.conditions?.find(({ type }) => type === told);
  const reconciling = status?.conditions?.find(({ type }) => type === 'Reconciling');
  return ready === undefined || ready.status === 'True'
    ? { reason: 'Working', message: reconciling?.message ?? 'trying again soon' }
    : { reason: ready.reason, message: ready.message };
}

function work(work: Work): Plan {
  return { kind: 'work', work };
}

/** The request is answered for good: with the disk as it was before, if there was one. */
function refuse(reason: string, message: string): Plan {
  return { kind: 'refuse', verdict: { reason, message } };
}

function say(reason: string, message: string): Plan {
  return { kind: 'say', verdict: { reason, message } };
}

function stall(reason: string, message: string): Plan {
  return { kind: 'say', verdict: { reason, message }, requeueAfterMs: sourcePollMs };
}
