import type { PortRange } from '../../api/meta.ts';
import type { Accelerator } from '../../placement/facts.ts';
import type { PortRanges } from '../../placement/ports.ts';
import { pullsWithText } from '../pullswith.ts';

/** Where images lie: chart value `store`. */
export interface Store {
  /** Registry with optional path, scheme allowed: `https://registry.example.com`. */
  readonly url: string;
  readonly prefix: string;
}

/** What the installation says about VMs; every field is a chart value. */
export interface VmSettings {
  /** `gpuPassthrough.enabled` (spec: GPU passthrough rules 2, 3). */
  readonly gpuPassthroughEnabled: boolean;
  /** `hostPorts.allowed`: what `spec.ports` may name, in addition to our own ranges. */
  readonly hostPortsAllowed: readonly PortRange[];
  /** `portRanges`; `vnc` only where `vnc.hostPort` is on. */
  readonly portRanges: PortRanges;
  /** `nodePorts`: whether the service gets a port of the node where neither VM nor VMConfig says so. */
  readonly nodePorts: { readonly ssh: boolean; readonly screenshare: boolean };
  readonly cpuOvercommit: number;
  readonly accelerator: 'auto' | Accelerator;
  /** `placement.whenFull`: Hold makes no pod, Pod leaves an unpinned one to kube-scheduler. */
  readonly whenFull: 'Hold' | 'Pod';
  readonly store: Store;
  readonly runnerImage: string;
  readonly runnerImagePullPolicy: 'Always' | 'IfNotPresent' | 'Never';
  /** `runner.pullSecret`: a Secret of the VM's namespace for the runner image. */
  readonly runnerPullSecret: string | undefined;
  /** StorageClass of Persistent disks that name none. */
  readonly storageClassName: string | undefined;
  /** `disk.ephemeralLimit`: the largest Ephemeral disk, in bytes. */
  readonly ephemeralLimitBytes: number;
  readonly priorityClassName: string | undefined;
  /** The guest's time to shut down. */
  readonly graceSeconds: number;
  /** `readiness.timeoutSeconds`: how long a guest may take to answer on SSH or by its agent before it counts as ready all the same. */
  readonly readinessSeconds: number;
  /** `vmMetrics.enabled`: runners serve metrics of their VMs. */
  readonly vmMetrics: boolean;
  /** `deletion.saveWaitMinutes`, in milliseconds: how long the deletion or the revert of a VM waits until its disk is saved. */
  readonly saveWaitMs: number;
}

/** What the runner image of a pod that is made now is pulled with, as the pod's annotation says it. */
export function runnerPullsWith(
  settings: Pick<VmSettings, 'runnerImage' | 'runnerImagePullPolicy' | 'runnerPullSecret'>,
): string {
  const { runnerImage: image, runnerImagePullPolicy: policy, runnerPullSecret: secret } = settings;
  return pullsWithText({ image, policy, secret });
}

/** The services that get a port of the node where neither VM nor VMConfig says so. */
export function nodePortDefaults({
  portRanges,
  nodePorts,
}: Pick<VmSettings, 'portRanges' | 'nodePorts'>): VmSettings['nodePorts'] {
  return {
    ssh: nodePorts.ssh && portRanges.ssh !== undefined,
    screenshare: nodePorts.screenshare && portRanges.screenshare !== undefined,
  };
}
