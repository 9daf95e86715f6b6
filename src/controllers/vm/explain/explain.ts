import type { Node, Pod } from '../../../api/core.ts';
import { namespaceOfDisk } from '../../../api/configkey.ts';
import type { Image } from '../../../api/image.ts';
import type { Vm } from '../../../api/vm.ts';
import type { VmConfig } from '../../../api/vmconfig.ts';
import type { VmPool } from '../../../api/vmpool.ts';
import { explain, type NodeVerdict } from '../../../placement/explain.ts';
import { Inventory } from '../../../placement/inventory.ts';
import { nodeFacts } from '../../../placement/nodefacts.ts';
import { podFacts } from '../../../placement/podfacts.ts';
import { podNameIndex, vmUidOf } from '../accounting.ts';
import { memoryToGoOnFrom } from '../resolve/imagememory.ts';
import { savedGuestOf } from '../resolve/savedguest.ts';
import { parseImage } from '../resolve/imageref.ts';
import { nextSettings } from '../resolve/nextsettings.ts';
import { effectiveSettings } from '../resolve/effective.ts';
import { placementRequest } from '../pod/request.ts';
import { templated } from '../facts/standby.ts';
import { nodePortDefaults, type VmSettings } from '../settings.ts';

export interface ExplainInput {
  /** As `requestedVm` makes it. */
  readonly vm: Vm;
  readonly config: VmConfig | undefined;
  /** The Image of the VM's namespace that it names. */
  readonly image?: Image | undefined;
  readonly nodes: readonly Node[];
  /** Of all namespaces; what `countedPod` keeps of them is enough. */
  readonly pods: readonly Pod[];
  /** Of all namespaces; what `podOwner` keeps of them is enough. */
  readonly vms: readonly Vm[];
  readonly settings: VmSettings;
}

/** Of a VM only what tells which pod is its own. */
export function podOwner({ metadata, spec: { powerState }, status }: Vm): Vm {
  const { name, namespace, uid, resourceVersion } = metadata;
  return {
    metadata: { name, namespace, uid, resourceVersion },
    spec: { powerState },
    status: { podName: status?.podName },
  };
}

/** A VM as it says itself what is asked for it: before one of a pool is placed, that is in the template. */
export function requestedVm(vm: Vm, pool: VmPool | undefined): Vm {
  return pool === undefined ? vm : templated(vm, pool);
}

/**
 * The verdict of every node on a VM, as placement would give it now; the VM's own pod is not in its own way. Empty
 * where the VM cannot be placed for reasons of its own, which its conditions tell.
 */
export function explainVm({ vm, config, image, nodes, pods, vms, settings }: ExplainInput): NodeVerdict[] {
  const frozen = vm.status?.effective;
  const effective =
    frozen === undefined
      ? requested({ vm, config, image, settings })
      : nextSettings(vm, frozen, settings).effective;
  if (effective === undefined) return [];
  const inventory = new Inventory(settings.portRanges);
  for (const node of nodes) inventory.setNode(nodeFacts(node));
  const vmsByPod = new Map<string, Vm[]>();
  for (const one of vms)
    for (const name of podNameIndex.podName(one)) vmsByPod.set(name, [...(vmsByPod.get(name) ?? []), one]);
  for (const pod of pods) {
    const { name, namespace } = pod.metadata;
    const facts = podFacts(pod, vmUidOf(pod, vmsByPod.get(`${namespace}/${name}`) ?? []));
    if (facts !== undefined && facts.assumedAs !== vm.metadata.uid) inventory.setPod(facts);
  }
  const memory = memoryToGoOnFrom(vm, effective, { image: () => image });
  const request = placementRequest(vm, effective, settings, memory);
  const architecture = frozen?.architecture ?? architectureOf({ vm, config, image });
  // Where nothing but reserved ports is in the way the VM goes without them (`placeLeavingOut`).
  return explain(inventory, { ...request, architecture, reservedPorts: [] }, request.reservedPorts);
}

/** Undefined where nobody says it, as of an image of a registry. */
function architectureOf({
  vm,
  config,
  image,
}: Pick<ExplainInput, 'vm' | 'config' | 'image'>): string | undefined {
  return vm.spec.architecture ?? config?.spec.architecture ?? image?.status?.architecture;
}

/** The Image that a VM runs from, or would run from, where it is one of the VM's namespace. */
export function imageNameOf(vm: Vm, config: VmConfig | undefined): string | undefined {
  const { effective } = vm.status ?? {};
  if (effective !== undefined)
    return effective.imageNamespace === undefined ? effective.imageName : undefined;
  if (namespaceOfDisk(vm, 'image') !== vm.metadata.namespace) return undefined;
  const image = vm.spec.image ?? config?.spec.image;
  if (image === undefined) return undefined;
  const named = parseImage(image);
  return named.kind === 'object' ? named.name : undefined;
}

/** Before the VM is placed, what its spec and VMConfig say; undefined where they name no image, or are refused. */
function requested({
  vm,
  config,
  image,
  settings,
}: Pick<ExplainInput, 'vm' | 'config' | 'image' | 'settings'>) {
  const named = vm.spec.image ?? config?.spec.image;
  if (named === undefined) return undefined;
  const { reference, architecture } = image?.status ?? {};
  const guest = savedGuestOf(image, vm.metadata.namespace);
  const found =
    reference === undefined ? undefined : { reference, architecture, guest, name: image?.metadata.name };
  const result = effectiveSettings({
    spec: vm.spec,
    config: config?.spec,
    image: found ?? { reference: named, architecture: undefined },
    iso: undefined,
    gpuPassthroughEnabled: settings.gpuPassthroughEnabled,
    hostPortsAllowed: settings.hostPortsAllowed,
    services: nodePortDefaults(settings),
  });
  return result.kind === 'effective' ? result.settings : undefined;
}
