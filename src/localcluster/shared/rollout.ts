/** Waiting for what the chart starts, and saying why it does not run. */
import { setTimeout as delay } from 'node:timers/promises';
import { Svc3Error, messageOf } from '../../errors.ts';
import type { Kubectl } from './kubectl.ts';

export interface Workload {
  readonly kind: 'deployment' | 'daemonset';
  readonly namespace: string;
  readonly name: string;
}

/** A process that ended this often in a row will not come up by waiting. */
const hopelessRestarts = 4;
/** Nothing of ours takes longer than a minute on a machine that has any time for it. */
const rolloutMs = 300_000;
const pollMs = 500;

/** Resolves when every workload runs as its object says; fails with the last words of a pod that does not. */
export async function untilRolledOut(
  kubectl: Kubectl,
  workloads: readonly Workload[],
  signal: AbortSignal,
): Promise<void> {
  const deadline = performance.now() + rolloutMs;
  for (const workload of workloads)
    while (!(await isRolledOut(kubectl, workload))) {
      signal.throwIfAborted();
      const broken = await brokenPods(kubectl, workload);
      const isHopeless = broken.some(({ restarts }) => restarts >= hopelessRestarts);
      if (isHopeless || performance.now() > deadline) throw await failure(kubectl, workload, broken);
      await delay(pollMs);
    }
}

interface WorkloadObject {
  metadata: { generation: number };
  spec: { replicas?: number };
  status: {
    observedGeneration?: number;
    replicas?: number;
    updatedReplicas?: number;
    availableReplicas?: number;
    desiredNumberScheduled?: number;
    updatedNumberScheduled?: number;
    numberAvailable?: number;
  };
}

async function isRolledOut(kubectl: Kubectl, { kind, namespace, name }: Workload): Promise<boolean> {
  const object = JSON.parse(
    await kubectl('get', kind, '-n', namespace, name, '-o', 'json'),
  ) as WorkloadObject;
  const { status } = object;
  if (status.observedGeneration !== object.metadata.generation) return false;
  if (kind === 'daemonset') {
    const wanted = status.desiredNumberScheduled ?? 0;
    return wanted > 0 && status.updatedNumberScheduled === wanted && status.numberAvailable === wanted;
  }
  const wanted = object.spec.replicas ?? 1;
  return (
    status.updatedReplicas === wanted && status.replicas === wanted && status.availableReplicas === wanted
  );
}

interface BrokenPod {
  readonly name: string;
  readonly restarts: number;
  readonly why: string;
}

interface PodList {
  items: {
    metadata: { name: string; deletionTimestamp?: string };
    status: {
      phase?: string;
      conditions?: { type: string; status: string; message?: string }[];
      containerStatuses?: {
        ready: boolean;
        restartCount: number;
        state?: Record<string, { reason?: string; message?: string }>;
      }[];
    };
  }[];
}

async function brokenPods(kubectl: Kubectl, { namespace, name }: Workload): Promise<BrokenPod[]> {
  const selector = `app.kubernetes.io/component=${name.replace(/^svc3-/, '')}`;
  const text = await kubectl('get', 'pods', '-n', namespace, '-l', selector, '-o', 'json');
  return (JSON.parse(text) as PodList).items
    .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    .flatMap(({ metadata, status }) => {
      const [container] = status.containerStatuses ?? [];
      if (container?.ready === true) return [];
      const states = Object.values(container?.state ?? {}).map(
        ({ reason, message }) => message ?? reason ?? '',
      );
      const conditions = (status.conditions ?? []).filter((condition) => condition.status === 'False');
      const why = [...states, ...conditions.map(({ message }) => message ?? '')].find((text) => text !== '');
      return [{ name: metadata.name, restarts: container?.restartCount ?? 0, why: why ?? 'not ready' }];
    });
}

async function failure(kubectl: Kubectl, workload: Workload, pods: readonly BrokenPod[]): Promise<Svc3Error> {
  const [pod] = pods.toSorted((a, b) => b.restarts - a.restarts);
  if (pod === undefined) return new Svc3Error('Timeout', `${workload.name} does not get ready`);
  const log = async (...more: string[]): Promise<string> =>
    kubectl('logs', '-n', workload.namespace, pod.name, '--tail=10', ...more).catch(messageOf);
  const current = await log();
  const said = current.trim() === '' ? await log('--previous') : current;
  return new Svc3Error(
    'InternalError',
    `${workload.name} does not get ready: pod ${pod.name}: ${pod.why}; its last lines:\n${said}`,
  );
}
