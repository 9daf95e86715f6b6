import { configKeyOf } from '../../api/configkey.ts';
import type { Node } from '../../api/core.ts';
import type { Image } from '../../api/image.ts';
import { annotations, defaults } from '../../api/meta.ts';
import { endpoint } from '../../net/endpoint.ts';
import { parseQuantity, toGi } from '../../api/quantity.ts';
import type { Vm } from '../../api/vm.ts';
import type { VmConfig } from '../../api/vmconfig.ts';
import { parseImage } from '../../controllers/vm/resolve/imageref.ts';
import { savedGuestOf } from '../../controllers/vm/resolve/savedguest.ts';
import { isReady } from '../../wire/node.ts';
import { settingsOf, vmItem } from '../../wire/vm.ts';
import { schedulerWord } from '../../wire/vmconfig.ts';
import { virtualMachineName } from './names.ts';
import type { GatewayCall } from './row.ts';

const gib = 1024 ** 3;

interface ReservedPort {
  readonly host_port: number;
  readonly guest_port: number;
  readonly protocol: string;
}

function reservedPorts(vm: Vm): ReservedPort[] {
  const { ssh, vnc, screenshare, mapped = [] } = vm.status?.ports ?? {};
  const own: [number | undefined, number][] = [
    [vnc, 5999],
    [screenshare, 5900],
    [ssh, 22],
  ];
  return [
    ...own.flatMap(([host, guest]) =>
      host === undefined || host === 0 ? [] : [{ host_port: host, guest_port: guest, protocol: 'TCP' }],
    ),
    // 2.4.x knows ports of nodes only.
    ...mapped.flatMap(({ nodePort, guestPort, protocol }) =>
      nodePort === undefined ? [] : [{ host_port: nodePort, guest_port: guestPort, protocol }],
    ),
  ];
}

/** Ports are texts in 2.4.x; one that is not there is `N/A`. */
export function portText(port: number | undefined): string {
  return port === undefined || port === 0 ? 'N/A' : String(port);
}

/** Memory as 2.4.x shows it: `7.5G`. */
export function ramText(memory: string): string {
  return `${toGi(parseQuantity(memory, 'memory'))}G`;
}

/**
 * How the screen of a VM is seen: by VNC where the installation gives it a port (chart value `vnc.hostPort`), else by a link
 * to the console page, which is asked for when it is wanted, since it does not stay good.
 */
export function screenText(
  { baseUrl, namespace }: Pick<GatewayCall<unknown>, 'baseUrl' | 'namespace'>,
  vm: Vm,
  by: (ip: string, port: string) => string = (ip, port) => `it via ${endpoint(ip, port)}`,
): string {
  const { vncConsole, vnc, ip = '', name } = vmItem(vm);
  if (!vncConsole) return 'VNC console not enabled';
  if (vnc !== undefined && vnc !== 0)
    return `Once started and deployed, you can use VNC to access ${by(ip, String(vnc))}`;
  return `Once started and deployed, POST ${baseUrl}/api/v1/namespaces/${namespace}/vms/${name}/console gives a link to its console`;
}

/** What a row of a VM says of its node: `UP`, `DOWN`, or `N/A` where there is none. */
export type NodeStatus = (name: string | undefined) => 'UP' | 'DOWN' | 'N/A';

/** By what the nodes say of themselves; one that is not there any more is down. */
export function nodeStatusBy(nodes: { get(name: string): Node | undefined }): NodeStatus {
  return (name) => {
    if (name === undefined) return 'N/A';
    const node = nodes.get(name);
    return node !== undefined && isReady(node) ? 'UP' : 'DOWN';
  };
}

/** One deployed VM in `status` of a list. */
function deployedVm(vm: Vm, config: VmConfig | undefined, nodeStatus: NodeStatus): Record<string, unknown> {
  const item = vmItem(vm, config);
  const { tag = '', tagRequired = false } = settingsOf(vm, config);
  const created = vm.metadata.creationTimestamp ?? '';
  return {
    owner: item.owner ?? '',
    virtual_machine_name: virtualMachineName(vm),
    virtual_machine_id: vm.metadata.uid,
    node_location: item.node ?? '',
    node_status: nodeStatus(item.node),
    virtual_machine_ip: item.ip ?? '',
    vnc_port: item.vncConsole ? portText(item.vnc) : 'N/A',
    screen_sharing_port: portText(item.screenshare),
    ssh_port: portText(item.ssh),
    cpu: item.cpu,
    vcpu: item.cpu,
    gpu: item.gpuPassthrough ? '1' : 'N/A',
    RAM: ramText(item.memory),
    base_image: item.image ?? '',
    image: virtualMachineName(vm),
    configuration_template: 'default',
    vm_status: item.status.toLowerCase(),
    ...(item.message === undefined ? {} : { error_message: item.message }),
    io_boost: false,
    use_saved_state: false,
    gpu_passthrough: item.gpuPassthrough,
    reserved_ports: reservedPorts(vm),
    creation_timestamp: created,
    creationTimestamp: created,
    tag,
    tag_required: tagRequired,
    replicas: 1,
  };
}

