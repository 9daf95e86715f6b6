import type { Condition } from '../../../../src/api/object.ts';
import type { VmConfig, VmConfigSpec, VmConfigStatus } from '../../../../src/api/vmconfig.ts';
import { storedMeta } from '../../../support/storedmeta.ts';

export function aConfig(spec: VmConfigSpec, status?: VmConfigStatus): VmConfig {
  return {
    metadata: storedMeta({ name: 'web', namespace: 'team', generation: 3 }),
    spec,
    ...(status === undefined ? {} : { status }),
  };
}

export function condition(
  type: string,
  status: Condition['status'],
  reason: string,
  lastTransitionTime = '2026-01-01T00:00:00Z',
): Condition {
  return { type, status, reason, message: `${reason} of it`, lastTransitionTime };
}
