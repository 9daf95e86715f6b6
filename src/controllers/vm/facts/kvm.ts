import type { Pod } from '../../../api/core.ts';
import { extendedResources } from '../../../api/meta.ts';

/** Whether the pod asks for `/dev/kvm`: its guest runs under no other accelerator. */
export function requestsKvm({ spec }: Pod): boolean {
  return spec.containers.some(({ resources }) => resources?.limits?.[extendedResources.kvm] !== undefined);
}
