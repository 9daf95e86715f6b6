import { vms } from '../api/resources.ts';
import type { Vm } from '../api/vm.ts';
import { bootField } from '../api/whendeleted.ts';
import { disposeOfDisk, keptClaims } from '../controllers/vm/life/disposal.ts';
import type { KubeClient } from '../kube/types.ts';
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
  /** Takes a sentence for whoever deletes it. */
  warn(message: string): void;
  progress?(vm: Vm): void;
}

/**
 * Deletes a VM and, with `wait`, waits until it is gone, so that its name is free again; not where its disk is saved first.
 *
 * @returns how its deletion goes on; undefined: it is gone.
 */
export async function deleteVm(
  { caller, find, wait }: DeletionEnvironment,
  { name, namespace }: { readonly name: string; readonly namespace: string },
  options: DeletionOptions,
): Promise<string | undefined> {
  const vm = await find();
  const kept = keptClaims(vm).filter(({ field }) => !options.deleteDisk || field !== bootField);
  // Nobody else's disk goes, should another VM have the name by now.
  const { uid } = (options.deleteDisk ? await disposeOfDisk(caller, vm) : vm).metadata;
  await caller.delete(vms, { name, namespace }, options.deleteDisk ? { uid } : undefined);
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
