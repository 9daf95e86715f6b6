import { Svc3Error } from '../errors.ts';
import { diskImagesOf, type DiskClaimMeta } from './diskimage.ts';
import { configKeyOf, namespaceOfDisk, type NamingVm } from './configkey.ts';
import { awaitedSource, comesTooLate } from './diskcopies.ts';
import type { Image, Iso } from './image.ts';
import { annotations, group } from './meta.ts';
import { isTerminating } from './owner.ts';
import { repositoryOf } from './repository.ts';
import type { EffectiveSettings, Vm, VmSpec, VmStatus } from './vm.ts';
import type { VmConfig } from './vmconfig.ts';
import type { VmPool } from './vmpool.ts';

/** An Image or ISO as who uses it names it. */
export interface UsedDisk {
  readonly field: 'image' | 'iso';
  readonly name: string;
  readonly namespace: string;
  /** Every repository, `<host>/<path>`, where it may be; none where that is not known. */
  readonly repositories: readonly string[];
  readonly isStored: boolean;
  /** Nothing of it is in the store yet, and svc3 goes on making it. */
  readonly isBeingMade: boolean;
  /** When its deletion was asked for. */
  readonly deletionTimestamp: string | undefined;
}

/** An Image or ISO as kube-apiserver has it. */
export function usedDisk({ metadata, status }: Image | Iso, field: 'image' | 'iso'): UsedDisk {
  const { deletionTimestamp } = metadata;
  const isStored = status?.digest !== undefined;
  const isStalled = status?.conditions?.some(({ type, status }) => type === 'Stalled' && status === 'True');
  return {
    field,
    name: metadata.name,
    namespace: metadata.namespace,
    repositories: status?.reference === undefined ? [] : [repositoryOf(status.reference)],
    isStored,
    isBeingMade: !isStored && deletionTimestamp === undefined && isStalled !== true,
    deletionTimestamp,
  };
}

/** Fields by which a VM says which disks it is made from, and those of its effective settings that say which it runs from. */
const specFields = ['config', 'configNamespace', 'image', 'iso'] as const;
const effectiveFields = ['image', 'imageName', 'imageNamespace', 'iso'] as const;

/** As much of a VM as `diskUsers` may read: what else it is to read belongs into `usesSameDisks` as well. */
interface DiskUser extends NamingVm {
  readonly metadata: NamingVm['metadata'] & Pick<Vm['metadata'], 'uid'>;
  readonly spec: Pick<VmSpec, (typeof specFields)[number]>;
  readonly status?: Pick<VmStatus, 'conditions'> & {
    readonly effective?: Pick<EffectiveSettings, (typeof effectiveFields)[number]> | undefined;
  };
}

/**
 * Whether a VM needs the very disks that it needed before, for all that it says itself: then a change of it alters nothing of what `diskUsers` says of any
 * disk, as long as it stays in its namespace.
 */
export function usesSameDisks(before: DiskUser, now: DiskUser): boolean {
  const [ran, runs] = [before.status?.effective, now.status?.effective];
  return (
    before.metadata.uid === now.metadata.uid &&
    specFields.every((field) => before.spec[field] === now.spec[field]) &&
    effectiveFields.every((field) => ran?.[field] === runs?.[field]) &&
    isTurnedAway(before) === isTurnedAway(now)
  );
}

/** Everything that may use a disk of a namespace, as far as whoever asks may see it. */
export interface PossibleUsers {
  /** Of the namespace, and those elsewhere that name a VMConfig of it. */
  readonly vms: readonly Vm[];
  readonly pools: readonly VmPool[];
  /** Disks of its kind in the namespace: they may be copies that are not there yet. */
  readonly disks: readonly (Image | Iso)[];
  /** Of the namespace, those with disks of VMs, whether these are there or not. */
  readonly claims: readonly DiskClaimMeta[];
  config(name: string, namespace: string): VmConfig | undefined;
}

/**
 * Who needs a disk of the store: VMs that run from it (whatever version of it) or will, since they name it and are not placed yet (but those that wait
 * until it is gone), pools that name it or whose guests were made from it, claims with a disk that was made on it and is none of these VMs', and copies that are
 * not there yet. Nobody starts from what never got
 * anything into the store: what waits for it finds another of the name, or none. Its copies need it as long as it is being made; once
 * it is being deleted nothing comes of it.
 */
export function usersAmong(
  disk: UsedDisk,
  { vms: allVms, pools, disks, claims, config }: PossibleUsers,
): PossibleUsers {
  const vms = allVms.filter((vm) => isVmsDisk(disk, vm, config));
  const uids = new Set(vms.map(({ metadata }) => metadata.uid));
  return {
    vms,
    pools: pools.filter((pool) => isPoolsDisk(disk, pool, config)),
    disks: disks.filter((copy) => isCopysDisk(disk, copy)),
    claims: claims.filter((claim) => isClaimsDisk(disk, claim) && !uids.has(vmUidOf(claim))),
    config,
  };
}

/** @returns as in `in use by VMs a, b and VMPool ci`, ten names of a kind at most; undefined where nobody needs it */
export function diskUsers(disk: UsedDisk, possible: PossibleUsers): string | undefined {
  const { vms, pools, disks, claims } = usersAmong(disk, possible);
  const users = [
    ...shown('VM', vms, disk),
    ...shown('VMPool', pools, disk),
    ...shown(disk.field === 'iso' ? 'ISO' : 'Image', disks, disk),
    ...shown('claim', claims, disk),
  ];
  return users.length === 0 ? undefined : users.join(' and ');
}

