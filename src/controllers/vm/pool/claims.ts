import type { Pod } from '../../../api/core.ts';
import { annotations, apiVersion, standbyNamePrefix } from '../../../api/meta.ts';
import { isOwnedBy, isTerminating } from '../../../api/owner.ts';
import { pods, vmConfigs } from '../../../api/resources.ts';
import type { EffectiveSettings, Vm } from '../../../api/vm.ts';
import type { VmConfig } from '../../../api/vmconfig.ts';
import { ignoring } from '../../../controller/ignoring.ts';
import { isSvc3Error } from '../../../errors.ts';
import type { KubeClient } from '../../../kube/types.ts';
import type { VmExpectations } from '../expectations.ts';
import { effectiveAnnotation, podNameOf } from '../names.ts';
import { labelMetadata } from '../pod/podlabels.ts';
import type { StartTraces } from '../starts/starttraces.ts';
import type { Pass } from '../pass.ts';
import { pendingDraft } from '../status/pending.ts';
import { condition, type StatusDraft } from '../status/statusdraft.ts';
import type { Resolved } from '../resolve/resolve.ts';
import type { StatusWriter } from '../status/statuswriter.ts';
import { claimedSettings, isOfPool } from '../facts/standby.ts';

export interface ClaimParts {
  readonly client: KubeClient;
  readonly expectations: VmExpectations;
  /** Where starts are traced. */
  readonly starts?: Pick<StartTraces, 'traceparent'> | undefined;
  readonly status: Pick<StatusWriter, 'choosePod'>;
}

/** The settings of a VM with a guest that waited, and what of those it asked for is not so. */
export type GuestSettings = Pick<Resolved, 'effective' | 'warnings'>;

/** The pod that is to be a VM's, and what is said of it. */
export interface ChosenPod {
  readonly podName: string;
  readonly message: string;
  /** What a VM has with a waiting guest. */
  readonly settings?: GuestSettings | undefined;
}

/** What became of making a pod the VM's. */
export type Taken = { readonly kind: 'taken'; readonly pod: Pod } | { readonly kind: 'lost' };

/**
 * First write of a claim: the VM's status names the pod, where the VM is still exactly as it was seen. A VM has at most one pod.
 *
 * @param chosen.podName - of a waiting guest, or of the pod that is made for the VM
 * @param chosen.settings - of a VM that gets a waiting guest
 * @throws Svc3Error Conflict where the VM has changed since
 */
export async function choosePod(
  { status }: ClaimParts,
  pass: Pass,
  { podName, message, settings }: ChosenPod,
): Promise<Vm | undefined> {
  const vm = pass.written ?? pass.observed.vm;
  const draft = pendingDraft(vm, { ready: condition('False', 'Claiming', message) });
  const fields = settings === undefined ? draft.fields : withGuest(vm, draft.fields, settings);
  const written = await status.choosePod(vm, { ...draft, fields: { ...fields, podName } });
  if (written !== undefined) pass.written = written;
  return written;
}

/**
 * What was told of the VM without a guest is over. One that is new to the VM answers what was asked of its guest until now, as the first boot in a pod of its
 * own does: the runner knows nothing of it, and would restart or revert the guest at once.
 */
function withGuest(
  { spec: { startRequest, restartRequest, revertRequest } }: Vm,
  { planned: _planned, warnings: _warnings, ...fields }: StatusDraft['fields'],
  { effective, warnings }: GuestSettings,
): StatusDraft['fields'] {
  return {
    ...fields,
    effective,
    ...(warnings.length === 0 ? {} : { warnings: [...warnings] }),
    ...(startRequest === undefined ? {} : { startRequest }),
    ...(restartRequest === undefined ? {} : { restartRequest }),
    ...(revertRequest === undefined ? {} : { revertRequest }),
  };
}

/** Second write: the pod's owner. It fails where another VM was first, or the pool has given the pod up. */
export async function takePod(
  { client, expectations, starts }: ClaimParts,
  vm: Vm,
  seen: Pod,
): Promise<Taken> {
  const { name, namespace, uid } = seen.metadata;
  const traceparent = starts?.traceparent(vm);
  let pod: Pod | undefined = seen;
  // A kubelet writes the status of a pod at any moment: what counts is whose it is now.
  for (;;) {
    const effective = vm.status?.effective ?? claimedSettings(vm, pod);
    if (effective === undefined) return { kind: 'lost' };
    try {
      const patch = { type: 'merge', body: ownershipPatch(vm, pod, effective, traceparent) } as const;
      const taken = await client.patch(pods, { name, namespace }, patch);
      expectations.wrotePod(taken);
      return { kind: 'taken', pod: taken };
    } catch (error) {
      if (isSvc3Error(error, 'NotFound')) return { kind: 'lost' };
      if (!isSvc3Error(error, 'Conflict')) throw error;
    }
    pod = await ignoring(['NotFound'], client.get(pods, name, namespace));
    if (pod === undefined || pod.metadata.uid !== uid || isTerminating(pod)) return { kind: 'lost' };
    if (isOwnedBy(pod, vm)) {
      expectations.wrotePod(pod);
      return { kind: 'taken', pod };
    }
    if (!isOfPool(pod)) return { kind: 'lost' };
  }
}

/**
 * Makes the pod the VM's, where it is still exactly as it was seen: a pod has at most one VM.
 *
 * @param traceparent - of the VM's start, where that is recorded
 */
export function ownershipPatch(
  vm: Vm,
  { metadata: { uid, resourceVersion } }: Pod,
  effective: EffectiveSettings,
  traceparent?: string,
): object {
  const { name, uid: vmUid } = vm.metadata;
  const fromVm = labelMetadata(vm);
  return {
    metadata: {
      uid,
      resourceVersion,
      labels: fromVm.labels,
      annotations: {
        ...fromVm.annotations,
        [effectiveAnnotation]: JSON.stringify(effective),
        ...(traceparent === undefined ? {} : { [annotations.traceparent]: traceparent }),
      },
      ownerReferences: [
        { apiVersion, kind: 'VM', name, uid: vmUid, controller: true, blockOwnerDeletion: true },
      ],
    },
  };
}

/**
 * Whether the pod that a VM's status names may still become the VM's, or is: the cache does not show it. Only of a waiting guest:
 * a pod that was made for the VM has its one name, so that no second one can be made.
 */
export async function mayHavePod(client: KubeClient, vm: Vm): Promise<boolean> {
  const { podName } = vm.status ?? {};
  if (podName === undefined || !podName.startsWith(standbyNamePrefix)) return false;
  const pod = await ignoring(['NotFound'], client.get(pods, podName, vm.metadata.namespace));
  return pod !== undefined && (isOwnedBy(pod, vm) || (isOfPool(pod) && !isTerminating(pod)));
}

/** Whether a pod was made for the VM that the cache does not show: by the previous leader. */
export async function hasOwnPod(client: KubeClient, { metadata }: Vm): Promise<boolean> {
  const { name, namespace } = metadata;
  return (await ignoring(['NotFound'], client.get(pods, podNameOf(name), namespace))) !== undefined;
}

/** Whether a VMConfig is still as the cache shows it: a guest of what it said before is not for a VM that names it now. */
export async function isUnchanged(client: KubeClient, { metadata }: VmConfig): Promise<boolean> {
  const { name, namespace, uid, generation } = metadata;
  const now = await ignoring(['NotFound'], client.get(vmConfigs, name, namespace));
  return now?.metadata.uid === uid && now.metadata.generation === generation;
}
