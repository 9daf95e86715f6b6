/** Waiting for the nodes of a cluster. */
import { setTimeout as delay } from 'node:timers/promises';
import { Svc3Error } from '../../errors.ts';
import type { Kubectl } from '../shared/kubectl.ts';

/** Kubelets report within seconds; a loaded machine is no fault. */
const nodesReadyMs = 180_000;

interface NodeList {
  items: {
    metadata: { name: string };
    status: { conditions: { type: string; status: string; lastHeartbeatTime: string }[] };
  }[];
}

/**
 * A node of an earlier run still says that it is ready: only what its kubelet reported after
 * `startedAt` counts. Nodes that the cluster no longer has are removed.
 */
export async function untilNodesReady(
  kubectl: Kubectl,
  names: readonly string[],
  startedAt: number,
  signal: AbortSignal,
): Promise<void> {
  const deadline = performance.now() + nodesReadyMs;
  for (;;) {
    signal.throwIfAborted();
    const { items } = JSON.parse(await kubectl('get', 'nodes', '-o', 'json')) as NodeList;
    const ready = items.filter(({ status }) =>
      status.conditions.some(
        ({ type, status, lastHeartbeatTime }) =>
          type === 'Ready' && status === 'True' && Date.parse(lastHeartbeatTime) >= startedAt,
      ),
    );
    const gone = items.filter(({ metadata }) => !names.includes(metadata.name));
    if (gone.length > 0) await kubectl('delete', 'node', ...gone.map(({ metadata }) => metadata.name));
    const missing = names.filter((name) => !ready.some(({ metadata }) => metadata.name === name));
    if (missing.length === 0) return;
    if (performance.now() > deadline) throw new Svc3Error('Timeout', `not ready: ${missing.join(', ')}`);
    await delay(200);
  }
}
