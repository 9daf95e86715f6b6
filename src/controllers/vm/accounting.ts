import type { Pod } from '../../api/core.ts';
import { podNamePrefix, standbyNamePrefix } from '../../api/meta.ts';
import { isOwnedBy } from '../../api/owner.ts';
import type { Vm } from '../../api/vm.ts';
import type { Informer } from '../../kube/types.ts';
import type { Inventory } from '../../placement/inventory.ts';
import { podFacts } from '../../placement/podfacts.ts';
import { podNamesOf } from './names.ts';

/** Index of VMs by the names that their pod may have: `<namespace>/<pod name>`. */
export const podNameIndex = {
  podName: (vm: Vm) => podNamesOf(vm).map((name) => `${vm.metadata.namespace}/${name}`),
};

/**
 * UID of the VM that this pod was made for; undefined for every other pod. Neither labels nor an owner reference alone
 * prove it: the pod has to have a name that the pod of the VM can have, in the VM's namespace, so that no tenant
 * gets more than one pod of a VM counted.
 * @param named - the VMs whose pod has this pod's namespace and name
 */
export function vmUidOf(pod: Pod, named: readonly Vm[]): string | undefined {
  return named.find((vm) => isOwnedBy(pod, vm))?.metadata.uid;
}

export interface AccountingParts {
  readonly pods: Informer<Pod>;
  /** With `podNameIndex`. */
  readonly vms: Informer<Vm>;
  readonly inventory: Inventory;
  /** What a pod that waits for a VM was assumed as; undefined for every other pod. */
  standbyKey?(pod: Pod): string | undefined;
  /** Called when a pod has given back what it took, or some of it: it is smaller by now. */
  freed(): void;
  /** Called when a pod is new on a node, or has other labels: somebody may have waited for such a neighbour. */
  came(): void;
}

/**
 * Keeps in the inventory what the pods take of the nodes. A pod that is not bound counts while its VM is known: VM and
 * pod are seen in any order, and a VM may go before its pod.
 */
export function accountPods({ pods, vms, inventory, standbyKey, freed, came }: AccountingParts): void {
  const account = (pod: Pod) => {
    const facts = podFacts(pod, vmUidOf(pod, vmsNamedBy(vms, pod)) ?? standbyKey?.(pod));
    if (facts !== undefined) {
      const change = inventory.setPod(facts);
      if (change === 'less') freed();
      if (change !== 'same') came();
    } else if (inventory.removePod(pod.metadata.uid)) freed();
  };
  pods.onChange(({ kind, object }) => {
    if (kind !== 'deleted') account(object);
    else if (inventory.removePod(object.metadata.uid)) freed();
  });
  vms.onChange(({ kind, object }) => {
    if (kind === 'updated') return;
    for (const name of podNamesOf(object)) {
      const pod = pods.get(name, object.metadata.namespace);
      if (pod !== undefined && pod.spec.nodeName === undefined) account(pod);
    }
  });
}

/** The VMs whose pod has this pod's name, whoever made the pod. */
export function vmsNamedBy(vms: Informer<Vm>, { metadata }: Pick<Pod, 'metadata'>): readonly Vm[] {
  const { name, namespace } = metadata;
  const isOurs = name.startsWith(podNamePrefix) || name.startsWith(standbyNamePrefix);
  return isOurs ? vms.byIndex('podName', `${namespace}/${name}`) : [];
}
