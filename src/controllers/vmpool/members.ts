import type { Pod } from '../../api/core.ts';
import { controllerOf } from '../../api/owner.ts';
import type { Vm } from '../../api/vm.ts';

/**
 * How many VMs a pool has: those that name it, and those that were served without knowing of it, from the moment on in which
 * they choose a guest. Pure.
 *
 * @param standbys - all pods that the pool has made, whoever has them now
 * @param holderOf - UID of the VM that has chosen a pod which is still the pool's
 */
export function countVms(
  named: readonly Pick<Vm, 'metadata'>[],
  standbys: readonly Pod[],
  holderOf: (pod: Pod) => string | undefined,
): number {
  const uids = new Set(named.map(({ metadata }) => metadata.uid));
  for (const pod of standbys) {
    const owner = controllerOf(pod);
    const uid = owner?.kind === 'VM' ? owner.uid : holderOf(pod);
    if (uid !== undefined) uids.add(uid);
  }
  return uids.size;
}
