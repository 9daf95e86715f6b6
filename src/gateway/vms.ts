import * as z from 'zod';
import { annotations } from '../api/meta.ts';
import type { Vm } from '../api/vm.ts';
import { Svc3Error, isSvc3Error } from '../errors.ts';
import { callFor, inNameOf, invoke } from '../http/invoke.ts';
import { execVm } from '../http/routes/vmactions.ts';
import type { PowerCommand } from '../items/power.ts';
import { createVmConfig, deleteVmConfig, getVmConfig, listVmConfigs } from '../http/routes/vmconfigs.ts';
import { deleteVm, deploy, deployVm, listVms } from '../http/routes/vms.ts';
import { vmItem } from '../items/vm.ts';
import { createHelp, deployHelp, execHelp, listNodesHelp, revertHelp } from './help.ts';
import { imageName, texts, theVm, virtualMachineName, vmsNamed } from './names.ts';
import { mapped, type Answer, type GatewayCall, type Row } from './row.ts';
import { configView, portText, ramText, vmResources } from './vmviews.ts';

const nothing = z.object({});
const text = z.string().max(512);
const target = z.object({ svc_vm_name: text.min(1), svc_node_name: text.optional() });
const integer = z.int().min(1).max(256);
const settings = {
  vnc_console: z.boolean().optional(),
  gpu_passthrough: z.boolean().optional(),
  system_serial: text.optional(),
  tag: text.optional(),
  tag_required: z.boolean().optional(),
  scheduler: z.enum(['default', 'most-allocated', '']).optional(),
  iso_image: text.optional(),
  attached_disk: text.optional(),
  io_boost: z.boolean().optional(),
  use_saved_state: z.boolean().optional(),
} as const;

const settingFields = {
  vncConsole: 'vnc_console',
  gpuPassthrough: 'gpu_passthrough',
  systemSerial: 'system_serial',
  tagRequired: 'tag_required',
  iso: 'iso_image',
} as const;

type Settings = z.output<z.ZodObject<typeof settings>>;

function settingsOf(body: Settings, warn: (text: string) => void): Record<string, unknown> {
  if (body.attached_disk !== undefined) warn('attached_disk has no effect: attached disks no longer exist');
  if (body.io_boost === true) warn('io_boost has no effect on this platform');
  if (body.use_saved_state === true) warn('use_saved_state has no effect: VM states no longer exist');
  return {
    vncConsole: body.vnc_console,
    gpuPassthrough: body.gpu_passthrough,
    systemSerial: body.system_serial,
    tag: body.tag,
    tagRequired: body.tag_required,
    scheduler: body.scheduler,
    iso:
      body.iso_image === undefined || body.iso_image === 'None'
        ? undefined
        : imageName(body.iso_image, 'iso_image'),
  };
}

async function configsOf(call: GatewayCall<unknown>) {
  await callFor(call, listVmConfigs, { params: { namespace: call.namespace } });
  return [...call.services.caches.vmConfigs.objects.list(call.namespace)].sort((a, b) =>
    (a.metadata.name ?? '') < (b.metadata.name ?? '') ? -1 : 1,
  );
}

const list = mapped({
  kind: 'mapped',
  method: 'GET',
  path: '/resources/vm/list',
  successor: 'GET NS/vms and GET NS/vmconfigs',
  link: '/vms',
  body: nothing,
  bodyKind: 'none',
  async handler(call) {
    await callFor(call, listVms, { params: { namespace: call.namespace } });
    const vms = call.services.caches.vms.objects.list(call.namespace);
    return { fields: { virtual_machine_resources: vmResources(vms, await configsOf(call)) } };
  },
});

const status = mapped({
  kind: 'mapped',
  method: 'GET',
  path: '/resources/vm/status/{vm}',
  successor: 'GET NS/vms/{vm}',
  link: '/vms/{vm}',
  body: nothing,
  bodyKind: 'none',
  async handler(call) {
    const name = call.params['vm'] ?? '';
    const vms = await vmsNamed(call, name);
    const configs = (await configsOf(call)).filter(({ metadata }) => metadata.name === name);
    if (vms.length === 0 && configs.length === 0) throw new Svc3Error('NotFound', texts.noDeployments);
    return { fields: { virtual_machine_resources: vmResources(vms, configs) } };
  },
});

const configs = mapped({
  kind: 'mapped',
  method: 'GET',
  path: '/resources/vm/configs',
  successor: 'GET NS/vmconfigs',
  link: '/vmconfigs',
  body: nothing,
  bodyKind: 'none',
  handler: async (call) => ({ fields: { configs: (await configsOf(call)).map(configView) } }),
});

const config = mapped({
  kind: 'mapped',
  method: 'GET',
  path: '/resources/vm/configs/{vmconfig}',
  successor: 'GET NS/vmconfigs/{vmconfig}',
  link: '/vmconfigs/{vmconfig}',
  body: nothing,
  bodyKind: 'none',
  async handler(call) {
    const name = call.params['vmconfig'] ?? '';
    await callFor(call, getVmConfig, { params: { namespace: call.namespace, vmconfig: name } });
    const found = call.services.caches.vmConfigs.objects.get(name, call.namespace);
    if (found === undefined) throw new Svc3Error('NotFound', `${name} config does not exist`);
    return { fields: { configs: [configView(found)] } };
  },
});

