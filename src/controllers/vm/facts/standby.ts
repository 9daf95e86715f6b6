import { createHash } from 'node:crypto';
import type { Pod } from '../../../api/core.ts';
import { annotations, labels, standbyNamePrefix } from '../../../api/meta.ts';
import { controllerOf, isOwnedBy, isTerminating } from '../../../api/owner.ts';
import { conditionTypes } from '../../../api/reasons.ts';
import type { EffectiveSettings, Vm } from '../../../api/vm.ts';
import type { VmPool } from '../../../api/vmpool.ts';
import { findCondition } from '../../../controller/conditions.ts';
import { annotatedSettings } from './annotatedsettings.ts';
import { hasBundle } from './bundle.ts';
import { hasClaims } from './claim.ts';
import { isPodReady } from './podstate.ts';
import { podNameOf } from '../names.ts';

/** Index of pods by the pool that made them, whoever has them now: `<namespace>/<pool>`. */
export const poolIndex = {
  pool: ({ metadata }: Pod) =>
    isStandby({ metadata }) ? [`${metadata.namespace}/${metadata.labels?.[labels.pool]}`] : [],
};

/** Whether a pool has made the pod, whoever has it now. */
export function isStandby({ metadata }: Pick<Pod, 'metadata'>): boolean {
  return metadata.labels?.[labels.pool] !== undefined && metadata.name.startsWith(standbyNamePrefix);
}

/** Whether the guest of the pod is still no VM's. */
export function isOfPool(pod: Pod): boolean {
  return isStandby(pod) && controllerOf(pod)?.kind === 'VMPool';
}

/**
 * Whether the pod is left of a pool that is gone, and no VM can have its guest any more: where a pool is deleted with `--cascade=orphan`, the garbage
 * collector takes the owner of its pods away, and deletes none.
 */
export function isLeftOfPool(pod: Pod): boolean {
  return isStandby(pod) && controllerOf(pod) === undefined && pod.metadata.labels?.[labels.vm] === undefined;
}

/** Whether the runner of the VM's pod has told that the guest is this VM's; a pod that was made for the VM never has to. */
export function isClaimed({ status }: Vm, pod: Pod): boolean {
  return !isStandby(pod) || status?.runner?.podUid === pod.metadata.uid;
}

/** Whether a VM can have the guest of this pod now. */
export function isIdle(pod: Pod, pool: VmPool): boolean {
  return isOwnedBy(pod, pool) && !isTerminating(pod) && isPodReady(pod);
}

/** Digest of what the pool says its guests are: one of another template is no VM's any more. */
export function templateDigest({ spec: { template, standby } }: VmPool): string {
  return digest({ template, standby });
}

/** Short text that tells two values apart; the order of members counts. */
export function digest(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('hex').slice(0, 32);
}

/** The settings of a VM that gets this pod; undefined where the pod's cannot be read. Its own lists for the guest win. */
export function claimedSettings({ spec }: Vm, pod: Pod): EffectiveSettings | undefined {
  const effective = annotatedSettings(pod);
  if (effective === undefined) return undefined;
  const { metadata, sshAuthorizedKeys, startDeadlineSeconds } = spec;
  return {
    ...effective,
    ...(metadata === undefined ? {} : { metadata }),
    ...(sshAuthorizedKeys === undefined ? {} : { sshAuthorizedKeys }),
    ...(startDeadlineSeconds === undefined ? {} : { startDeadlineSeconds }),
  };
}

/**
 * Whether a VM of a pool waits for a pod that is not there: none was chosen for it, or none was made under its own name, which kube-apiserver
 * refuses, as by a quota that guests of the pool use up, or no node takes.
 */
export function isWithoutPod({ metadata, status }: Vm): boolean {
  if (status?.podName === undefined) return true;
  const scheduled = findCondition(status.conditions, conditionTypes.scheduled);
  return status.podName === podNameOf(metadata.name) && scheduled?.status === 'False';
}

/** A VM of a pool that has never run. */
export function isToRun({ spec, status }: Vm): boolean {
  return spec.pool !== undefined && spec.powerState === 'Running' && status?.powerState === undefined;
}

/** Whether a VM of a pool may still get a guest that waits: no pod was made for it. */
export function isUnclaimed(vm: Vm): boolean {
  return isToRun(vm) && vm.status?.podName !== podNameOf(vm.metadata.name);
}

/** Whether a VM of a pool that has no pod takes the next guest that waits. */
export function waitsForGuest(vm: Vm): boolean {
  return isToRun(vm) && isWithoutPod(vm) && !isTerminating(vm);
}

/** A VM of a pool as if it said itself what the template says. */
export function templated(vm: Vm, { spec: { template } }: VmPool): Vm {
  const { pool: _pool, ...own } = vm.spec;
  return { ...vm, spec: { ...template, ...own } };
}

/** Why no guest of a pool can have these settings, which only the VMConfig of its template, or the image, may show. */
export function standbyRefusal(effective: EffectiveSettings): string | undefined {
  if (hasClaims(effective))
    return 'spec.template.disk.storage: Persistent is not for pools, the disk of a standby is nobody’s';
  if (hasBundle(effective))
    return 'spec.template.gpuPassthrough: Enabled is not for pools, a standby would hold the cards for nobody';
  if (effective.subdomain !== undefined) return 'spec.template.subdomain: is not for pools, it is of one VM';
  return undefined;
}

/** Label selector of the pods of a pool that are no VM's. */
export function selectorOf(poolName: string): string {
  return `${labels.pool}=${poolName},!${labels.vm}`;
}

/** Whether the pod was made from what the pool says now. */
export function isOfTemplate({ metadata }: Pod, template: string): boolean {
  return metadata.annotations?.[annotations.poolTemplate] === template;
}
