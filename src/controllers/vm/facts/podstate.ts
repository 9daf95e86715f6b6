import type { ContainerStatus, Node, Pod, PodStatus } from '../../../api/core.ts';
import { runnerContainer } from '../names.ts';

export function isPodReady(pod: Pod): boolean {
  return pod.status?.conditions?.some((c) => c.type === 'Ready' && c.status === 'True') ?? false;
}

type PodCondition = NonNullable<PodStatus['conditions']>[number];

/** kube-scheduler's condition of a pod that it has not bound; undefined before it has said anything. */
export function notScheduled(pod: Pod): PodCondition | undefined {
  if (pod.spec.nodeName !== undefined) return undefined;
  const condition = pod.status?.conditions?.find((c) => c.type === 'PodScheduled');
  return condition?.status === 'False' ? condition : undefined;
}

/** kube-scheduler's words where no node fits the pod. */
export function unschedulableMessage(pod: Pod): string | undefined {
  const condition = notScheduled(pod);
  return condition?.reason === 'Unschedulable' ? (condition.message ?? 'Unschedulable') : undefined;
}

/** Why the pod has ended for good: rejected by the kubelet, evicted, shut down with its node. */
export function endMessage(pod: Pod): string | undefined {
  const { phase, reason, message } = pod.status ?? {};
  if (phase !== 'Failed' && phase !== 'Succeeded') return undefined;
  return (
    [reason, message].filter((part) => part !== undefined && part !== '').join(': ') ||
    `the pod has ended (${phase})`
  );
}

export function runnerStatus(pod: Pod): ContainerStatus | undefined {
  return pod.status?.containerStatuses?.find(({ name }) => name === runnerContainer);
}

export function isRunnerUp(pod: Pod): boolean {
  return runnerStatus(pod)?.state?.running !== undefined && pod.status?.podIP !== undefined;
}

/** Whether the pod was made with an install medium. It keeps that volume when its runner has emptied the drive. */
export function hasMedium({ spec }: Pod): boolean {
  return spec.volumes?.some(({ name }) => name === 'iso') === true;
}

/** When the runner that runs was started: another one in the same pod has another time. */
export function runnerStartedAt(pod: Pod): string | undefined {
  return runnerStatus(pod)?.state?.running?.startedAt;
}

const pullFailures = new Set([
  'ErrImagePull',
  'ImagePullBackOff',
  'InvalidImageName',
  'ErrImageNeverPull',
  'ImageInspectError',
  'RegistryUnavailable',
  'SignatureValidationFailed',
  'ErrImageVolumePull',
]);

/** The kubelet's words where it cannot pull an image; an image volume fails as the container that waits for it. */
export function pullFailure(pod: Pod): string | undefined {
  const waiting = runnerStatus(pod)?.state?.waiting;
  if (waiting?.reason === undefined || !pullFailures.has(waiting.reason)) return undefined;
  return waiting.message ?? waiting.reason;
}

/** Other reasons why the container is not created (a missing Secret, a refused security context). */
export function createFailure(pod: Pod): string | undefined {
  const waiting = runnerStatus(pod)?.state?.waiting;
  if (waiting?.reason === undefined || !/^(Create|RunContainer|PostStart).*Error$/.test(waiting.reason))
    return undefined;
  return [waiting.reason, waiting.message].filter((part) => part !== undefined).join(': ');
}

/** The runner itself has ended and the kubelet waits before it starts it again: its last words. */
export function crashMessage(pod: Pod): string | undefined {
  const status = runnerStatus(pod);
  const last =
    status?.state?.terminated ?? (status?.state?.running ? undefined : status?.lastState?.terminated);
  if (last === undefined) return undefined;
  const words = last.message?.trim().split('\n').at(-1) ?? '';
  const how =
    last.reason === 'OOMKilled' ? 'the memory limit of the pod was reached' : `exit code ${last.exitCode}`;
  return words === '' ? `the runner ended: ${how}` : `the runner ended: ${how}: ${words}`;
}

/** The node does not answer: nobody knows what its VMs do. */
export function isLost(node: Node | undefined): boolean {
  return node?.status?.conditions?.some((c) => c.type === 'Ready' && c.status === 'Unknown') ?? false;
}

export function internalIp(node: Node | undefined): string | undefined {
  return node?.status?.addresses?.find(({ type }) => type === 'InternalIP')?.address;
}
