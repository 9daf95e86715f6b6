import type { Pod } from '../../../api/core.ts';
import type { EffectiveSettings, Vm } from '../../../api/vm.ts';
import { type AffinityRequest, neighbourOf } from '../../../placement/affinity.ts';
import type { Inventory } from '../../../placement/inventory.ts';
import { affinityRules, hasAffinity } from '../../../placement/place.ts';
import { nodeOf } from '../../../placement/podfacts.ts';
import { emptyVector } from '../../../placement/resources.ts';
import { labelMetadata } from '../pod/podlabels.ts';

/** Beside whom a guest that waits becomes a VM's: what is required of labels of nodes and pods holds there as it does for a VM that is placed. */
export class Neighbourhood {
  readonly #inventory: Inventory;

  constructor(inventory: Inventory) {
    this.#inventory = inventory;
  }

  /**
   * Whether placement would take the node of a guest for the VM, by affinity, anti-affinity and spread.
   *
   * @param waiting - UIDs of the pods of the pool that are no VM's: before that a guest is no neighbour of its VMs
   */
  around(vm: Vm, effective: EffectiveSettings, waiting: readonly string[]): (pod: Pod) => boolean {
    const inventory = this.#inventory;
    const request = requestOf(vm, effective);
    if (!hasAffinity(inventory, request)) return () => true;
    const rules = inventory.without(waiting, () => affinityRules(inventory, request)?.countNow());
    if (rules === undefined) return () => true;
    return (pod) => {
      const node = inventory.node(nodeOf(pod) ?? '');
      return (
        node !== undefined && rules.refusesNode(node) === undefined && rules.refusesPods(node) === undefined
      );
    };
  }

  /** The guest counts as the VM's to others from now on: its pod does not say so yet. */
  assume(vm: Vm, effective: EffectiveSettings, pod: Pod): void {
    const node = nodeOf(pod);
    if (node === undefined) return;
    const neighbour = neighbourOf(requestOf(vm, effective));
    this.#inventory.assume(keyOf(vm.metadata.uid), { node, requests: emptyVector(), ports: [], neighbour });
  }

  /** The pod says it, or the guest is promised to the VM no more. */
  release(vmUid: string): void {
    this.#inventory.forget(keyOf(vmUid));
  }
}

/** What the VM's own pod is assumed under is another decision. */
function keyOf(vmUid: string): string {
  return `guest of ${vmUid}`;
}

function requestOf(vm: Vm, { affinity, topologySpreadConstraints = [] }: EffectiveSettings): AffinityRequest {
  const { namespace } = vm.metadata;
  return { namespace, labels: labelMetadata(vm).labels, affinity, topologySpreadConstraints };
}
