import { vms } from '../api/resources.ts';
import type { Vm } from '../api/vm.ts';
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

/**
 * Deletes a VM and, with `wait`, waits until it is gone, so that its name is free again; not where its disk is saved first.
 *
 * @returns how its deletion goes on; undefined: it is gone.
 */
export async function deleteVm(
  { caller, find, wait }: DeletionEnvironment,
  { name, namespace }: { readonly name: string; readonly namespace: string },
  options: { readonly wait: boolean; progress?(vm: Vm): void },
): Promise<string | undefined> {
  const vm = options.wait ? await find() : undefined;
  await caller.delete(vms, { name, namespace });
  if (vm === undefined) return deletionMessage(name, undefined);
  const waited = await wait(vms, vm, {
    timeoutMs,
    done(seen) {
      options.progress?.(seen);
      return isHeld(seen);
    },
  });
  return waited.kind === 'gone' ? undefined : deletionMessage(name, waited.object);
}
