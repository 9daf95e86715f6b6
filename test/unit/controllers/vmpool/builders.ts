import type { Node, Pod, Taint } from '../../../../src/api/core.ts';
import type { Vm, VmSpec, VmStatus } from '../../../../src/api/vm.ts';
import type { VmPool, VmPoolSpec } from '../../../../src/api/vmpool.ts';
import { pullSecretAnnotation } from '../../../../src/controllers/vm/names.ts';
import { ownershipPatch } from '../../../../src/controllers/vm/pool/claims.ts';
import { buildStandby, templateVm } from '../../../../src/controllers/vmpool/standbypod.ts';
import type { VmSettings } from '../../../../src/controllers/vm/settings.ts';
import { vmSettings } from '../../../support/operator.ts';
import { storedMeta } from '../../../support/storedmeta.ts';
import { aVm, effective, podInput, runningStatus } from '../vm/builders.ts';

/** A pool `team/ci` on which one guest is to wait. */
export function aPool(spec: Partial<VmPoolSpec> = {}): VmPool {
  return {
    apiVersion: 'svc3.dev/v1',
    kind: 'VMPool',
    metadata: storedMeta({ name: 'ci', namespace: 'team', uid: 'pool-uid', generation: 1 }),
    spec: {
      template: { image: effective.image },
      minIdle: 1,
      standby: 'Suspended',
      serveConfig: false,
      ...spec,
    },
  };
}

export interface StandbyGiven {
  readonly pool?: VmPool;
  readonly settings?: Partial<typeof effective>;
  /** Whether its guest waits; else it boots. */
  readonly isIdle?: boolean;
  readonly createdAt?: string;
  /** Of the installation that has made it. */
  readonly installation?: Partial<VmSettings>;
}

export const bornAt = '2026-11-01T10:00:00Z';

/** A pod of the pool on n1 with this name, whose guest waits. */
export function aStandby(
  name: string,
  { pool = aPool(), settings = {}, isIdle = true, createdAt = bornAt, installation }: StandbyGiven = {},
): Pod {
  const input = podInput({
    vm: templateVm(pool, `svc3-pool-${name}`),
    effective: { ...effective, ...settings },
    settings: vmSettings(installation),
  });
  const pod = buildStandby(pool, input);
  const metadata = { uid: `uid-${name}`, resourceVersion: '5', creationTimestamp: createdAt };
  return {
    ...pod,
    metadata: storedMeta({ ...pod.metadata, ...metadata }),
    spec: { ...pod.spec, nodeName: 'n1' },
    status: runningStatus(isIdle),
  };
}

/** One that boots, the image of which its kubelet cannot pull; `version`: of the pull Secret that it was made with. */
export function unpulled(name: string, message: string, version?: string): Pod {
  const { metadata, spec } = aStandby(name);
  const made = version === undefined ? {} : { [pullSecretAnnotation]: version };
  const state = { waiting: { reason: 'ImagePullBackOff', message } };
  const runner = { name: 'runner', ready: false, restartCount: 0, image: '', imageID: '', state };
  return {
    metadata: { ...metadata, annotations: { ...metadata.annotations, ...made } },
    spec,
    status: { phase: 'Pending', containerStatuses: [runner] },
  };
}

/** The pod once a VM has it. */
export function ownedBy(vm: Vm, pod: Pod): Pod {
  const { metadata } = ownershipPatch(vm, pod, effective) as Pick<Pod, 'metadata'>;
  return {
    ...pod,
    metadata: { ...pod.metadata, ...metadata, labels: { ...pod.metadata.labels, ...metadata.labels } },
  };
}

/** A VM of this name, whose UID says it, which names the pool. */
export function aPoolVm(name: string, given: { spec?: Partial<VmSpec>; status?: VmStatus } = {}): Vm {
  const { image: _image, ...spec } = aVm().spec;
  const vm = aVm({ metadata: { name, uid: `uid-of-${name}` } });
  return {
    ...vm,
    spec: { ...spec, pool: 'ci', ...given.spec },
    ...(given.status === undefined ? {} : { status: given.status }),
  };
}

export interface NodeGiven {
  readonly isCordoned?: boolean;
  readonly isLost?: boolean;
  /** Value of its label `svc3.dev/namespace`. */
  readonly reservedFor?: string;
  readonly taints?: Taint[];
}

export function aNode({ isCordoned = false, isLost = false, reservedFor, taints }: NodeGiven = {}): Node {
  const labels = reservedFor === undefined ? {} : { 'svc3.dev/namespace': reservedFor };
  return {
    metadata: storedMeta({ name: 'n1', labels }),
    spec: {
      ...(isCordoned ? { unschedulable: true } : {}),
      ...(taints === undefined ? {} : { taints }),
    },
    status: { conditions: [{ type: 'Ready', status: isLost ? 'Unknown' : 'True' }] },
  };
}
