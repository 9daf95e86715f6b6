import { actionsGroup, group } from '../../api/meta.ts';
import { vms } from '../../api/resources.ts';
import type { Vm } from '../../api/vm.ts';
import { Svc3Error, invalidField, isSvc3Error } from '../../errors.ts';
import { didNotRun, vmOf, type DeployRequest } from '../../wire/deploy.ts';
import { removeNeverRun } from '../../wire/removal.ts';
import { deletionMessage, deployItem, isHeld, vmItem, vmMessage, vmState } from '../../wire/vm.ts';
import { findImage, findVm, findVmConfig } from '../server/lookup.ts';
import { defineRoute, type Call, type ReplyOf } from '../server/route.ts';
import * as schemas from '../../wire/schemas.ts';
import * as vmSchemas from '../../wire/vmschemas.ts';
import type { Services } from '../server/services.ts';
import { success } from '../server/status.ts';
import { writing } from '../server/upstream.ts';

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

export const getVm = defineRoute({
  id: 'getVm',
  tag,
  method: 'GET',
  path: one,
  summary: 'Show one VM.',
  params: schemas.vmParams,
  query: schemas.nothing,
  body: schemas.nothing,
  bodyKind: 'none',
  replies: { 200: { description: 'The VM.', schema: vmSchemas.vmItem } },
  permission: { kind: 'checked', ...vmPermission, verb: 'get', name: 'vm' },
  async handler({ params, services }) {
    const cached = services.caches.vms.items.item(params.vm, params.namespace);
    if (cached !== undefined) return { json: cached };
    return { body: vmItem(await findVm(services, { namespace: params.namespace, name: params.vm })) };
  },
});

/** What can be known to be wrong before the VM exists. */
async function check(request: DeployRequest, namespace: string, services: Services): Promise<void> {
  if (request.image === undefined && request.vmConfig === undefined)
    throw invalidField('image', 'image or vmConfig is required', 'FieldValueRequired');
  const config =
    request.vmConfig === undefined
      ? undefined
      : await findVmConfig(services, { namespace, name: request.vmConfig }).catch((error: unknown) => {
          if (!isSvc3Error(error, 'NotFound')) throw error;
          throw new Svc3Error('NotFound', `${request.vmConfig} config does not exist`, {
            details: { group, kind: 'vmconfigs', name: request.vmConfig ?? '' },
            cause: error,
          });
        });
  const imageName = request.image ?? config?.spec.image;
  const image =
    imageName === undefined || imageName.includes('/')
      ? undefined
      : await findImage(services, { namespace, name: imageName });
  const architecture = config?.spec.architecture ?? image?.status?.architecture;
  const gpu = request.gpuPassthrough ?? config?.spec.gpuPassthrough === 'Enabled';
  if (gpu && architecture === 'amd64' && !services.settings.gpuPassthroughEnabled)
    throw invalidField(
      'gpuPassthrough',
      'GPU passthrough is not enabled in this cluster',
      'FieldValueForbidden',
    );
}

export interface Deployed {
  readonly vm: Vm;
  readonly portWarnings: readonly string[];
  /** False: the VM was created and the reply does not wait for it any longer. */
  readonly settled: boolean;
}

export interface DeployWishes {
  readonly wait: boolean;
  readonly annotations?: Readonly<Record<string, string>>;
  /** Gives up as soon as no node fits, as clients of the 2.4.x API expect. */
  readonly failFast?: boolean;
}

/** So long after the start deadline the operator has deleted the VM, where it works and the guest has not started. */
const deadlineGraceMs = 5_000;

/**
 * Creates a VM with the caller's rights and waits until it runs. A VM that must be changed by its user to ever run is
 * removed and its reason returned. At the start deadline the operator removes it (contract: `timeout`), and nobody else:
 * what is seen here is a status, which is written later than a guest starts.
 */
export async function deploy(
  call: Call<{ namespace: string }, unknown, DeployRequest>,
  wishes: DeployWishes,
): Promise<Deployed> {
  const { services, params, body } = call;
  await check(body, params.namespace, services);
  const { username: owner = '' } = await call.caller.user();
  const { vm, portWarnings } = vmOf(body, {
    namespace: params.namespace,
    hostPortsAllowed: services.settings.hostPortsAllowed,
    withoutDeadline: !wishes.wait,
    ...(owner === '' ? {} : { owner }),
    ...(wishes.annotations === undefined ? {} : { annotations: wishes.annotations }),
  });
  const created = await writing(() => call.caller.client.create(vms, vm));
  if (!wishes.wait) return { vm: created, portWarnings, settled: false };
  return await settle(call, created, portWarnings, wishes);
}

function isUnschedulable(vm: Vm): boolean {
  return (
    vm.status?.conditions?.some(
      ({ type, status, reason }) => type === 'Scheduled' && status === 'False' && reason === 'Unschedulable',
    ) === true
  );
}