/** @throws Svc3Error Conflict that names who uses it. */
export function refuseWhileUsed(disk: UsedDisk, users: PossibleUsers): void {
  const shownUsers = diskUsers(disk, users);
  if (shownUsers === undefined) return;
  const { field, name } = disk;
  const message = `in use by ${shownUsers}`;
  throw new Svc3Error('Conflict', `${field} ${name} is ${message}`, {
    details: { group, kind: `${field}s`, name, causes: [{ field, message }] },
  });
}

function isVmsDisk(disk: UsedDisk, vm: DiskUser, config: PossibleUsers['config']): boolean {
  const { field } = disk;
  // A medium that was taken out is in no drive, also where the settings of a VM without a pod have it still.
  if (field === 'iso' && vm.spec.iso === '') return false;
  const { effective } = vm.status ?? {};
  const runsFrom = effective?.[field];
  // What a VM that was placed names now says nothing of what it runs from.
  if (runsFrom !== undefined && disk.repositories.length > 0)
    return liesAt(disk, runsFrom) || (field === 'image' && wasPlacedFrom(disk, vm));
  if (runsFrom === undefined && !disk.isStored) return false;
  // Placed without a medium: what its VMConfig names by now is for those that are placed after it.
  if (effective !== undefined && runsFrom === undefined && vm.spec[field] === undefined) return false;
  if (namespaceOfDisk(vm, field) !== disk.namespace) return false;
  const key = configKeyOf(vm);
  const configured = key === undefined ? undefined : config(key.name, key.namespace)?.spec[field];
  const said = vm.spec[field] ?? configured;
  const waitsForNext = disk.deletionTimestamp !== undefined && said === disk.name && isTurnedAway(vm);
  return names(disk, said) && !waitsForNext;
}

/**
 * Whether a VM has been told that it is not placed from the disk that it names, since that is being deleted: it waits for the next one, which there is only
 * once this one is gone. The clock does not tell: a VM that came later may have been placed by an operator that had not heard of the deletion yet.
 */
function isTurnedAway({ status }: DiskUser): boolean {
  const scheduled = status?.conditions?.find(({ type }) => type === 'Scheduled');
  return scheduled?.status === 'False' && scheduled.reason === 'ImageTerminating';
}

/** By its name then: the store may have been called otherwise, or been another. */
function wasPlacedFrom({ name, namespace }: UsedDisk, { metadata, status }: DiskUser): boolean {
  const { imageName, imageNamespace = metadata.namespace } = status?.effective ?? {};
  return imageName === name && imageNamespace === namespace;
}

function isPoolsDisk(disk: UsedDisk, pool: VmPool, config: PossibleUsers['config']): boolean {
  const { template } = pool.spec;
  const { namespace } = pool.metadata;
  if (!disk.isStored || namespace !== disk.namespace || isTerminating(pool)) return false;
  // A VM that gets such a guest is started from its image again.
  if (pool.status?.images?.some((reference) => liesAt(disk, reference)) === true) return true;
  const configured =
    template.config === undefined ? undefined : config(template.config, namespace)?.spec[disk.field];
  return names(disk, template[disk.field] ?? configured);
}

function isCopysDisk(disk: UsedDisk, copy: Image | Iso): boolean {
  const { name, namespace } = copy.metadata;
  if (namespace !== disk.namespace || name === disk.name || awaitedSource(copy) !== disk.name) return false;
  return (disk.isStored || disk.isBeingMade) && !comesTooLate(copy, disk.deletionTimestamp);
}

/**
 * A disk is an overlay on its image: the data of a deleted VM are lost with that. One that goes itself needs nothing, and those of other namespaces are not
 * believed: whoever may make claims in one could say there that they need the disks of others.
 */
function isClaimsDisk(disk: UsedDisk, claim: DiskClaimMeta): boolean {
  const { namespace, deletionTimestamp } = claim.metadata;
  if (disk.field !== 'image' || namespace !== disk.namespace || deletionTimestamp !== undefined) return false;
  return diskImagesOf(claim).some((reference) => liesAt(disk, reference));
}

function vmUidOf({ metadata }: DiskClaimMeta): string {
  return metadata.annotations?.[annotations.vmUid] ?? '';
}

/** By its name, or by a repository where it is. */
function names(disk: UsedDisk, said: string | undefined): boolean {
  return said !== undefined && (said === disk.name || liesAt(disk, said));
}

function liesAt({ repositories }: UsedDisk, reference: string): boolean {
  return repositories.includes(repositoryOf(reference));
}

function shown(
  kind: string,
  users: readonly (Vm | VmPool | Image | Iso | DiskClaimMeta)[],
  { namespace }: UsedDisk,
): string[] {
  // Names of another tenant's VMs are not this one's to know.
  const all = users.map(({ metadata: own }) =>
    own.namespace === namespace ? own.name : `of namespace ${own.namespace}`,
  );
  const distinct = [...new Set(all)].sort();
  if (distinct.length === 0) return [];
  const more = distinct.length > 10 ? ` and ${distinct.length - 10} more` : '';
  return [`${kind}${distinct.length === 1 ? '' : 's'} ${distinct.slice(0, 10).join(', ')}${more}`];
}
