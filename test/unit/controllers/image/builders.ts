import type { Image, ImageStatus } from '../../../../src/api/image.ts';
import type { WorkDone } from '../../../../src/api/worker.ts';
import type { Observed, VmSource } from '../../../../src/controllers/image/decide.ts';
import { storedMeta } from '../../../support/storedmeta.ts';

export const digest = `sha256:${'a'.repeat(64)}`;

export const done: WorkDone = {
  result: 'Done',
  digest,
  size: 2 ** 30,
  storedSize: 2 ** 20,
  format: 'qcow2',
  architecture: 'amd64',
};

export function anImage(
  source: Image['spec']['source'],
  status?: ImageStatus,
  metadata: Partial<Image['metadata']> = {},
): Image {
  return {
    metadata: storedMeta({ name: 'disk', namespace: 'team', uid: 'uid-1', generation: 1, ...metadata }),
    spec: { source },
    ...(status === undefined ? {} : { status }),
  };
}

export function aVmSource(more: Partial<VmSource> = {}): VmSource {
  return {
    uid: 'u',
    runner: { address: '10.0.0.1', fingerprint: 'f' },
    podUid: undefined,
    podName: undefined,
    architecture: 'amd64',
    deletionTimestamp: undefined,
    commitRefusal: undefined,
    powerState: 'Running',
    memoryRefusal: undefined,
    ...more,
  };
}

export function observed(disk: Image, more: Partial<Observed> = {}): Observed {
  return {
    disk,
    kind: 'Image',
    path: { registry: 'store.example.com', repository: 'svc3/team/disk' },
    request: 'create',
    worker: undefined,
    hasPods: false,
    hasOldPods: false,
    copySource: undefined,
    vmSource: undefined,
    withdrawn: undefined,
    users: undefined,
    retryAt: 0,
    now: 1_000_000,
    ...more,
  };
}

export function condition(
  type: string,
  status: 'True' | 'False' | 'Unknown',
  reason: string,
): NonNullable<ImageStatus['conditions']>[number] {
  return {
    type,
    status,
    reason,
    message: reason,
    observedGeneration: 1,
    lastTransitionTime: '2026-01-01T00:00:00Z',
  };
}
