import { typeMeta, vms } from '../../../api/resources.ts';
import type { Pod } from '../../../api/core.ts';
import type { Vm } from '../../../api/vm.ts';
import type { Submitted } from '../../../api/object.ts';
import { ignoring } from '../../../controller/ignoring.ts';
import { applyStatus } from '../../../controller/status.ts';
import type { EventRecorder, KubeClient } from '../../../kube/types.ts';
import type { VmExpectations } from '../expectations.ts';
import { typed } from '../typed.ts';
import { isPodReady } from '../facts/podstate.ts';
import { statusOf } from './draftedstatus.ts';
import type { StatusDraft } from './statusdraft.ts';
import { eventsBetween } from './statusevents.ts';
import { whenDue } from './statuspolicy.ts';

export interface StatusWriterParts {
  readonly client: KubeClient;
  readonly recorder: EventRecorder;
  readonly expectations: VmExpectations;
  /** Wall clock, for times that people read. */
  now(): Date;
}

/** The only place where the status of a VM is written. */
export class StatusWriter {
  readonly #parts: StatusWriterParts;

  constructor(parts: StatusWriterParts) {
    this.#parts = parts;
  }

  /**
   * Writes the status when it is due; events follow what was written.
   *
   * @returns the milliseconds after which the pass is to be repeated for a status that was put off; undefined: for none
   */
  async report(vm: Vm, pod: Pod | undefined, draft: StatusDraft): Promise<number | undefined> {
    const { expectations, now } = this.#parts;
    const status = statusOf(vm, draft, now());
    const created = pod?.metadata.creationTimestamp;
    const due = whenDue({
      before: vm.status,
      after: status,
      startAgeMs: expectations.startAgeMs(vm.metadata.uid),
      podAgeMs: created === undefined ? Infinity : now().getTime() - Date.parse(created),
      isPodReady: pod !== undefined && isPodReady(pod),
    });
    if (due.kind === 'later') return due.afterMs;
    if (due.kind === 'now') await this.#write(vm, status);
    return undefined;
  }

  /**
   * Writes which pod the VM is to have, where the VM is still exactly as it was seen: two that choose at once do not both.
   *
   * @returns the VM as it is then; undefined where it is gone
   * @throws Svc3Error Conflict
   */
  async choosePod(vm: Vm, draft: StatusDraft): Promise<Vm | undefined> {
    const { client, recorder, expectations, now } = this.#parts;
    const { name, namespace, uid, resourceVersion } = vm.metadata;
    const status = statusOf(vm, draft, now());
    const metadata = { name, namespace, uid, resourceVersion };
    const object = { ...typeMeta(vms), metadata, status } as unknown as Submitted<Vm>;
    const written = await ignoring(['NotFound'], client.apply(vms, object, { subresource: 'status' }));
    if (written === undefined) return undefined;
    expectations.wroteVm(written);
    for (const event of eventsBetween(vm.status, status)) recorder.event(typed(vm), event);
    return written;
  }

  async #write(vm: Vm, status: NonNullable<Vm['status']>): Promise<void> {
    const { client, recorder, expectations } = this.#parts;
    const written = await applyStatus(client, vms, vm, status);
    if (written === undefined) return;
    expectations.wroteVm(written);
    for (const event of eventsBetween(vm.status, status)) recorder.event(typed(vm), event);
  }
}
