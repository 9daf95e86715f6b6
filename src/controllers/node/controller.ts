import type { Node } from '../../api/core.ts';
import { nodes, vms } from '../../api/resources.ts';
import type { Vm } from '../../api/vm.ts';
import { createController, type Controller } from '../../controller/controller.ts';
import type { Runtime } from '../../controller/runtime.ts';
import { ignoring } from '../../controller/ignoring.ts';
import type { EventRecorder } from '../../kube/types.ts';
import { decideNode, isLabelled, nodePatch, type NodeVerdict } from './decide.ts';
import { type GpuFault, gpuConditionPatch, gpuFaultOf } from './gpufault.ts';
import { ignoredLabels } from './ignoredlabels.ts';
import type { NodeSettings } from './settings.ts';

type RecordedEvent = Parameters<EventRecorder['event']>[1];

/** Index of VMs by the node whose GPUs they cannot use. */
const faultIndex = 'gpuFault';

/**
 * Keeps label `svc3.dev/gpu-passthrough`, annotation `svc3.dev/gpu-passthrough-reason` and condition
 * `svc3.dev/GPUUnavailable` of every Node true, whoever changes them. To be made before the runtime's informers run.
 */
export function createNodeController(
  runtime: Pick<
    Runtime<NodeSettings>,
    'client' | 'informers' | 'recorder' | 'log' | 'metrics' | 'gate' | 'settings'
  >,
): Controller {
  const { client, recorder, settings, log } = runtime;
  const informer = runtime.informers.get(nodes);
  const vmInformer = runtime.informers.get(vms);
  const ignored = new Map<string, readonly string[]>();

  function tell(node: Node, type: RecordedEvent['type'], reason: string, message: string): void {
    const name = node.metadata.name;
    recorder.event({ apiVersion: 'v1', kind: 'Node', metadata: { name } }, { type, reason, message });
    log.info({ node: name, reason }, message);
  }

  function tellLabel(node: Node, { isEnabled, reason = 'not an x86 node' }: NodeVerdict): void {
    if (isLabelled(node) === isEnabled) return;
    if (isEnabled) {
      tell(node, 'Normal', 'GPUPassthroughEnabled', 'VMs may use the GPUs of this node, one at a time');
      return;
    }
    const message = `no new VM gets the GPUs of this node, a VM that has them goes on: ${reason}`;
    tell(node, 'Normal', 'GPUPassthroughDisabled', message);
  }

  /** Errors: Conflict where the Node is another one by now. */
  async function labelNode(node: Node, verdict: NodeVerdict): Promise<void> {
    const patch = nodePatch(node, verdict);
    if (patch === undefined) return;
    // Decided on exactly this version of exactly this Node: one of the same name may be another machine.
    const { name, uid, resourceVersion } = node.metadata;
    const body = { metadata: { uid, resourceVersion, ...patch } };
    await client.patch(nodes, { name }, { type: 'merge', body });
    tellLabel(node, verdict);
  }

  async function setCondition(node: Node, fault: GpuFault | undefined): Promise<void> {
    const condition = gpuConditionPatch(node, fault, new Date());
    if (condition === undefined) return;
    const { name, uid } = node.metadata;
    // By its type, as the kubelet merges its own: whatever else the list holds stays.
    const body = { metadata: { uid }, status: { conditions: [condition] } };
    await client.patch(nodes, { name }, { type: 'strategic', body }, { subresource: 'status' });
    if (fault !== undefined) tell(node, 'Warning', 'GPUUnavailable', fault.message);
    else tell(node, 'Normal', 'GPUAvailable', 'no VM is kept from the GPUs of this node any more');
  }

  async function report(node: Node, fault: GpuFault | undefined): Promise<void> {
    await labelNode(node, decideNode(node, settings, fault));
    await setCondition(node, fault);
  }

  /** Once as long as it is so; a new leader says it again. */
  function tellIgnored(node: Node): void {
    const { uid } = node.metadata;
    const sentences = ignoredLabels(node);
    for (const sentence of sentences) {
      if (ignored.get(uid)?.includes(sentence) !== true) tell(node, 'Warning', 'LabelIgnored', sentence);
    }
    if (sentences.length === 0) ignored.delete(uid);
    else ignored.set(uid, sentences);
  }

  function faultOn(name: string): GpuFault | undefined {
    const faults = vmInformer.byIndex(faultIndex, name).map(gpuFaultOf);
    return faults.filter((fault) => fault !== undefined).toSorted(byMessage)[0];
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
      const fault = faultOn(name);
      tellIgnored(node);
      await ignoring(['NotFound'], report(node, fault));
    },
  });
  informer.onChange(({ kind, object }) => {
    if (kind === 'deleted') ignored.delete(object.metadata.uid);
    controller.enqueue(object.metadata.name);
  });
  const enqueueFault = (vm: Vm): void => {
    const fault = gpuFaultOf(vm);
    if (fault !== undefined) controller.enqueue(fault.node);
  };
  vmInformer.addIndexes({ [faultIndex]: (vm) => [gpuFaultOf(vm)?.node ?? []].flat() });
  vmInformer.onChange((change) => {
    enqueueFault(change.object);
    if (change.kind === 'updated') enqueueFault(change.old);
  });
  return controller;
}

function byMessage(a: GpuFault, b: GpuFault): number {
  return a.message < b.message ? -1 : 1;
}
