import type { Node } from '../api/core.ts';
import { nodes } from '../api/resources.ts';
import { createController, type Controller } from '../controller/controller.ts';
import type { Runtime } from '../controller/runtime.ts';
import { isSvc3Error } from '../errors.ts';
import { decideNode, isLabelled, nodePatch, type NodeVerdict } from './decide.ts';
import type { NodeSettings } from './settings.ts';

/**
 * Keeps label `svc3.dev/gpu-passthrough` and annotation `svc3.dev/gpu-passthrough-reason` of every Node true, whoever
 * changes them. To be made before the runtime's informers run.
 */
export function createNodeController(
  runtime: Pick<
    Runtime<NodeSettings>,
    'client' | 'informers' | 'recorder' | 'log' | 'metrics' | 'gate' | 'settings'
  >,
): Controller {
  const { client, recorder, settings, log } = runtime;
  const informer = runtime.informers.get(nodes);

  function tell(node: Node, verdict: NodeVerdict): void {
    if (isLabelled(node) === verdict.isEnabled) return;
    const subject = { apiVersion: 'v1', kind: 'Node', metadata: { name: node.metadata.name ?? '' } };
    const reason = verdict.isEnabled ? 'GPUPassthroughEnabled' : 'GPUPassthroughDisabled';
    const message = verdict.isEnabled
      ? 'VMs may use the GPUs of this node, one at a time'
      : `no new VM gets the GPUs of this node, a VM that has them goes on: ${verdict.reason ?? 'not an x86 node'}`;
    recorder.event(subject, { type: 'Normal', reason, message });
    log.info({ node: node.metadata.name, reason }, message);
  }

  const controller = createController({
    name: 'node',
    workers: 4,
    log,
    gate: runtime.gate,
    metrics: runtime.metrics.controllers,
    async reconcile(name) {
      const node = informer.get(name);
      if (node === undefined || node.metadata.deletionTimestamp !== undefined) return;
      const verdict = decideNode(node, settings);
      const patch = nodePatch(node, verdict);
      if (patch === undefined) return;
      // Decided on exactly this version of exactly this Node: one of the same name may be another machine.
      const { uid, resourceVersion } = node.metadata;
      try {
        const body = { metadata: { uid, resourceVersion, ...patch } };
        await client.patch(nodes, { name }, { type: 'merge', body });
      } catch (error) {
        if (isSvc3Error(error, 'NotFound')) return;
        throw error;
      }
      tell(node, verdict);
    },
  });
  informer.onChange(({ object }) => controller.enqueue(object.metadata.name ?? ''));
  return controller;
}
