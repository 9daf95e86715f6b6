import { isTrue } from '../../controller/conditions.ts';
import { commitRefusal } from '../../api/committarget.ts';
import { diskUsers } from '../../api/diskusers.ts';
import { memoryRefusal } from '../../api/memory.ts';
import type { Disk, ImageCaches } from './caches.ts';
import type { Observed, VmSource } from './decide.ts';
import { architectureOf, vmNameOf, requestOf, workerPodName, workId } from './names.ts';
import { repositoryPathOf, type DiskKind } from './repositorypath.ts';
import type { WorkBackoff } from './workbackoff.ts';
import type { ImageSettings } from './settings.ts';
import { workerView } from './workerview.ts';

export interface ObserveParts {
  readonly kind: DiskKind;
  readonly caches: ImageCaches;
  readonly settings: ImageSettings;
  readonly backoff: WorkBackoff;
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
  const worker = current === undefined ? undefined : workerView(current, now);
  if (current !== undefined && id !== undefined && worker?.phase === 'Failed')
    backoff.failed(id, current.metadata.uid);
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
    users:
      disk.metadata.deletionTimestamp === undefined
        ? undefined
        : diskUsers(
            {
              field: kind === 'ISO' ? 'iso' : 'image',
              name,
              namespace,
              repository: path === undefined ? undefined : `${path.registry}/${path.repository}`,
              isStored: disk.status?.digest !== undefined,
            },
            {
              vms: [...caches.vms.list(namespace), ...caches.vms.byIndex('configNamespace', namespace)],
              pools: caches.vmPools.list(namespace),
              config: (config, of) => caches.vmConfigs.get(config, of),
            },
          ),
    retryAt: id === undefined ? 0 : backoff.retryAt(id),
    now,
  };
}

function copySourceOf({ disks }: ImageCaches, { metadata, spec }: Disk): Observed['copySource'] {
  if (spec.source.image === undefined) return undefined;
  const source = disks.get(spec.source.image.name, metadata.namespace);
  if (source === undefined || source.metadata.deletionTimestamp !== undefined) return undefined;
  return { isReady: isTrue(source.status?.conditions, 'Ready'), status: source.status };
}

function vmSourceOf({ vms }: ImageCaches, disk: Disk): VmSource | undefined {
  const { name, namespace } = disk.metadata;
  const vmName = vmNameOf(disk);
  const vm = vmName === undefined ? undefined : vms.get(vmName, namespace);
  if (vm === undefined) return undefined;
  const { runner, effective } = vm.status ?? {};
  return {
    uid: vm.metadata.uid,
    runner:
      runner?.address === undefined
        ? undefined
        : { address: runner.address, fingerprint: runner.fingerprint },
    architecture: effective?.architecture ?? architectureOf(disk),
    deletionTimestamp: vm.metadata.deletionTimestamp,
    commitRefusal: commitRefusal(vm, name),
    powerState: vm.status?.powerState,
    memoryRefusal: effective === undefined ? undefined : memoryRefusal(effective),
  };
}
