import { actionsGroup, group } from '../../api/meta.ts';
import { deleteVm as deleteAVm } from '../../usecases/deletion.ts';
import {
  deploy as deployAVm,
  type Deployed,
  type DeployEnvironment,
  type DeployOptions,
} from '../../usecases/deploy.ts';
import type { DeployRequest } from '../../wire/deploy.ts';
import { outcomeOf, requestIn } from '../../usecases/outcome.ts';
import * as schemas from '../../wire/schemas.ts';
import { deployItem, vmItem } from '../../wire/vm.ts';
import * as vmSchemas from '../../wire/vmschemas.ts';
import { isAllowed } from '../auth/permission.ts';
import { tracedDeploy } from '../server/deploytrace.ts';
import {
  findByUid,
  findImage,
  findInherited,
  findLiveVm,
  findVm,
  findVmConfig,
  findVmPool,
} from '../call/lookup.ts';
import { defineRoute, type Call } from '../call/route.ts';
import { success } from '../call/status.ts';
import { waitSeen } from '../call/visible.ts';
import { waiterOf } from '../call/waiter.ts';

const tag = 'VMs';
const collection = '/api/v1/namespaces/{namespace}/vms';
const one = `${collection}/{vm}`;
const vmPermission = { group, resource: 'vms', scope: 'namespace' } as const;

export const listVms = defineRoute({
  id: 'listVms',
  tag,
  method: 'GET',
  path: collection,
  summary: 'List the VMs of all users in the namespace.',
  params: schemas.namespaceParams,
  query: schemas.nothing,
  body: schemas.nothing,
  bodyKind: 'none',
  replies: { 200: { description: 'The VMs.', schema: schemas.listOf(vmSchemas.vmItem) } },
  permission: { kind: 'checked', ...vmPermission, verb: 'list' },
  handler: ({ params, services }) => ({ json: services.caches.vms.items.list(params.namespace) }),
});

export const listAllVms = defineRoute({
  id: 'listAllVms',
  tag,
  method: 'GET',
  path: '/api/v1/vms',
  summary: 'List the VMs of all namespaces.',
  params: schemas.nothing,
  query: schemas.nothing,
  body: schemas.nothing,
  bodyKind: 'none',
  replies: { 200: { description: 'The VMs.', schema: schemas.listOf(vmSchemas.vmItem) } },
  permission: { kind: 'checked', group, resource: 'vms', verb: 'list', scope: 'cluster' },
  handler: ({ services }) => ({ json: services.caches.vms.items.list(undefined) }),
});

export const getVm = defineRoute({
  id: 'getVm',
  tag,
  method: 'GET',
  path: one,
  summary: 'Show one VM.',
  params: schemas.vmParams,
  query: schemas.vmQuery,
  body: schemas.nothing,
  bodyKind: 'none',
  replies: { 200: { description: 'The VM.', schema: vmSchemas.vmItem } },
  permission: { kind: 'checked', ...vmPermission, verb: 'get', name: 'vm' },
  async handler({ params, query, services, warn }) {
    if (query.request !== undefined) {
      const request = requestIn(query.request);
      const vm = await findByUid(services, { namespace: params.namespace, name: params.vm }, request.uid);
      const item = vmItem(vm, await findInherited(services, vm));
      return { body: { ...item, outcome: outcomeOf(vm, request, warn) } };
    }
    const cached = services.caches.vms.items.item(params.vm, params.namespace);
    if (cached !== undefined) return { json: cached };
    const vm = await findVm(services, { namespace: params.namespace, name: params.vm });
    return { body: vmItem(vm, await findInherited(services, vm)) };
  },
});

