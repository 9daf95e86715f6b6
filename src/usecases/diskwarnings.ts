import { withoutClaim } from '../api/ephemeraldisk.ts';
import { hasTemplate } from '../api/template.ts';
import type { Vm } from '../api/vm.ts';
import type { Inherited } from '../wire/vm.ts';

/**
 * Warnings of what is said of the disk of a VM and only one on a claim has, as far as that is known before the VM is placed; after that the operator says it,
 * in the same words.
 *
 * @param inherited - what the VM has where it says nothing itself; undefined where the caller may not see it
 */
export function diskWarnings({ spec, status }: Vm, inherited: Inherited | undefined): readonly string[] {
  const isUnknown = hasTemplate(spec) && inherited === undefined;
  if (isUnknown || status?.effective !== undefined) return [];
  return withoutClaim({ ...inherited?.spec.disk, ...spec.disk });
}
