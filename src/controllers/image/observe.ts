import { isTrue } from '../../controller/conditions.ts';
import { commitRefusal } from '../../api/committarget.ts';
import { comesTooLate } from '../../api/diskcopies.ts';
import type { Pod } from '../../api/core.ts';
import { memoryRefusal } from '../../api/memory.ts';
import type { Vm } from '../../api/vm.ts';
import type { WorkFailed } from '../../api/worker.ts';
import type { RegistryFailed } from '../../registry/transport.ts';
import type { Disk, ImageCaches } from './caches.ts';
import type { CopySource, Export, Observed, VmSource } from './decide.ts';
import {
  architectureOf,
  commitOf,
  commitRequest,
  podWithDisk,
  vmNameOf,
  requestOf,
  workerPodName,
  workId,
} from './names.ts';
import { repositoryPathOf, type DiskKind } from './repositorypath.ts';
import type { StartWaits, Unprepared } from '../startwaits.ts';
import type { WorkBackoff } from './workbackoff.ts';
import { type ImageSettings, workerPullsWith } from './settings.ts';
import { cachedUsers } from './users.ts';
import { workerView } from './workerview.ts';

export interface ObserveParts {
  readonly kind: DiskKind;
  readonly caches: ImageCaches;
  readonly settings: ImageSettings;
  readonly backoff: WorkBackoff;
  readonly startWaits: StartWaits;
  /** Told of the requests that worker pods failed with. */
  readonly registryFailed?: RegistryFailed | undefined;
}

/** One frozen view of a disk and of all that it depends on, from memory. */
export function observe(parts: ObserveParts, disk: Disk, now: number): Observed {
  const { kind, caches, settings, backoff } = parts;
  const { name, namespace } = disk.metadata;
  const { store } = settings;
  const path = store.url === '' ? undefined : repositoryPathOf(store, kind, namespace, name);
  const request = requestOf(disk);
  const id = request === undefined ? undefined : workId(disk, request);
  const owned = caches.podsOf(disk);
  const current = owned.find(({ metadata }) => id !== undefined && metadata.name === workerPodName(id));
  const worker =
    current === undefined
      ? undefined
      : workerView(current, now, workerPullsWith(settings), unpreparedOf(parts, current));
  if (current !== undefined && id !== undefined && worker?.phase === 'Failed')
    countFailure(parts, id, current.metadata.uid, worker.failure);
  return {
    disk,
    kind,
    path,
    request,
    worker,
    hasPods: owned.length > 0,
    hasOldPods: owned.some((pod) => pod !== current),
    copySource: copySourceOf(caches, disk),
    vmSource: vmSourceOf(caches, disk),
    withdrawn: withdrawnOf(caches, disk),
    users:
      disk.metadata.deletionTimestamp === undefined ? undefined : cachedUsers({ disk, kind, path }, caches),
    retryAt: id === undefined ? 0 : backoff.retryAt(id),
    now,
  };
}

function unpreparedOf({ caches, startWaits }: ObserveParts, pod: Pod): Unprepared | undefined {
  const { nodeName } = pod.spec;
  return startWaits.of(pod, nodeName === undefined ? undefined : caches.nodes.get(nodeName));
}

/** A pod that has failed is seen in every pass until another takes its place. */
function countFailure(
  { backoff, registryFailed }: ObserveParts,
  id: string,
  podUid: string,
  { failedRequest }: WorkFailed,
): void {
  if (backoff.isCounted(id, podUid)) return;
  backoff.failed(id, podUid);
  if (failedRequest !== undefined) registryFailed?.(failedRequest.registry, failedRequest.reason);
}

function copySourceOf({ disks }: ImageCaches, copy: Disk): CopySource | undefined {
  const { metadata, spec } = copy;
  if (spec.source.image === undefined) return undefined;
  const source = disks.get(spec.source.image.name, metadata.namespace);
  return source === undefined ? undefined : { state: sourceState(source, copy), status: source.status };
}

/** A source that is being deleted waits for the copies that were asked for before, and is not `Ready` any more meanwhile. */
function sourceState({ metadata, status }: Disk, copy: Disk): CopySource['state'] {
  const { deletionTimestamp } = metadata;
  if (deletionTimestamp === undefined) return isTrue(status?.conditions, 'Ready') ? 'Ready' : 'NotReady';
  return status?.digest === undefined || comesTooLate(copy, deletionTimestamp) ? 'Leaving' : 'Ready';
}

function vmSourceOf({ vms }: ImageCaches, disk: Disk): VmSource | undefined {
  const { name, namespace } = disk.metadata;
  const vmName = vmNameOf(disk);
  const vm = vmName === undefined ? undefined : vms.get(vmName, namespace);
  if (vm === undefined) return undefined;
  const { effective } = vm.status ?? {};
  return {
    uid: vm.metadata.uid,
    runner: runnerOf(vm),
    podUid: podWithDisk(vm),
    podName: vm.status?.podName,
    architecture: effective?.architecture ?? architectureOf(disk),
    deletionTimestamp: vm.metadata.deletionTimestamp,
    commitRefusal: commitRefusal(vm, name),
    powerState: vm.status?.powerState,
    memoryRefusal: effective === undefined ? undefined : memoryRefusal(effective),
  };
}

function runnerOf({ status }: Vm): VmSource['runner'] {
  const { address, fingerprint } = status?.runner ?? {};
  return address === undefined ? undefined : { address, fingerprint };
}

/** The status knows whose disk was taken for it, and for which request, until that is forgotten. */
function withdrawnOf({ vms }: ImageCaches, disk: Disk): Export | undefined {
  const { vmUid, vmRequest } = disk.status ?? {};
  if (vmRequest === undefined || commitOf(disk) !== undefined) return undefined;
  const vm = vms.list(disk.metadata.namespace).find(({ metadata }) => metadata.uid === vmUid);
  const request = commitRequest({ vm: vm?.metadata.name ?? '', request: vmRequest });
  return {
    id: workId(disk, request),
    vm: vm === undefined ? undefined : { uid: vm.metadata.uid, runner: runnerOf(vm) },
  };
}
