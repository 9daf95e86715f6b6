import { namespaces } from '../../api/meta.ts';
import type { Kubectl } from '../shared/kubectl.ts';

/** What of a cluster the demo needs. */
export interface DemoCluster {
  readonly kubectl: Kubectl;
  /** Of whoever starts the cluster: nothing is waited for any more. */
  readonly signal?: AbortSignal | undefined;
  progress(text: string): void;
}

/** Why a VM is not Ready that a cluster has just brought up again: its node and its runner come first. */
const startingReasons = new Set(['Pending', 'Starting', 'NodeLost', 'RunnerUnreachable', 'GuestNotReady']);

const where = ['-n', namespaces.default];

/**
 * A VM to look at, from this image; its guest is an SSH server that takes user admin with password admin. One that is made or starts is
 * waited for. One that was there is its user's, in whatever state: it keeps running the image that it was started with, since an image
 * cannot change, and nothing fails for it.
 */
export async function startDemo({ kubectl, signal, progress }: DemoCluster, image: string): Promise<void> {
  const there = await kubectl('get', 'vms.svc3.dev', ...where, 'demo', '--ignore-not-found', '-o', 'json');
  const untilReady = async (): Promise<void> => {
    progress('waiting for the VM demo');
    await kubectl('wait', ...where, 'vms.svc3.dev/demo', '--for=condition=Ready', '--timeout=180s');
  };
  if (there.trim() !== '') {
    const { isReady, isStarting, reason } = stateOf(there);
    // After a stop of the cluster all guests boot.
    if (isReady || (isStarting && (await succeeds(untilReady())))) return;
    signal?.throwIfAborted();
    progress(`the VM demo was there before and is not Ready (${reason}); why: svc3 vm explain demo`);
    return;
  }
  await kubectl.apply({
    apiVersion: 'svc3.dev/v1',
    kind: 'VM',
    metadata: { name: 'demo', namespace: namespaces.default },
    spec: { image, cpu: 1, memory: '256Mi' },
  });
  await untilReady();
}

function succeeds(work: Promise<void>): Promise<boolean> {
  return work.then(
    () => true,
    () => false,
  );
}

interface Condition {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
}

function stateOf(json: string): { isReady: boolean; isStarting: boolean; reason: string } {
  const { status } = JSON.parse(json) as { status?: { conditions?: readonly Condition[] } };
  const ready = status?.conditions?.find(({ type }) => type === 'Ready');
  const reason = ready?.reason ?? 'Pending';
  return { isReady: ready?.status === 'True', isStarting: startingReasons.has(reason), reason };
}
