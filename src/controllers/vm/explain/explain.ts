import type { Node, Pod } from '../../../api/core.ts';
import { namespaceOfDisk } from '../../../api/configkey.ts';
import type { Image } from '../../../api/image.ts';
import type { Vm } from '../../../api/vm.ts';
import type { VmConfig } from '../../../api/vmconfig.ts';
import { explain, type NodeVerdict } from '../../../placement/explain.ts';
import { Inventory } from '../../../placement/inventory.ts';
import { nodeFacts } from '../../../placement/nodefacts.ts';
import { podFacts } from '../../../placement/podfacts.ts';
import { podNameIndex, vmUidOf } from '../accounting.ts';
import { memoryToGoOnFrom } from '../resolve/imagememory.ts';
import { savedGuestOf } from '../resolve/savedguest.ts';
import { parseImage } from '../resolve/imageref.ts';
import { effectiveSettings } from '../resolve/effective.ts';
import { placementRequest } from '../pod/request.ts';
import { nodePortDefaults, type VmSettings } from '../settings.ts';

export interface ExplainInput {
  readonly vm: Vm;
  readonly config: VmConfig | undefined;
  /** The Image of the VM's namespace that it names. */
  readonly image?: Image | undefined;
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
export function explainVm({ vm, config, image, nodes, pods, vms, settings }: ExplainInput): NodeVerdict[] {
  const effective = vm.status?.effective ?? requested({ vm, config, image, settings });
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
  const memory = memoryToGoOnFrom(vm, effective, { image: () => image });
  return explain(inventory, placementRequest(vm, effective, settings, memory));
}

/** The Image that a VM runs from, or would run from, where it is one of the VM's namespace. */
export function imageNameOf(vm: Vm, config: VmConfig | undefined): string | undefined {
  const { effective } = vm.status ?? {};
  if (effective !== undefined)
    return effective.imageNamespace === undefined ? effective.imageName : undefined;
  if (namespaceOfDisk(vm, 'image') !== vm.metadata.namespace) return undefined;
  const named = parseImage(vm.spec.image ?? config?.spec.image ?? '');
  return named.kind === 'object' ? named.name : undefined;
}

/** Before the VM is placed, what its spec and VMConfig say; the architecture of an image of a registry is not known here. */
function requested({
  vm,
  config,
  image,
  settings,
}: Pick<ExplainInput, 'vm' | 'config' | 'image' | 'settings'>) {
  const { reference, architecture } = image?.status ?? {};
  const guest = savedGuestOf(image, vm.metadata.namespace);
  const found =
    reference === undefined ? undefined : { reference, architecture, guest, name: image?.metadata.name };
  const result = effectiveSettings({
    spec: vm.spec,
    config: config?.spec,
    image: found ?? { reference: vm.spec.image ?? config?.spec.image ?? '', architecture: undefined },
    iso: undefined,
    gpuPassthroughEnabled: settings.gpuPassthroughEnabled,
    hostPortsAllowed: settings.hostPortsAllowed,
    services: nodePortDefaults(settings),
  });
  return result.kind === 'effective' ? result.settings : undefined;
}