/** Images as the api's cache has them. */
export interface Images {
  get(name: string, namespace: string): Image | undefined;
}

/** The Image of the namespace that a text names; undefined for a reference of a registry, of which nothing is known before a VM is deployed. */
export function imageNamed(text: string | undefined, namespace: string, images: Images): Image | undefined {
  const named = text === undefined ? undefined : parseImage(text);
  return named?.kind === 'object' ? images.get(named.name, namespace) : undefined;
}

/** What VMs of a configuration get of what it does not say, by its image: on ARM a GPU, whatever it says (spec: GPU passthrough rule 1). */
function withImage({ spec, metadata }: VmConfig, images: Images): { cpu: number; gpuPassthrough: boolean } {
  const image = imageNamed(spec.image, metadata.namespace, images);
  const architecture = spec.architecture ?? image?.status?.architecture;
  return {
    cpu: spec.cpu ?? savedGuestOf(image, metadata.namespace)?.cpu ?? defaults.cpu,
    gpuPassthrough: spec.gpuPassthrough === 'Enabled' || architecture === 'arm64',
  };
}

/** A configuration without a VM, in a list of VMs. */
function undeployedVm(config: VmConfig, images: Images): Record<string, unknown> {
  const { spec, metadata } = config;
  const { cpu, gpuPassthrough } = withImage(config, images);
  return {
    virtual_machine_name: metadata.name,
    vm_deployment_status: 'Not Deployed',
    owner: metadata.annotations?.[annotations.owner] ?? '',
    cpu,
    vcpu: cpu,
    base_image: spec.image ?? '',
    image: metadata.name,
    io_boost: false,
    use_saved_state: false,
    gpu_passthrough: gpuPassthrough,
    configuration_template: 'default',
    ...(spec.tag === undefined ? {} : { tag: spec.tag, tag_required: spec.tagRequired ?? false }),
    ...(spec.memory === undefined
      ? {}
      : { RAM: `${(parseQuantity(spec.memory, 'memory') / gib).toFixed(2)}G` }),
  };
}

function isConfigElsewhere(vm: Vm): boolean {
  const key = configKeyOf(vm);
  return key !== undefined && key.namespace !== vm.metadata.namespace;
}

/** `virtual_machine_resources`: VMs grouped by their 2.4.x name, then configurations that have none. */
export function vmResources(
  vms: readonly Vm[],
  configs: readonly VmConfig[],
  { nodeStatus, images }: { readonly nodeStatus: NodeStatus; readonly images: Images },
): Record<string, unknown>[] {
  const byName = new Map<string, Vm[]>();
  for (const vm of vms) {
    const name = virtualMachineName(vm);
    byName.set(name, [...(byName.get(name) ?? []), vm]);
  }
  const configOf = new Map(configs.map((config) => [config.metadata.name, config]));
  const deployed = [...byName]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, group]) => ({
      virtual_machine_name: name,
      vm_deployment_status: 'Deployed',
      status: group.map((vm) =>
        deployedVm(vm, isConfigElsewhere(vm) ? undefined : configOf.get(vm.spec.config ?? ''), nodeStatus),
      ),
    }));
  const undeployed = configs.filter(({ metadata }) => !byName.has(metadata.name));
  return [...deployed, ...undeployed.map((config) => undeployedVm(config, images))];
}

/** A configuration in `configs`. */
export function configView(config: VmConfig, images: Images): Record<string, unknown> {
  const { spec, metadata } = config;
  const { cpu, gpuPassthrough } = withImage(config, images);
  return {
    owner: metadata.annotations?.[annotations.owner] ?? '',
    svc_vm_name: metadata.name,
    svc_base_image: spec.image ?? '',
    svc_cpu_core: cpu,
    vcpu_count: cpu,
    iso_image: spec.iso ?? 'None',
    attached_disk: 'None',
    // The setting: where a GPU turns the console off, a deploy without the GPU has it.
    vnc_console: spec.vncConsole !== 'Disabled',
    io_boost: false,
    use_saved_state: false,
    gpu_passthrough: gpuPassthrough,
    system_serial: spec.systemSerial ?? 'N/A',
    tag: spec.tag ?? '',
    tag_required: spec.tagRequired ?? false,
    scheduler: schedulerWord(spec.scheduler) ?? 'default',
    memory: spec.memory === undefined ? 'automatic' : toGi(parseQuantity(spec.memory, 'memory')),
  };
}