async function settle(
  call: Call<{ namespace: string }, unknown, DeployRequest>,
  created: Vm,
  portWarnings: readonly string[],
  wishes: DeployWishes,
): Promise<Deployed> {
  const { name = '', namespace = '', uid } = created.metadata;
  const deadlineMs = (created.spec.startDeadlineSeconds ?? 600) * 1000 + deadlineGraceMs;
  const timeout = AbortSignal.timeout(deadlineMs);
  let last = created;
  let seen = false;
  const done = (vm: Vm | undefined): boolean => {
    if (vm === undefined || vm.metadata.uid !== uid) return seen;
    seen = true;
    last = vm;
    const state = vmState(vm);
    return state === 'Running' || state === 'Failed' || (wishes.failFast === true && isUnschedulable(vm));
  };
  let found: Vm | undefined;
  try {
    found = await call.services.caches.vms.changes.until(
      { name, namespace },
      done,
      AbortSignal.any([timeout, call.drain, call.signal]),
    );
  } catch (error) {
    if (!timeout.aborted) {
      if (call.drain.aborted || call.signal.aborted) return { vm: last, portWarnings, settled: false };
      throw error;
    }
    throw didNotRun(last, 'left');
  }
  if (found?.metadata.uid === uid && vmState(last) === 'Running')
    return { vm: last, portWarnings, settled: true };
  if (found?.metadata.uid !== uid) throw didNotRun(last, 'removed');
  await removeNeverRun(last, {
    caller: call.caller.client,
    writer: call.services.client,
    fieldManager: 'svc3-api',
  });
  throw new Svc3Error('Invalid', vmMessage(last) ?? `VM ${name} cannot run`, {
    details: { group, kind: 'vms', name, causes: [{ field: fieldOf(last), message: vmMessage(last) ?? '' }] },
  });
}

/** The field of the request that the reason of a stalled VM is about. */
function fieldOf(vm: Vm): string {
  const reason =
    vm.status?.conditions?.find(({ type, status }) => type === 'Stalled' && status === 'True')?.reason ?? '';
  if (reason.startsWith('GPU')) return 'gpuPassthrough';
  if (reason.startsWith('Config')) return 'vmConfig';
  return reason.startsWith('Image') || reason.startsWith('Architecture') ? 'image' : 'vm';
}

export const deployVm = defineRoute({
  id: 'deployVm',
  tag,
  method: 'POST',
  path: collection,
  summary: 'Deploy a VM and wait until it runs.',
  params: schemas.namespaceParams,
  query: schemas.waitQuery,
  body: vmSchemas.deployBody,
  bodyKind: 'json',
  replies: {
    200: { description: 'The VM runs.', schema: vmSchemas.deployReply },
    202: { description: 'The VM was created and is being started.', schema: vmSchemas.deployReply },
    504: { description: 'The VM did not run within its timeout and is removed.', schema: schemas.status },
  },
  permission: { kind: 'native', ...vmPermission, verb: 'create' },
  longRunning: true,
  example: { name: 'demo', image: 'registry.example.com/team/debian:12', cpu: 2, memory: 2 },
  async handler(call) {
    const { vm, portWarnings, settled } = await deploy(call, { wait: call.query.wait ?? true });
    for (const warning of vm.status?.warnings ?? []) call.warn(warning);
    const body = deployItem(vm, portWarnings);
    return settled ? { body } : { status: 202, body };
  },
});

const deletionReplies = {
  200: { description: 'The VM is gone.', schema: schemas.status },
  202: { description: 'The VM is being deleted.', schema: schemas.status },
};

/** A guest has a minute to shut down unless the installation says otherwise. */
const deletionWaitMs = 90_000;

/** Deletes with the caller's rights and waits a while until it is gone, so that the name is free again. */
export async function deleteVmAndWait(
  call: Call<{ namespace: string; vm: string }, { wait?: boolean | undefined }, unknown>,
): Promise<ReplyOf<typeof deletionReplies>> {
  const { namespace, vm: name } = call.params;
  const { objects, changes } = call.services.caches.vms;
  const uid = objects.get(name, namespace)?.metadata.uid;
  await call.caller.client.delete(vms, { name, namespace });
  if (call.query.wait === false) return deletionBegun(name, undefined);
  const isGone = (vm: Vm | undefined) => vm === undefined || (uid !== undefined && vm.metadata.uid !== uid);
  try {
    await changes.until(
      { name, namespace },
      (vm) => vm === undefined || isGone(vm) || isHeld(vm),
      AbortSignal.any([AbortSignal.timeout(deletionWaitMs), call.drain, call.signal]),
    );
  } catch {
    return deletionBegun(name, undefined);
  }
  const left = objects.get(name, namespace);
  return isGone(left) ? { body: success(`Successfully deleted vm ${name}`) } : deletionBegun(name, left);
}

function deletionBegun(name: string, vm: Vm | undefined): ReplyOf<typeof deletionReplies> {
  return { status: 202, body: success(deletionMessage(name, vm), 202) };
}

export const deleteVm = defineRoute({
  id: 'deleteVm',
  tag,
  method: 'DELETE',
  path: one,
  summary: 'Delete a VM.',
  params: schemas.vmParams,
  query: schemas.waitQuery,
  body: schemas.nothing,
  bodyKind: 'none',
  replies: deletionReplies,
  permission: { kind: 'native', ...vmPermission, verb: 'delete', name: 'vm' },
  longRunning: true,
  handler: deleteVmAndWait,
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
