import type { Pod } from '../../../api/core.ts';
import { annotations } from '../../../api/meta.ts';
import { formatTraceparent, parseTraceparent } from '../../../api/traceparent.ts';
import type { Vm } from '../../../api/vm.ts';
import { spanIdOf, traceIdOf } from '../../../tracing/ids.ts';

/** Where the spans of a start are in a trace. */
export interface StartContext {
  readonly traceId: string;
  /** Of the span `start VM`. */
  readonly spanId: string;
  /** Of whoever made the VM; undefined: the trace begins here. */
  readonly parentSpanId: string | undefined;
  /** Whether the VM has started before. */
  readonly isLater: boolean;
  /** Of a later one, the VM's first start; undefined where that is not recorded. */
  readonly first: { readonly traceId: string; readonly spanId: string } | undefined;
}

/** Whether a trace that begins here is recorded; the same for the same ID in every process. */
type IsSampled = (traceId: string) => boolean;

/**
 * The place of a VM's first start; undefined where it is not recorded. It follows from the VM alone, so that every leader finds the same one
 * and nobody has to write it down: the trace that whoever made the VM names, else one of the VM's UID.
 */
export function firstStart({ metadata }: Vm, isSampled: IsSampled): StartContext | undefined {
  const given = parseTraceparent(metadata.annotations?.[annotations.traceparent]);
  const traceId = given?.traceId ?? traceIdOf(metadata.uid);
  if (!(given?.isSampled ?? isSampled(traceId))) return undefined;
  return {
    traceId,
    spanId: startSpanId(metadata.uid, traceId),
    parentSpanId: given?.spanId,
    isLater: false,
    first: undefined,
  };
}

/**
 * What stands on a pod that is made for the VM, or becomes the VM's: the trace of its start. A later start has a trace of its own, which only
 * the pod names; undefined where it is not recorded.
 *
 * @param newTraceId - of a later start
 */
export function podTraceparent(vm: Vm, isSampled: IsSampled, newTraceId: () => string): string | undefined {
  if (!hasRun(vm)) return traceparentOf(firstStart(vm, isSampled));
  const traceId = newTraceId();
  if (!isSampled(traceId)) return undefined;
  return formatTraceparent({ traceId, spanId: startSpanId(vm.metadata.uid, traceId), isSampled: true });
}

function traceparentOf(context: StartContext | undefined): string | undefined {
  return context === undefined ? undefined : formatTraceparent({ ...context, isSampled: true });
}

/**
 * The place of the start that a pod is for; undefined where it is not recorded. Of what stands on the pod only the trace counts: the IDs of
 * spans are nobody's to choose.
 */
export function startInPod(vm: Vm, pod: Pod, isSampled: IsSampled): StartContext | undefined {
  const given = parseTraceparent(pod.metadata.annotations?.[annotations.traceparent]);
  if (given?.isSampled !== true) return undefined;
  const first = firstStart(vm, isSampled);
  if (first?.traceId === given.traceId) return first;
  const { traceId } = given;
  return {
    traceId,
    spanId: startSpanId(vm.metadata.uid, traceId),
    parentSpanId: undefined,
    isLater: true,
    first: first === undefined ? undefined : { traceId: first.traceId, spanId: first.spanId },
  };
}

export function hasRun({ status }: Vm): boolean {
  return status?.powerState !== undefined;
}

function startSpanId(vmUid: string, traceId: string): string {
  return spanIdOf(vmUid, traceId, 'start VM');
}
