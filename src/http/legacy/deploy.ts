import * as z from 'zod';
import { annotations, group } from '../../api/meta.ts';
import type { Vm } from '../../api/vm.ts';
import { isForWantOfCpu, type Deployed } from '../../usecases/deploy.ts';
import { invalidField, Svc3Error, isSvc3Error, messageOf } from '../../errors.ts';
import { tracedDeploy } from '../server/deploytrace.ts';
import { callFor, inNameOf } from '../server/invoke.ts';
import { deploy, deployVm } from '../routes/vms.ts';
import { vmItem } from '../../wire/vm.ts';
import { seeStatus } from './finished.ts';
import { execHelp } from './help.ts';
import { texts, virtualMachineName } from './names.ts';
import { mapped, type Answer, type GatewayCall } from './row.ts';
import { settingFields, settings, settingsOf, text } from './vmsettings.ts';
import { portText, ramText, screenText } from './vmviews.ts';

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
    reservedPorts: nodeMappings(typeof ports === 'string' ? ports : ports?.join(',')),
    customVMMetadata:
      metadata === undefined
        ? undefined
        : Object.fromEntries(metadata.items.map(({ key, value }) => [key, value])),
  };
}

/** In 2.4.x each mapping has a port of the node; a port of the guest alone is of `/api/v1`. */
function nodeMappings(text: string | undefined): string | undefined {
  const alone = text?.split(',').find((mapping) => mapping.trim() !== '' && !mapping.includes(':'));
  if (alone === undefined) return text;
  throw invalidField('reservedPorts', `"${alone.slice(0, 64)}" is not NODE_PORT:VM_PORT[/tcp|/udp]`);
}

function noRoom(error: unknown): unknown {
  if (!isForWantOfCpu(error)) return error;
  // The causes have the words that are replaced.
  const { causes: _causes, ...details } = error.details;
  return new Svc3Error('BadRequest', texts.noCpu, { details, cause: error });
}

type DeployCall = Parameters<typeof deploy>[0];

/** Deploys one VM of the configuration; a second one of the name gets a generated suffix (names: "Gateway"). */
async function deployOne(call: GatewayCall<DeployBody>): Promise<Deployed> {
  const { namespace, body, services } = call;
  const isTaken = services.caches.vms.objects.get(body.svc_vm_name, namespace) !== undefined;
  const inner = await namedCall(call, isTaken);
  // Around both tries, and what is made of their refusals: the span is the request, and says what is answered.
  return tracedDeploy(call, namespace, (traceparent) => deployNamed(call, inner, traceparent));
}

function namedCall(call: GatewayCall<DeployBody>, shouldGenerateName: boolean): Promise<DeployCall> {
  const body = deployRequest(call, { name: call.body.svc_vm_name, shouldGenerateName });
  return callFor(call, deployVm, { params: { namespace: call.namespace }, body });
}

async function deployNamed(
  call: GatewayCall<DeployBody>,
  inner: DeployCall,
  traceparent: string | undefined,
): Promise<Deployed> {
  const { namespace, body } = call;
  const named = { [annotations.virtualMachineName]: body.svc_vm_name };
  try {
    const deployed = await inNameOf(call, deployVm, { namespace }, () =>
      deploy(inner, { wait: true, failFast: true, annotations: named, traceparent }),
    );
    if (deployed.runs) return deployed;
    const { name } = deployed.vm.metadata;
    const details = { group, kind: 'vms', name };
    throw new Svc3Error('Timeout', seeStatus(`VM ${name} was created and does not run yet`, name), {
      details,
    });
  } catch (error) {
    if (inner.body.shouldGenerateName === true || !isSvc3Error(error, 'AlreadyExists')) throw noRoom(error);
    return deployNamed(call, await namedCall(call, true), traceparent);
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
      virtual_machine_vnc: screenText(call, vm),
    },
    fields: {
      ram: ramText(item.memory),
      vcpu: String(item.cpu),
      host_cpu: String(item.cpu),
      ip: item.ip ?? '',
      ssh_port: portText(item.ssh),
      screen_share_port: portText(item.screenshare),
      vm_id: vm.metadata.uid,
      port_warnings: [...portWarnings],
      io_boost: false,
      use_saved_state: false,
      gpu_passthrough: item.gpuPassthrough,
      vnc_port: vnc,
    },
  };
}

/** Deploys one VM of a configuration, or several; each waits until it runs. */
export const deployRow = mapped({
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
    const requested = call.body.replicas ?? 1;
    const results = await Promise.allSettled(Array.from({ length: requested }, () => deployOne(call)));
    const deployed = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
    const failures = results.flatMap((result) => (result.status === 'rejected' ? [result.reason] : []));
    const [first] = deployed;
    if (first === undefined) throw failures[0];
    const portWarnings = [...new Set(deployed.flatMap((one) => one.portWarnings))];
    const isAlone = requested === 1;
    const said = [...deployed.flatMap(({ warnings }) => warnings), ...failures.map(messageOf)];
    // Clients read port_warnings of one VM only.
    for (const warning of new Set([...said, ...(isAlone ? [] : portWarnings)])) call.warn(warning);
    if (isAlone) return deployedAnswer(call, first.vm, portWarnings);
    return {
      message: `${deployed.length} of ${requested} VMs deployed successfully.`,
      fields: { vm_id: first.vm.metadata.uid, port_warnings: portWarnings },
    };
  },
});
