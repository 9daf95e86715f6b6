import { vms } from '../api/resources.ts';
import { Svc3Error } from '../errors.ts';
import type { KubeClient } from '../kube/types.ts';

export interface LogRequest {
  /** Goes on until the signal, or until the pod ends. */
  readonly follow: boolean;
  /** Of the container's run before. */
  readonly previous: boolean;
  /** Lines from the end; default all. */
  readonly tail?: number;
  readonly signal: AbortSignal;
}

/** A guest may have nothing to say for days. */
const silenceMs = 24 * 3_600_000;

/**
 * The log of the pod that runs a VM now.
 *
 * @throws Conflict where no pod runs it
 */
export async function* logs(
  client: KubeClient,
  { namespace, name }: { readonly namespace: string; readonly name: string },
  { follow, previous, tail, signal }: LogRequest,
): AsyncGenerator<Uint8Array> {
  const { status } = await client.get(vms, name, namespace);
  const pod = status?.podName;
  if (pod === undefined)
    throw new Svc3Error('Conflict', `VM ${name} has no pod: nothing runs it; see svc3 vm explain ${name}`);
  const { body, cancel } = await client.stream({
    method: 'GET',
    path: `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(pod)}/log`,
    query: {
      container: 'runner',
      ...(follow ? { follow: 'true' } : {}),
      ...(previous ? { previous: 'true' } : {}),
      ...(tail === undefined ? {} : { tailLines: tail }),
    },
    silenceMs,
    signal,
  });
  try {
    yield* body;
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    cancel();
  }
}
