import type { EffectiveSettings } from '../../../api/vm.ts';

/** GPU rule 6: x86 VMs with GPU ask for the node's bundle; ARM VMs ask for none. */
export function hasBundle(effective: EffectiveSettings): boolean {
  return effective.architecture === 'amd64' && effective.gpuPassthrough === 'Enabled';
}
