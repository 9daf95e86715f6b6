import type { Node } from '../../api/core.ts';
import { nodes, vms } from '../../api/resources.ts';
import type { Vm } from '../../api/vm.ts';
import { createController, isCached, type Controller } from '../../controller/controller.ts';
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

type Parts = Pick<
  Runtime<NodeSettings>,
  'client' | 'informers' | 'recorder' | 'log' | 'metrics' | 'gate' | 'settings'
>;

/**
 * Keeps label `svc3.dev/gpu-passthrough`, annotation `svc3.dev/gpu-passthrough-reason` and condition
 * `svc3.dev/GPUUnavailable` of every Node true, whoever changes them; takes away what agents have found where the installation has none any more. To be
 * made before the runtime's informers run.
 */
export function createNodeController(runtime: Parts): Controller {
  const nodeInformer = runtime.informers.get(nodes);
  const vmInformer = runtime.informers.get(vms);
  const reconciler = new NodeReconciler(runtime, (name) => {
    const faults = vmInformer.byIndex(faultIndex, name).map(gpuFaultOf);
    return faults.filter((fault) => fault !== undefined).toSorted(byMessage)[0];
  });
  const controller = createController({
    name: 'node',
    isThere: (key) => isCached(nodeInformer, key),
    workers: 4,
    log: runtime.log,
    gate: runtime.gate,
    metrics: runtime.metrics.controllers,
    async reconcile(name) {
      const node = nodeInformer.get(name);
      if (node === undefined || node.metadata.deletionTimestamp !== undefined) return;
      await reconciler.reconcile(node);
    },
  });
  nodeInformer.onChange(({ kind, object }) => {
    if (kind === 'deleted') reconciler.forget(object);
    controller.enqueue(object.metadata.name);
  });
  const enqueueFault = (vm: Vm): void => {
    const fault = gpuFaultOf(vm);
    if (fault !== undefined) controller.enqueue(fault.node);
  };
  vmInformer.addIndexes({ [faultIndex]: (vm) => [gpuFaultOf(vm)?.node ?? []].flat() });
  vmInformer.onChange((change) => {
    enqueueFault(change.object);
    // A VM whose fault ended, or that went to another node, tells it only by what it was.
    if (change.kind === 'updated') enqueueFault(change.old);
  });
  return controller;
}

class NodeReconciler {
  readonly #parts: Pick<Parts, 'client' | 'recorder' | 'log' | 'settings'>;
  readonly #faultOn: (name: string) => GpuFault | undefined;
  /** What has been said of ignored labels, by the UID of the Node. */
  readonly #told = new Map<string, readonly string[]>();

  /** @param faultOn - what keeps VMs from the GPUs of the Node of that name */
  constructor(parts: Parts, faultOn: (name: string) => GpuFault | undefined) {
    this.#parts = parts;
    this.#faultOn = faultOn;
  }

  async reconcile(node: Node): Promise<void> {
    const fault = this.#faultOn(node.metadata.name);
    this.#tellIgnored(node);
    await ignoring(['NotFound'], this.#report(node, fault));
  }

  forget(node: Node): void {
    this.#told.delete(node.metadata.uid);
  }

  async #report(node: Node, fault: GpuFault | undefined): Promise<void> {
    await this.#label(node, decideNode(node, this.#parts.settings, fault));
    await this.#setCondition(node, fault);
  }

  /** Errors: Conflict where the Node is another one by now. */
  async #label(node: Node, verdict: NodeVerdict): Promise<void> {
    const patch = nodePatch(node, verdict);
    if (patch === undefined) return;
    // Decided on exactly this version of exactly this Node: one of the same name may be another machine.
    const { name, uid, resourceVersion } = node.metadata;
    const body = { metadata: { uid, resourceVersion, ...patch } };
    await this.#parts.client.patch(nodes, { name }, { type: 'merge', body });
    this.#tellLabel(node, verdict);
  }

  async #setCondition(node: Node, fault: GpuFault | undefined): Promise<void> {
    const condition = gpuConditionPatch(node, fault, new Date());
    if (condition === undefined) return;
    const { name, uid } = node.metadata;
    // By its type, as the kubelet merges its own: whatever else the list holds stays.
    const body = { metadata: { uid }, status: { conditions: [condition] } };
    await this.#parts.client.patch(nodes, { name }, { type: 'strategic', body }, { subresource: 'status' });
    if (fault !== undefined) this.#tell(node, 'Warning', 'GPUUnavailable', fault.message);
    else this.#tell(node, 'Normal', 'GPUAvailable', 'no VM is kept from the GPUs of this node any more');
  }

  #tellLabel(node: Node, { isEnabled, reason = 'not an x86 node' }: NodeVerdict): void {
    if (isLabelled(node) === isEnabled) return;
    if (isEnabled) {
      this.#tell(node, 'Normal', 'GPUPassthroughEnabled', 'VMs may use the GPUs of this node, one at a time');
      return;
    }
    const message = `no new VM gets the GPUs of this node, a VM that has them goes on: ${reason}`;
    this.#tell(node, 'Normal', 'GPUPassthroughDisabled', message);
  }

  /** Once as long as it is so; a new leader says it again. */
  #tellIgnored(node: Node): void {
    const { uid } = node.metadata;
    const sentences = ignoredLabels(node);
    for (const sentence of sentences)
      if (this.#told.get(uid)?.includes(sentence) !== true)
        this.#tell(node, 'Warning', 'LabelIgnored', sentence);
    if (sentences.length === 0) this.#told.delete(uid);
    else this.#told.set(uid, sentences);
  }

  #tell(node: Node, type: RecordedEvent['type'], reason: string, message: string): void {
    const { recorder, log } = this.#parts;
    const { name, uid } = node.metadata;
    // `kubectl describe node` looks for Events by the UID.
    recorder.event({ apiVersion: 'v1', kind: 'Node', metadata: { name, uid } }, { type, reason, message });
    log.info({ node: name, reason }, message);
  }
}

function byMessage(a: GpuFault, b: GpuFault): number {
  return a.message < b.message ? -1 : 1;
}
