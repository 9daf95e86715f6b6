import type { ContainerStatus, Pod, PodStatus } from '../../api/core.ts';
import { annotations } from '../../api/meta.ts';
import { WorkResult, type WorkFailed } from '../../api/worker.ts';
import type { WorkerView } from './decide.ts';
import { type Unprepared, unpreparedMs } from '../startwaits.ts';
import { workerContainer } from './workerpod.ts';

/**
 * The time of a node whose kubelet does not tell whether it pulls the worker's image meanwhile, in milliseconds: over a slow link that takes longer than volumes
 * and network, and another worker would begin anew.
 */
const unpulledMs = 1_800_000;

/** A kubelet takes a pod away a moment after its grace period, which is in its `deletionTimestamp`; after this long there is none. */
const silentMs = 60_000;

/**
 * When a pod that is being deleted is taken for lost with its node, in milliseconds since 1970; undefined where nobody deletes it. A worker may be
 * at work there all the same: whatever it still puts into the store is what the next one puts there.
 */
export function lostAt({ metadata }: Pod): number | undefined {
  const { deletionTimestamp } = metadata;
  return deletionTimestamp === undefined ? undefined : Date.parse(deletionTimestamp) + silentMs;
}

/**
 * What a worker pod has come to, from what its kubelet says.
 *
 * @param pullsWith - what the image of one that is made now is pulled with
 * @param unprepared - how long its node has not prepared it (`StartWaits`)
 */
export function workerView(pod: Pod, now: number, pullsWith: string, unprepared?: Unprepared): WorkerView {
  const lost = lostAt(pod);
  if (lost !== undefined) return { phase: 'Deleting', lostAt: lost };
  const { status = {} } = pod;
  const container = status.containerStatuses?.find(({ name }) => name === workerContainer);
  const { terminated } = container?.state ?? {};
  // It is not started again: what its container says is final, a little before the pod's phase says it too.
  if (terminated !== undefined || status.phase === 'Succeeded' || status.phase === 'Failed') {
    const result = resultOf(terminated?.message);
    if (result?.result === 'Done' && terminated?.exitCode === 0) return { phase: 'Done', result };
    const said = result?.result === 'Failed' && !wasStopped(status, result) ? result : undefined;
    return {
      phase: 'Failed',
      failure: said ?? unexplained(pod, terminated),
      finishedAt: terminated?.finishedAt === undefined ? now : Date.parse(terminated.finishedAt),
    };
  }
  // It has no other image, policy or Secret than it was made with.
  if (isHeldUp(container) && pod.metadata.annotations?.[annotations.pullsWith] !== pullsWith)
    return { phase: 'Outdated' };
  const isRunning = container?.state?.running !== undefined;
  if (isOverdue(unprepared) && !isRunning)
    return { phase: 'Failed', failure: notPrepared(pod), finishedAt: now };
  return {
    phase: isRunning ? 'Running' : 'Waiting',
    message: isRunning ? 'a worker pod is at work' : waitingMessage(pod, now, unprepared),
    address: status.podIP,
  };
}

/** Whether the node has had time enough to prepare the pod. */
function isOverdue(unprepared: Unprepared | undefined): boolean {
  if (unprepared === undefined) return false;
  return unprepared.forMs >= (unprepared.isCertain ? unpreparedMs : unpulledMs);
}

/** The worker's last words; undefined where they are somebody else's. */
function resultOf(message: string | undefined): WorkResult | undefined {
  try {
    const parsed = WorkResult.safeParse(JSON.parse(message ?? ''));
    return parsed.success ? parsed.data : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Whether the kubelet ended the pod, as for an eviction, its deadline or the shutdown of the node: it alone knows why, and the worker says no more
 * than that it was stopped. What the worker has found out about the disk or a registry by then counts all the same.
 */
function wasStopped({ phase, reason }: PodStatus, said: WorkFailed): boolean {
  const isFinding = said.reason !== 'WorkerFailed' || said.failedRequest !== undefined;
  return !isFinding && phase === 'Failed' && reason !== undefined;
}

function unexplained(
  { status }: Pod,
  terminated: { exitCode: number; reason?: string; message?: string } | undefined,
): WorkFailed {
  const why =
    status?.message?.trim() ??
    status?.reason ??
    (terminated?.reason === 'OOMKilled' ? 'it ran out of memory' : undefined) ??
    terminated?.message?.trim().split('\n').at(-1) ??
    (terminated === undefined ? undefined : `it ended with exit code ${terminated.exitCode}`);
  return {
    result: 'Failed',
    reason: 'WorkerFailed',
    message: `the worker pod failed: ${why ?? 'nobody knows why'}`.slice(0, 1024),
  };
}

function notPrepared({ spec }: Pod): WorkFailed {
  return {
    result: 'Failed',
    reason: 'WorkerFailed',
    message: `the worker pod failed: node ${spec.nodeName} does not prepare its volumes and network`.slice(
      0,
      1024,
    ),
  };
}

/** Whether the container waits for more than its turn, as for an image that cannot be pulled. */
function isHeldUp(container: ContainerStatus | undefined): boolean {
  const reason = container?.state?.waiting?.reason;
  return reason !== undefined && reason !== 'ContainerCreating';
}

function waitingMessage(pod: Pod, now: number, unprepared: Unprepared | undefined): string {
  const { status } = pod;
  const [container] = status?.containerStatuses ?? [];
  const unscheduled = status?.conditions?.find(
    ({ type, status }) => type === 'PodScheduled' && status === 'False',
  );
  const { reason, message } = container?.state?.waiting ?? {};
  const why = isHeldUp(container)
    ? [reason, message].filter((part) => part !== undefined && part !== '').join(': ')
    : (unscheduled?.message ?? slowStep(pod, now, unprepared));
  return `waiting for the worker pod${why === undefined ? '' : `: ${why}`}`.slice(0, 1024);
}

/** Most pods start before: until then there is no more to say, nor to write. */
const slowMs = 30_000;

/** What a pod waits for of which only its Events tell more; undefined as long as that is usual. */
function slowStep(pod: Pod, now: number, unprepared: Unprepared | undefined): string | undefined {
  const { metadata, spec } = pod;
  const created = Date.parse(metadata.creationTimestamp ?? '');
  if (!(now - created >= slowMs)) return undefined;
  const { nodeName } = spec;
  if (nodeName === undefined) return 'kube-scheduler has not chosen a node for it yet';
  return `node ${nodeName} ${stepOf(unprepared)}; the Events of pod ${metadata.name} say more`;
}

function stepOf(unprepared: Unprepared | undefined): string {
  if (unprepared === undefined) return 'pulls its image or creates its container';
  const step = 'has not prepared its volumes and network yet';
  return unprepared.isCertain ? step : `${step}, or pulls its image`;
}
