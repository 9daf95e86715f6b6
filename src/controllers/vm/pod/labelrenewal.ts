import type { Pod } from '../../../api/core.ts';
import { pods } from '../../../api/resources.ts';
import type { Vm } from '../../../api/vm.ts';
import { ignoring } from '../../../controller/ignoring.ts';
import { isRefusal } from '../../../controller/refusal.ts';
import { messageOf } from '../../../errors.ts';
import type { KubeClient } from '../../../kube/types.ts';
import { labelWarning } from '../resolve/livewarnings.ts';
import type { VmMemory } from '../vmmemory.ts';
import { labelPatch } from './podlabels.ts';

export interface LabelRenewalParts {
  readonly client: Pick<KubeClient, 'patch'>;
  /** Milliseconds of a clock that never jumps. */
  readonly monotonic: () => number;
}

/** Whoever refuses labels of pods may allow them, of which nobody tells: so long until they are tried again, in milliseconds. */
const askAgainMs = 60_000;

/** What became of the labels that a pod is to have. */
export interface LabelsRenewed {
  /** Why it does not get them, for `status.warnings`. */
  readonly warning?: string;
  /** Milliseconds until they are tried again. */
  readonly againMs?: number;
}

interface Refused {
  readonly asked: string;
  /** In milliseconds. */
  readonly at: number;
  readonly warning: string;
}

/** Services and policies select a pod by the labels of its VM as they are now. A policy of the cluster may allow a VM labels that it refuses pods. */
export class LabelRenewal implements VmMemory {
  readonly #parts: LabelRenewalParts;
  /** By the UID of the VM. */
  readonly #refused = new Map<string, Refused>();

  constructor(parts: LabelRenewalParts) {
    this.#parts = parts;
  }

  forget(vmUid: string): void {
    this.#refused.delete(vmUid);
  }

  /** Gives the pod the labels of its VM. No write where it has them, or where they have just been refused. */
  async renew(vm: Vm, pod: Pod): Promise<LabelsRenewed> {
    const patch = labelPatch(vm, pod);
    const { uid } = vm.metadata;
    const asked = JSON.stringify([pod.metadata.uid, patch]);
    const before = this.#refused.get(uid);
    const now = this.#parts.monotonic();
    if (before?.asked === asked && now - before.at < askAgainMs)
      return { warning: before.warning, againMs: before.at + askAgainMs - now };
    this.#refused.delete(uid);
    if (patch === undefined) return {};
    const refusal = await this.#write(pod, patch);
    if (refusal === undefined) return {};
    const warning = labelWarning(pod.metadata.name, refusal);
    this.#refused.set(uid, { asked, at: now, warning });
    return { warning, againMs: askAgainMs };
  }

  /** Returns why it is refused. */
  async #write({ metadata }: Pod, patch: object): Promise<string | undefined> {
    const { name, namespace, uid } = metadata;
    const body = { metadata: { uid, ...patch } };
    try {
      await ignoring(
        ['NotFound', 'Conflict'],
        this.#parts.client.patch(pods, { name, namespace }, { type: 'merge', body }),
      );
      return undefined;
    } catch (error) {
      if (!isRefusal(error)) throw error;
      return messageOf(error);
    }
  }
}
