import type { Node, Pod } from '../../../api/core.ts';
import type { Vm } from '../../../api/vm.ts';
import type { VmConfig } from '../../../api/vmconfig.ts';
import { explain, type NodeVerdict } from '../../../placement/explain.ts';
import { Inventory } from '../../../placement/inventory.ts';
import { nodeFacts } from '../../../placement/nodefacts.ts';
import { podFacts } from '../../../placement/podfacts.ts';
import { podNameIndex, vmUidOf } from '../accounting.ts';
import { effectiveSettings } from '../resolve/effective.ts';
import { placementRequest } from '../pod/request.ts';
import { nodePortDefaults, type VmSettings } from '../settings.ts';

export interface ExplainInput {
  readonly vm: Vm;
  readonly config: VmConfig | undefined;
  readonly nodes: readonly Node[];
  readonly pods: readonly Pod[];
  /** Of all namespaces. */
  readonly vms: readonly Vm[];
  readonly settings: Pick<
    VmSettings,
    | 'gpuPassthroughEnabled'
    | 'hostPortsAllowed'
    | 'portRanges'
    | 'nodePorts'
    | 'cpuOvercommit'
    | 'accelerator'
  >;
}

/**
 * The verdict of every node on a VM, as placement would give it now; the VM's own pod is not in its own way. Empty
 * where the VM cannot be placed for reasons of its own, which its conditions tell.
 */
export function explainVm({ vm, config, nodes, pods, vms, settings }: ExplainInput): NodeVerdict[] {
  const effective = vm.status?.effective ?? requested(vm, config, settings);
  if (effective === undefined) return [];
  const inventory = new Inventory(settings.portRanges);
  for (const node of nodes) inventory.setNode(nodeFacts(node));
  const vmsByPod = new Map<string, Vm[]>();
  for (const one of vms)
    for (const name of podNameIndex.podName(one)) vmsByPod.set(name, [...(vmsByPod.get(name) ?? []), one]);
  for (const pod of pods) {
    const { name, namespace } = pod.metadata;
    const facts = podFacts(pod, vmUidOf(pod, vmsByPod.get(`${namespace}/${name}`) ?? []));
    if (facts !== undefined && facts.claim !== vm.metadata.uid) inventory.setPod(facts);
  }
  return explain(inventory, placementRequest(vm, effective, settings));
}

/** Before the VM is placed, what its spec and VMConfig say; the architecture of an image is not known here. */
function requested(vm: Vm, config: VmConfig | undefined, settings: ExplainInput['settings']) {
  const result = effectiveSettings({
    spec: vm.spec,
    config: config?.spec,
    image: { reference: vm.spec.image ?? config?.spec.image ?? '', architecture: undefined },
    iso: undefined,
    gpuPassthroughEnabled: settings.gpuPassthroughEnabled,
    hostPortsAllowed: settings.hostPortsAllowed,
    services: nodePortDefaults(settings),
  });
  return result.kind === 'effective' ? result.settings : undefined;
}
