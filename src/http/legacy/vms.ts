import * as z from 'zod';
import type { Vm } from '../../api/vm.ts';
import { ifFound, invalidField, isSvc3Error, Svc3Error } from '../../errors.ts';
import { callFor, inNameOf, invoke } from '../server/invoke.ts';
import { exec, execVm } from '../routes/vmactions.ts';
import { deleteVmConfig } from '../routes/vmconfigs.ts';
import { deleteVm, listVms, remove as removeVm } from '../routes/vms.ts';
import type { PowerCommand } from '../../wire/powercommands.ts';
import { deployRow } from './deploy.ts';
import { seeStatus } from './finished.ts';
import { createHelp, deployHelp, execHelp, listNodesHelp, revertHelp } from './help.ts';
import { texts, virtualMachineName } from './names.ts';
import { mapped, nothing, type GatewayCall, type Row } from './row.ts';
import { allVmsNamed, theVm, vmsNamed, withVm } from './target.ts';
import { configNamed, configsOf, vmConfigRows } from './vmconfigs.ts';
import { text } from './vmsettings.ts';
import { nodeStatusBy, screenText, vmResources } from './vmviews.ts';

const target = z.object({ svc_vm_name: text.min(1), svc_node_name: text.optional() });

/** What rows of VMs say beside them, from the caches. */
function cachedFor({ services: { caches } }: GatewayCall<unknown>) {
  return { nodeStatus: nodeStatusBy(caches.nodes), images: caches.images.objects };
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
    const resources = vmResources(vms, await configsOf(call), cachedFor(call));
    return { fields: { virtual_machine_resources: resources } };
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
    const known = (await configsOf(call)).filter(({ metadata }) => metadata.name === name);
    // A configuration has no row of its own beside VMs.
    const isComplete = vms.length > 0 || known.length > 0;
    const configs = isComplete ? known : [await configNamed(call, name)].filter((one) => one !== undefined);
    const resources = vmResources(vms, configs, cachedFor(call));
    return { fields: { virtual_machine_resources: resources } };
  },
});

/** @param named - what the client named the VM by */
async function remove(call: GatewayCall<unknown>, vm: Vm, named: string): Promise<void> {
  const { name } = vm.metadata;
  const params = { namespace: call.namespace, vm: name };
  const goesOn = await withVm(call, vm, { named, text: texts.notDeployed }, (uid) =>
    inNameOf(call, deleteVm, params, async () => removeVm(await callFor(call, deleteVm, { params }), uid)),
  );
  if (goesOn !== undefined) throw new Svc3Error('Timeout', seeStatus(goesOn, name));
}

/**
 * Asks for the deletion of all at once: one that takes long keeps none of the others.
 *
 * @returns what the first was refused with, and what tells of the first that goes on
 */
async function removeAll(
  call: GatewayCall<unknown>,
  vms: readonly Vm[],
  named: string,
): Promise<readonly [refusal: unknown, goesOn: unknown]> {
  const results = await Promise.allSettled(vms.map((vm) => ifFound(remove(call, vm, named))));
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
    const missing = { text: texts.notDeployed, reason: 'InternalError' } as const;
    const vm = await theVm(call, { name, node }, missing);
    // Another replica knew that it is gone before this one.
    await remove(call, vm, name).catch((error: unknown) => {
      throw isSvc3Error(error, 'NotFound')
        ? new Svc3Error('InternalError', texts.notDeployed, { cause: error })
        : error;
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
    const { svc_vm_name: name, svc_node_name: node = '' } = call.body;
    // The configuration goes as well, so that VMs elsewhere cannot stay what they are.
    if (node !== '')
      throw invalidField(
        'svc_node_name',
        'vm/purge deletes the VMs of the name on all nodes, and their configuration; use vm/delete for one VM',
      );
    const vms = await allVmsNamed(call, name);
    const found = await configNamed(call, name);
    if (vms.length === 0 && found === undefined) throw new Svc3Error('NotFound', texts.notDeployed);
    const [refusal, goesOn] = await removeAll(call, vms, name);
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

async function execute(
  call: GatewayCall<unknown>,
  vm: Vm,
  given: { readonly command: LegacyCommand; readonly named: string; readonly text: string },
): Promise<void> {
  const { command } = given;
  const { name } = vm.metadata;
  const params = { namespace: call.namespace, vm: name };
  const isDone = await withVm(call, vm, given, async (uid) =>
    exec(await callFor(call, execVm, { params, body: { command } }), uid),
  );
  if (!isDone)
    throw new Svc3Error('Timeout', seeStatus(`${command} of ${name} is not done yet and goes on`, name));
}

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
      const text = texts.noDeployments;
      const vm = await theVm(call, { name, node }, { text });
      await execute(call, vm, { command, named: name, text });
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
