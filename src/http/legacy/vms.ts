import * as z from 'zod';
import type { Vm } from '../../api/vm.ts';
import { ifFound, isSvc3Error, Svc3Error } from '../../errors.ts';
import { callFor, invoke } from '../server/invoke.ts';
import { execVm } from '../routes/vmactions.ts';
import { deleteVmConfig } from '../routes/vmconfigs.ts';
import { deleteVm, listVms } from '../routes/vms.ts';
import type { PowerCommand } from '../../wire/powercommands.ts';
import type { Status } from '../../wire/schemas.ts';
import { deployRow } from './deploy.ts';
import { finished, seeStatus } from './finished.ts';
import { createHelp, deployHelp, execHelp, listNodesHelp, revertHelp } from './help.ts';
import { texts, theVm, virtualMachineName, vmsNamed } from './names.ts';
import { mapped, nothing, type GatewayCall, type Row } from './row.ts';
import { configsOf, vmConfigRows } from './vmconfigs.ts';
import { text } from './vmsettings.ts';
import { screenText, vmResources } from './vmviews.ts';

const target = z.object({ svc_vm_name: text.min(1), svc_node_name: text.optional() });

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
    return { fields: { virtual_machine_resources: vmResources(vms, configs) } };
  },
});

async function remove(call: GatewayCall<unknown>, vm: Vm): Promise<void> {
  const { name } = vm.metadata;
  const reply = invoke(call, deleteVm, { params: { namespace: call.namespace, vm: name } });
  await finished(reply, (body) => seeStatus((body as Status).message, name));
}

/**
 * Asks for the deletion of all at once: one that takes long keeps none of the others.
 *
 * @returns what the first was refused with, and what tells of the first that goes on
 */
async function removeAll(
  call: GatewayCall<unknown>,
  vms: readonly Vm[],
): Promise<readonly [refusal: unknown, goesOn: unknown]> {
  const results = await Promise.allSettled(vms.map((vm) => ifFound(remove(call, vm))));
  const failures = results.flatMap((result) => (result.status === 'rejected' ? [result.reason] : []));
  const isUnderWay = (error: unknown) => isSvc3Error(error, 'Timeout');
  return [failures.find((error) => !isUnderWay(error)), failures.find(isUnderWay)];
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
    // Clients of 2.4.x take this text with 500 for "nothing to do", and 404 for a failure.
    const vm = await theVm(call, name, node, texts.notDeployed, 'InternalError');
    // Another replica knew that it is gone before this one.
    await remove(call, vm).catch((error: unknown) => {
      throw isSvc3Error(error, 'NotFound') ? new Svc3Error('InternalError', texts.notDeployed) : error;
    });
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
    const [refusal, goesOn] = await removeAll(call, vms);
    if (refusal !== undefined) throw refusal;
    if (found !== undefined)
      await ifFound(invoke(call, deleteVmConfig, { params: { namespace: call.namespace, vmconfig: name } }));
    if (goesOn !== undefined) throw goesOn;
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

/** 2.4.x has no restart. */
type LegacyCommand = Exclude<PowerCommand, 'restart'>;

const execMessages: Readonly<Record<LegacyCommand, (name: string, node: string) => string>> = {
  start: (name, node) => `${name} has started on ${node}`,
  stop: (name, node) => `${name} has stopped on ${node}`,
  resume: (name, node) => `${name} has resumed on ${node}`,
  suspend: (name, node) => `${name} has been suspended on ${node}`,
  revert: (name, node) => `Successfully reverted ${name} on ${node}`,
};

function execRow(command: LegacyCommand): Row {
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
      const params = { namespace: call.namespace, vm: vm.metadata.name };
      await finished(invoke(call, execVm, { params, body: { command } }), () =>
        seeStatus(`${command} of ${vm.metadata.name} is not done yet and goes on`, vm.metadata.name),
      );
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
          ...(byName ? { virtual_machine_vnc: screenText(call, vm, (ip) => `this VM via ${ip}`) } : {}),
        },
      };
    },
  });
}

/** In the order of the mapping table. */
export const vmRows: readonly Row[] = [
  list,
  status,
  ...vmConfigRows,
  deployRow,
  deleteRow,
  purge,
  ...(['start', 'stop', 'resume', 'suspend', 'revert'] as const).map(execRow),
];