const create = mapped({
  kind: 'mapped',
  method: 'POST',
  path: '/resources/vm/create',
  successor: 'POST NS/vmconfigs',
  link: '/vmconfigs',
  body: z.object({
    svc_vm_name: text.min(1),
    svc_base_image: text.min(1),
    svc_image: text.optional(),
    svc_cpu_core: integer.optional(),
    vcpu_count: integer.optional(),
    memory: z.union([z.number().min(0).max(16_384), z.literal('automatic')]).optional(),
    ...settings,
  }),
  bodyKind: 'json',
  fields: { ...settingFields, name: 'svc_vm_name', image: 'svc_base_image', cpu: 'vcpu_count' },
  async handler(call) {
    const { body, namespace } = call;
    await invoke(call, createVmConfig, {
      params: { namespace },
      body: {
        ...settingsOf(body, call.warn),
        name: body.svc_vm_name,
        image: imageName(body.svc_base_image, 'svc_base_image'),
        cpu: body.vcpu_count ?? body.svc_cpu_core,
        memory: body.memory === 'automatic' ? undefined : body.memory,
      },
    });
    return {
      status: 201,
      message: 'Successfully Created',
      help: deployHelp(call.baseUrl, body.svc_vm_name, '<SVC_NODE_NAME>'),
    };
  },
});

const deployBody = z.object({
  svc_vm_name: text.min(1),
  svc_node_name: text.optional(),
  replicas: z.int().min(1).max(100).optional(),
  reserved_ports: z.union([z.array(z.string().max(64)).max(32), z.string().max(1024)]).optional(),
  vm_metadata: z
    .object({
      items: z.array(z.object({ key: z.string().min(1).max(128), value: z.string().max(4096) })).max(64),
    })
    .optional(),
  iso_install: z.boolean().optional(),
  attach_disk: z.boolean().optional(),
  timeout: z.int().min(1).max(10_080).optional(),
  ...settings,
});
type DeployBody = z.output<typeof deployBody>;

function deployRequest(
  call: GatewayCall<DeployBody>,
  name: { name: string; shouldGenerateName: boolean },
): Record<string, unknown> {
  const { body } = call;
  const { reserved_ports: ports, vm_metadata: metadata } = body;
  return {
    ...settingsOf(body, call.warn),
    ...name,
    vmConfig: body.svc_vm_name,
    node: body.svc_node_name,
    timeout: body.timeout,
    reservedPorts: typeof ports === 'string' ? ports : ports?.join(','),
    customVMMetadata:
      metadata === undefined
        ? undefined
        : Object.fromEntries(metadata.items.map(({ key, value }) => [key, value])),
  };
}

function noRoom(error: unknown): unknown {
  return isSvc3Error(error, 'Invalid', 'Timeout') && /insufficient cpu/i.test(error.message)
    ? new Svc3Error('BadRequest', texts.noCpu, { cause: error })
    : error;
}

/** Deploys one VM of the configuration; a second one of the name gets a generated suffix (reference: "Gateway"). */
async function deployOne(
  call: GatewayCall<DeployBody>,
): Promise<{ vm: Vm; portWarnings: readonly string[] }> {
  const { namespace, body, services } = call;
  const annotation = { [annotations.virtualMachineName]: body.svc_vm_name };
  let generated = services.caches.vms.objects.get(body.svc_vm_name, namespace) !== undefined;
  for (;;) {
    const name = { name: body.svc_vm_name, shouldGenerateName: generated };
    const inner = await callFor(call, deployVm, { params: { namespace }, body: deployRequest(call, name) });
    try {
      return await inNameOf(call, deployVm, { namespace }, () =>
        deploy(inner, { wait: true, failFast: true, annotations: annotation }),
      );
    } catch (error) {
      if (generated || !isSvc3Error(error, 'AlreadyExists')) throw noRoom(error);
      generated = true;
    }
  }
}

function deployedAnswer(call: GatewayCall<DeployBody>, vm: Vm, portWarnings: readonly string[]): Answer {
  const item = vmItem(vm);
  const vnc = item.vncConsole ? portText(item.vnc) : 'N/A';
  return {
    message: 'Successfully deployed VM',
    help: {
      ...execHelp(call.baseUrl),
      data_for_virtual_machine_exec_tasks: { svc_vm_name: virtualMachineName(vm) },
      virtual_machine_vnc: item.vncConsole
        ? `Once started and deployed, you can use VNC to access it via ${item.ip ?? ''}:${vnc}`
        : 'VNC console not enabled',
    },
    fields: {
      ram: ramText(item.memory),
      vcpu: String(item.cpu),
      host_cpu: String(item.cpu),
      ip: item.ip ?? '',
      ssh_port: portText(item.ssh),
      screen_share_port: portText(item.screenshare),
      vm_id: vm.metadata.uid ?? '',
      port_warnings: [...portWarnings],
      io_boost: false,
      use_saved_state: false,
      gpu_passthrough: item.gpuPassthrough,
      vnc_port: vnc,
    },
  };
}

