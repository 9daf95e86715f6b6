import { createHash } from 'node:crypto';
import {
  imageAnnotations,
  type Image,
  type ImageCommit,
  type ImageStatus,
  type Iso,
} from '../../api/image.ts';
import type { Vm } from '../../api/vm.ts';

/** Secret of a namespace with the one-time tickets of its worker pods, one entry for each piece of work. */
export const ticketSecret = 'svc3-worker-tickets';

/** The commit that its Image asks for; it follows a version, so it is nobody's turn before there is one. */
export function commitOf({ spec, status }: Image | Iso): ImageCommit | undefined {
  return 'commit' in spec && status?.digest !== undefined ? spec.commit : undefined;
}

/** The VM whose disk is wanted now: for a commit, else as the source. */
export function vmNameOf(disk: Image | Iso): string | undefined {
  const source: Image['spec']['source'] = disk.spec.source;
  return commitOf(disk)?.vm ?? source.vm?.name;
}

/** Whether the memory of that VM is wanted as well; a commit is of the disk alone. */
export function wantsMemory(disk: Image | Iso): boolean {
  const source: Image['spec']['source'] = disk.spec.source;
  return commitOf(disk) === undefined && source.vm?.mode === 'SaveWithMemory';
}

/** The VM whose disk is taken. */
export interface Taken {
  readonly vmUid: string;
  /** UID of the pod that has the disk; undefined where that is known not to matter (`podWithDisk`), or is not known yet. */
  readonly podUid: string | undefined;
}

/**
 * Whose disk is taken for the request that there is now; undefined while it is not known. What is known of a commit before says nothing
 * of this one, which may be another VM's.
 */
export function takenFrom(disk: Image | Iso): Taken | undefined {
  const { vmUid, vmRequest, vmPodUid: podUid } = disk.status ?? {};
  const isOfNow = vmRequest === undefined || vmRequest === commitOf(disk)?.request;
  return vmUid === undefined || !isOfNow ? undefined : { vmUid, podUid };
}

/**
 * UID of the pod that has the disk of a VM, and with which it goes. Undefined where the disk is on a claim, where there is no pod that can be asked for
 * it, and before the guest has ever run: then the disk of any pod is that of the image.
 *
 * @param podUid - UID of the pod that the VM has, where it is known: that of one in which nothing has started yet is in no status
 */
export function podWithDisk({ status }: Vm, podUid?: string): string | undefined {
  const { effective, powerState, runner } = status ?? {};
  if (effective === undefined || powerState === undefined) return undefined;
  return effective.disk?.storage === 'Persistent' ? undefined : (runner?.podUid ?? podUid);
}

/** Whether a disk that is being taken went with its pod: the VM has another one by now, with a disk that is as new. */
export function hasGoneWithPod({ podUid }: Taken, now: string | undefined): boolean {
  return podUid !== undefined && now !== undefined && podUid !== now;
}

/**
 * UID of the VM that was meant by whoever asked for its disk; undefined where that said its name alone. What was said of a commit before says
 * nothing of this one.
 */
export function meantVm(disk: Image | Iso): string | undefined {
  const { annotations = {} } = disk.metadata;
  const commit = commitOf(disk);
  if (commit === undefined) return annotations[imageAnnotations.savedVm];
  const said = annotations[imageAnnotations.committedVm] ?? '';
  const request = `${commit.request}/`;
  return said.startsWith(request) ? said.slice(request.length) : undefined;
}

/**
 * What is to be done for a disk now, as a word that changes with every new request: a commit's request, an upload's digest,
 * `create` for everything that is done once. `undefined`: an upload that has not come yet. Of one that lost its annotation, as to
 * `kubectl replace`, the upload that was answered last.
 */
export function requestOf(disk: Image | Iso): string | undefined {
  const commit = commitOf(disk);
  if (commit !== undefined) return commitRequest(commit);
  const source: Image['spec']['source'] = disk.spec.source;
  if (source.upload !== undefined)
    return disk.metadata.annotations?.[imageAnnotations.upload]?.slice(-64) ?? disk.status?.request;
  return 'create';
}

/** A commit as a request, also once it is asked for no more. */
export function commitRequest({ vm, request }: ImageCommit): string {
  return `commit/${vm}/${request}`;
}

/** What the status says of a request that was carried out or refused, so that it is not taken up again. */
export function answerTo(disk: Image | Iso, request: string): Pick<ImageStatus, 'request' | 'commitRequest'> {
  const commit = commitOf(disk);
  if (commit !== undefined) return { commitRequest: commit.request };
  return request === 'create' ? {} : { request };
}

/** Digest of the upload that a request is about; undefined where it is about something else. */
export function uploadOf(disk: Image | Iso, request: string): string | undefined {
  const { request: upload } = answerTo(disk, request);
  return disk.spec.source.upload === undefined || upload === undefined ? undefined : `sha256:${upload}`;
}

/** Id of the work for a request: name of its export, tag of its version, entry of its ticket. */
export function workId(disk: Image | Iso, request: string): string {
  return createHash('sha256').update(`${disk.metadata.uid}/${request}`).digest('hex').slice(0, 32);
}

/** Whether an Image was told that what it asks for now is not saved, since the VM is reverted. */
export function isSaveAbandoned(disk: Image | Iso): boolean {
  const request = requestOf(disk);
  const told = disk.metadata.annotations?.[imageAnnotations.saveAbandoned];
  return vmNameOf(disk) !== undefined && request !== undefined && told === workId(disk, request);
}

export function workerPodName(id: string): string {
  return `svc3-worker-${id}`;
}

/** What the disk is for where its source does not say. */
export function architectureOf(disk: Image | Iso): 'amd64' | 'arm64' {
  return askedArchitecture(disk) ?? 'amd64';
}

/** What whoever made the object said that the disk is for. */
export function askedArchitecture({ metadata }: Image | Iso): 'amd64' | 'arm64' | undefined {
  const asked = metadata.annotations?.[imageAnnotations.architecture];
  return asked === 'amd64' || asked === 'arm64' ? asked : undefined;
}
