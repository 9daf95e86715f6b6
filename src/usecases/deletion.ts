import { vms } from '../api/resources.ts';
import type { Vm } from '../api/vm.ts';
import { bootField } from '../api/whendeleted.ts';
import { diskMayStay, disposeOfDisk, keepDisks, keptClaims } from '../controllers/vm/life/disposal.ts';
import { isSvc3Error, messageOf, Svc3Error } from '../errors.ts';
import type { KubeClient } from '../kube/types.ts';
import { preconditionOf, requireMeant } from '../wire/meant.ts';
import { deletionMessage, isHeld } from '../wire/vm.ts';
import type { Waiter } from './waiter.ts';

export interface DeletionEnvironment {
  /** Whose right it is to delete the VM. */
  readonly caller: KubeClient;
  find(): Promise<Vm>;
  readonly wait: Waiter;
}

/** A guest has a minute to shut down unless the installation says otherwise. */
const timeoutMs = 90_000;

export interface DeletionOptions {
  readonly wait: boolean;
  /** The Persistent disk that it boots from goes with the VM, whatever the VM says. */
  readonly deleteDisk: boolean;
  /** UID of the VM that is meant: another one of its name is left alone. */
  readonly uid?: string | undefined;
  /** Takes a sentence for whoever deletes it. */
  warn(message: string): void;
  progress?(vm: Vm): void;
}

/**
 * Deletes a VM and, with `wait`, waits until it is gone, so that its name is free again; not where its disk is saved first.
 *
 * @returns how its deletion goes on; undefined: it is gone.
 * @throws Svc3Error NotFound; Conflict where it is another than `uid` says
 */
export async function deleteVm(
  { caller, find, wait }: DeletionEnvironment,
  { name, namespace }: { readonly name: string; readonly namespace: string },
  options: DeletionOptions,
): Promise<string | undefined> {
  const vm = await find();
  const { uid } = options;
  requireMeant(vms, vm, uid);
  const kept = keptClaims(vm).filter(({ field }) => !options.deleteDisk || field !== bootField);
  if (options.deleteDisk) await deleteWithDisk({ caller, find }, vm);
  else await caller.delete(vms, { name, namespace }, preconditionOf(uid));
  for (const { field, name: claim } of kept)
    options.warn(
      `${field === bootField ? 'the disk' : field} of VM ${name} stays in PersistentVolumeClaim ${claim} until that is deleted`,
    );
  if (!options.wait) return deletionMessage(name, undefined);
  const waited = await wait(vms, vm, {
    timeoutMs,
    done(seen) {
      options.progress?.(seen);
      return isHeld(seen);
    },
  });
  return waited.kind === 'gone' ? undefined : deletionMessage(name, waited.object);
}

type Deleter = Pick<DeletionEnvironment, 'caller' | 'find'>;

/**
 * Tells the VM that its disk goes, too, and deletes it. It is tried first, and where it fails nevertheless the VM says what it said before: a
 * later deletion without the disk leaves that. Nobody else's disk goes, should another VM have the name by now.
 */
async function deleteWithDisk({ caller, find }: Deleter, vm: Vm): Promise<void> {
  const { name, namespace, uid } = vm.metadata;
  const remove = () => caller.delete(vms, { name, namespace }, { uid });
  if (!diskMayStay(vm)) return remove();
  await tryDeletion(caller, vm);
  try {
    await disposeOfDisk(caller, vm);
    await remove();
  } catch (error) {
    await setBack({ caller, find }, vm, error);
    throw error;
  }
}

/** @throws what the deletion would be refused with */
async function tryDeletion(caller: KubeClient, { metadata: { name, namespace, uid } }: Vm): Promise<void> {
  await caller.delete(vms, { name, namespace }, { uid, dryRun: true });
}

/** @throws the failure, and that the disk may go with the VM, where that could not be set back */
async function setBack({ caller, find }: Deleter, vm: Vm, failure: unknown): Promise<void> {
  try {
    await keepDisks(caller, vm, find);
  } catch (error) {
    const stays = `disk.whenDeleted of VM ${vm.metadata.name} could not be set back (${messageOf(error)}): where it is Delete, the disk goes when the VM is deleted`;
    throw new Svc3Error(
      isSvc3Error(failure) ? failure.reason : 'InternalError',
      `${messageOf(failure)}; ${stays}`,
      { cause: failure },
    );
  }
}