const deployRow = mapped({
  kind: 'mapped',
  method: 'POST',
  path: '/resources/vm/deploy',
  successor: 'POST NS/vms',
  link: '/vms',
  body: deployBody,
  bodyKind: 'json',
  fields: {
    ...settingFields,
    name: 'svc_vm_name',
    vmConfig: 'svc_vm_name',
    node: 'svc_node_name',
    reservedPorts: 'reserved_ports',
    customVMMetadata: 'vm_metadata',
  },
  longRunning: true,
  async handler(call) {
    const wished = call.body.replicas ?? 1;
    if (wished === 1) {
      const { vm, portWarnings } = await deployOne(call);
      return deployedAnswer(call, vm, portWarnings);
    }
    const results = await Promise.allSettled(Array.from({ length: wished }, () => deployOne(call)));
    const deployed = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value.vm] : []));
    const failed = results.find((result) => result.status === 'rejected');
    if (deployed[0] === undefined && failed !== undefined) throw failed.reason;
    return {
      message: `${deployed.length} of ${wished} VMs deployed successfully.`,
      fields: { vm_id: deployed[0]?.metadata.uid ?? '' },
    };
  },
});

async function remove(call: GatewayCall<unknown>, vm: Vm): Promise<void> {
  await invoke(call, deleteVm, { params: { namespace: call.namespace, vm: vm.metadata.name ?? '' } });
}

const deleteRow = mapped({
  kind: 'mapped',
  method: 'DELETE',
  path: '/resources/vm/delete',
  successor: 'DELETE NS/vms/{vm}',
  link: '/vms',
  body: target,
  bodyKind: 'json',
  longRunning: true,
  async handler(call) {
    const { svc_vm_name: name, svc_node_name: node } = call.body;
    const vm = await theVm(call, name, node, texts.notDeployed);
    await remove(call, vm);
    return {
      message: 'Successfully deleted VM',
      help: { ...listNodesHelp(call.baseUrl), ...deployHelp(call.baseUrl, virtualMachineName(vm), node) },
    };
  },
});

const purge = mapped({
  kind: 'mapped',
  method: 'DELETE',
  path: '/resources/vm/purge',
  successor: 'DELETE NS/vms/{vm} and DELETE NS/vmconfigs/{vmconfig}',
  link: '/vmconfigs',
  body: target,
  bodyKind: 'json',
  longRunning: true,
  async handler(call) {
    const { svc_vm_name: name } = call.body;
    const vms = await vmsNamed(call, name);
    const found = (await configsOf(call)).find(({ metadata }) => metadata.name === name);
    if (vms.length === 0 && found === undefined) throw new Svc3Error('NotFound', texts.notDeployed);
    for (const vm of vms) await remove(call, vm);
    if (found !== undefined)
      await invoke(call, deleteVmConfig, { params: { namespace: call.namespace, vmconfig: name } });
    return {
      message: 'Successfully purged VM',
      help: {
        ...listNodesHelp(call.baseUrl),
        ...createHelp(call.baseUrl),
        ...deployHelp(call.baseUrl, '<SVC_VM_NAME>', '<SVC_NODE_NAME>'),
      },
    };
  },
});

const execMessages: Readonly<Record<PowerCommand, (name: string, node: string) => string>> = {
  start: (name, node) => `${name} has started on ${node}`,
  stop: (name, node) => `${name} has stopped on ${node}`,
  resume: (name, node) => `${name} has resumed on ${node}`,
  suspend: (name, node) => `${name} has been suspended on ${node}`,
  revert: (name, node) => `Successfully reverted ${name} on ${node}`,
};

function execRow(command: PowerCommand): Row {
  return mapped({
    kind: 'mapped',
    method: 'POST',
    path: `/resources/vm/exec/${command}`,
    successor: 'POST NS/vms/{vm}/exec',
    link: '/vms',
    body: target,
    bodyKind: 'json',
    longRunning: true,
    async handler(call) {
      const { svc_vm_name: name, svc_node_name: node } = call.body;
      const vm = await theVm(call, name, node, texts.noDeployments);
      await invoke(call, execVm, {
        params: { namespace: call.namespace, vm: vm.metadata.name ?? '' },
        body: { command },
      });
      const byName = node !== undefined && node !== '';
      return {
        message: execMessages[command](name, byName ? node : 'node'),
        help: {
          ...execHelp(call.baseUrl),
          ...revertHelp(call.baseUrl),
          data_for_virtual_machine_exec_tasks: {
            svc_vm_name: virtualMachineName(vm),
            ...(byName ? { svc_node_name: node } : {}),
          },
          ...(byName
            ? {
                virtual_machine_vnc: `Once started and deployed, you can use VNC to access this VM via ${vm.status?.ip ?? ''}`,
              }
            : {}),
        },
      };
    },
  });
}

export const vmRows: readonly Row[] = [
  list,
  status,
  configs,
  config,
  create,
  deployRow,
  deleteRow,
  purge,
  ...(['start', 'stop', 'resume', 'suspend', 'revert'] as const).map(execRow),
];