/** The use case on this call: reads come from the caches, the VM is created with the caller's token. It is traced by its caller, which knows what is answered. */
export function deploy(
  call: Call<{ namespace: string }, unknown, DeployRequest>,
  options: Omit<DeployOptions, 'namespace'>,
): Promise<Deployed> {
  const { services, caller, params, body } = call;
  const { namespace } = params;
  const { gpuPassthroughEnabled, hostPortsAllowed, defaultNamespace } = services.settings;
  const environment: DeployEnvironment = {
    caller: caller.client,
    writer: services.client,
    owner: async () => (await caller.user()).username,
    findConfig: (name, of) => findVmConfig(services, { namespace: of, name }),
    findPool: (name, of) => findVmPool(services, { namespace: of, name }),
    findImage: (name, of) => findImage(services, { namespace: of, name }),
    mayGetConfig: (name, of) =>
      isAllowed(caller, { group, resource: 'vmconfigs', verb: 'get', namespace: of, name }),
    settings: () => Promise.resolve({ gpuPassthroughEnabled, hostPortsAllowed, defaultNamespace }),
    wait: waiterOf(call),
  };
  return deployAVm(environment, body, { ...options, namespace });
}

export const deployVm = defineRoute({
  id: 'deployVm',
  tag,
  method: 'POST',
  path: collection,
  summary: 'Deploy a VM and wait until it runs, with wait=reachable until its guest answers.',
  params: schemas.namespaceParams,
  query: schemas.deployWaitQuery,
  body: vmSchemas.deployBody,
  bodyKind: 'json',
  headers: schemas.deployHeaders,
  replies: {
    200: { description: 'The VM runs.', schema: vmSchemas.deployReply },
    202: { description: 'The VM was created and is being started.', schema: vmSchemas.deployReply },
    504: {
      description:
        'The VM did not run within its timeout and is removed; or, with wait=reachable, it runs and stays.',
      schema: schemas.status,
    },
  },
  permission: { kind: 'native', ...vmPermission, verb: 'create' },
  longRunning: true,
  example: { name: 'demo', image: 'registry.example.com/team/debian:12', cpu: 2, memory: 2 },
  async handler(call) {
    const wait = call.query.wait ?? true;
    const { vm, portWarnings, warnings, runs, inherited } = await tracedDeploy(
      call,
      call.params.namespace,
      (traceparent) => deploy(call, { wait, traceparent }),
    );
    for (const warning of warnings) call.warn(warning);
    const body = deployItem(vm, portWarnings, inherited);
    if (runs) return { body };
    await waitSeen(call.services.caches.vms.changes, vm, call.signal);
    return { status: 202, body };
  },
});

/**
 * The use case on this call: the VM is deleted with the caller's token.
 *
 * @param uid - of the VM that is meant: another one of its name is left alone
 * @returns how its deletion goes on; undefined: it is gone
 * @throws Svc3Error NotFound; Conflict where it is another than `uid` says
 */
export function remove(
  call: Call<
    { namespace: string; vm: string },
    { wait?: boolean | undefined; deleteDisk?: boolean | undefined },
    unknown
  >,
  uid?: string,
): Promise<string | undefined> {
  const { params, query, services, caller } = call;
  const key = { namespace: params.namespace, name: params.vm };
  const isLive = query.deleteDisk === true || uid !== undefined;
  const find = () => (isLive ? findLiveVm : findVm)(services, key);
  const environment = { caller: caller.client, find, wait: waiterOf(call) };
  return deleteAVm(environment, key, {
    wait: query.wait ?? true,
    deleteDisk: query.deleteDisk ?? false,
    uid,
    warn: (message) => call.warn(message),
  });
}

export const deleteVm = defineRoute({
  id: 'deleteVm',
  tag,
  method: 'DELETE',
  path: one,
  summary: 'Delete a VM.',
  params: schemas.vmParams,
  query: schemas.deletionQuery,
  body: schemas.nothing,
  bodyKind: 'none',
  replies: {
    200: { description: 'The VM is gone.', schema: schemas.status },
    202: { description: 'The VM is being deleted.', schema: schemas.status },
    409: { description: 'It is another than `uid` says.', schema: schemas.status },
  },
  permission: { kind: 'native', ...vmPermission, verb: 'delete', name: 'vm' },
  longRunning: true,
  async handler(call) {
    const goesOn = await remove(call, call.query.uid);
    return goesOn === undefined
      ? { body: success(`Successfully deleted vm ${call.params.vm}`) }
      : { status: 202, body: success(goesOn, 202) };
  },
});

export const actionPermission = (subresource: string) =>
  ({
    kind: 'checked',
    group: actionsGroup,
    resource: 'vms',
    subresource,
    verb: 'create',
    scope: 'namespace',
    name: 'vm',
  }) as const;
