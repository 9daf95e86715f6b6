import type { Node, PersistentVolumeClaim, Pod } from '../../api/core.ts';
import type { Image } from '../../api/image.ts';
import type { RunnerState } from '../../api/runner.ts';
import type { Vm } from '../../api/vm.ts';
import type { EventRecorder, Informer, KubeClient } from '../../kube/types.ts';
import type { Inventory } from '../../placement/inventory.ts';
import type { DeployBackoff } from './deploybackoff.ts';
import type { VmExpectations } from './expectations.ts';
import type { LiveList } from './life/livelists.ts';
import type { RunnerObservation } from './status/report.ts';
import type { ResolveSources } from './resolve/resolve.ts';
import type { VmSettings } from './settings.ts';
import type { WaitingVms } from './waiting.ts';

/** The talk with the runners, as a pass uses it. */
export interface Runners {
  observe(key: string, vm: Vm, pod: Pod): RunnerObservation | undefined;
  /**
   * What the runner of the pod has said just now. Where it has not, it is asked beside the pass, the answer wakes the VM,
   * and this is undefined.
   */
  recent(key: string, vm: Vm, pod: Pod): RunnerState | undefined;
  forget(vmUid: string): void;
}

export interface VmReconcilerParts {
  readonly client: KubeClient;
  readonly recorder: EventRecorder;
  readonly vms: Informer<Vm>;
  readonly nodes: Informer<Node>;
  /** Claims of Persistent disks. */
  readonly claims: Informer<PersistentVolumeClaim>;
  readonly sources: ResolveSources;
  /** Images of a namespace: from the cache, and as they are now. */
  readonly images: { cached(namespace: string): readonly Image[]; readonly live: LiveList<Image> };
  readonly settings: VmSettings;
  readonly inventory: Inventory;
  readonly waiting: WaitingVms;
  readonly backoff: DeployBackoff;
  readonly expectations: VmExpectations;
  readonly runners: Runners | undefined;
  /** Public halves of the control keys, for the pods' annotation. */
  controlKeys(): string;
  /** Groups of /dev/kvm on a node; without one on all nodes. */
  kvmGroups(node: string | undefined): readonly number[];
  /** resourceVersion of the pull Secret of a namespace. */
  pullSecretVersion(namespace: string): string | undefined;
  /** Wall clock, for times that people read and for deadlines. */
  now(): Date;
}
