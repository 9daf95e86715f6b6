import { group } from '../../api/meta.ts';
import { formatTraceparent, parseTraceparent } from '../../api/traceparent.ts';
import { messageOf, Svc3Error } from '../../errors.ts';
import { newSpanId, newTraceId } from '../../tracing/ids.ts';
import type { SpanAttributes, Tracer } from '../../tracing/span.ts';
import type { Deployed } from '../../usecases/deploy.ts';

/** Of the call of a request for a VM: what its trace is told by. */
interface TracedCall {
  readonly services: { readonly tracer?: Tracer | undefined };
  /** `traceparent`; where there is none, or something that is not one, the trace begins here. */
  header(name: string): string | undefined;
}

/**
 * Runs a deploy as the span `deploy`, in the trace of the client where that names one. Without a tracer it only runs.
 *
 * @param run - is given what the VM is to name as the trace of its start; undefined: nothing. What it throws is what is answered, a VM that
 * does not run yet is answered 202: whoever answers otherwise throws that
 */
export async function tracedDeploy(
  call: TracedCall,
  namespace: string,
  run: (traceparent: string | undefined) => Promise<Deployed>,
): Promise<Deployed> {
  const { tracer } = call.services;
  if (tracer === undefined) return run(undefined);
  const parent = parseTraceparent(call.header('traceparent'));
  const traceId = parent?.traceId ?? newTraceId();
  const isSampled = parent?.isSampled ?? tracer.isSampled(traceId);
  const spanId = newSpanId();
  const startMs = Date.now();
  const end = (attributes: SpanAttributes, error?: string): void => {
    if (!isSampled) return;
    tracer.record({
      service: 'svc3-api',
      name: 'deploy',
      kind: 'server',
      traceId,
      spanId,
      parentSpanId: parent?.spanId,
      startMs,
      endMs: Date.now(),
      attributes: {
        'http.request.method': 'POST',
        'k8s.namespace.name': namespace,
        ...attributes,
      },
      error,
    });
  };
  try {
    const deployed = await run(formatTraceparent({ traceId, spanId, isSampled }));
    const { name, uid } = deployed.vm.metadata;
    const status = deployed.runs ? 200 : 202;
    end({ 'http.response.status_code': status, 'svc3.vm.name': name, 'svc3.vm.uid': uid });
    return deployed;
  } catch (error) {
    const { status, reason, details } =
      error instanceof Svc3Error ? error : new Svc3Error('InternalError', messageOf(error));
    // What is wrong with a request is no error of the server.
    const failure = status >= 500 ? reason : undefined;
    const isOfVm = details.group === group && details.kind === 'vms' && details.name !== undefined;
    const vm: SpanAttributes = isOfVm ? { 'svc3.vm.name': details.name ?? '' } : {};
    end({ 'http.response.status_code': status, 'error.type': reason, ...vm }, failure);
    throw error;
  }
}
