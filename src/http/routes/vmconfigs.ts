import { group } from '../../api/meta.ts';
import { vmConfigs } from '../../api/resources.ts';
import { configFields, vmConfigItem, vmConfigOf } from '../../wire/vmconfig.ts';
import { findVmConfig, requireMeantNow } from '../call/lookup.ts';
import { defineRoute } from '../call/route.ts';
import { withoutEffect } from '../../wire/deploy.ts';
import { preconditionOf } from '../../wire/meant.ts';
import * as schemas from '../../wire/schemas.ts';
import * as vmSchemas from '../../wire/vmschemas.ts';
import { success } from '../call/status.ts';
import { writing } from '../../usecases/writing.ts';
import { waitGone, waitSeen } from '../call/visible.ts';

const tag = 'VM configurations';
const collection = '/api/v1/namespaces/{namespace}/vmconfigs';
const one = `${collection}/{vmconfig}`;
const permission = { group, resource: 'vmconfigs', scope: 'namespace' } as const;

export const listVmConfigs = defineRoute({
  id: 'listVmConfigs',
  tag,
  method: 'GET',
  path: collection,
  summary: 'List the VM configurations of all users in the namespace.',
  params: schemas.namespaceParams,
  query: schemas.nothing,
  body: schemas.nothing,
  bodyKind: 'none',
  replies: { 200: { description: 'The configurations.', schema: schemas.listOf(vmSchemas.vmConfigItem) } },
  permission: { kind: 'checked', ...permission, verb: 'list' },
  handler: ({ params, services }) => ({ json: services.caches.vmConfigs.items.list(params.namespace) }),
});

export const listAllVmConfigs = defineRoute({
  id: 'listAllVmConfigs',
  tag,
  method: 'GET',
  path: '/api/v1/vmconfigs',
  summary: 'List the VM configurations of all namespaces.',
  params: schemas.nothing,
  query: schemas.nothing,
  body: schemas.nothing,
  bodyKind: 'none',
  replies: { 200: { description: 'The VM configurations.', schema: schemas.listOf(vmSchemas.vmConfigItem) } },
  permission: { kind: 'checked', group, resource: 'vmconfigs', verb: 'list', scope: 'cluster' },
  handler: ({ services }) => ({ json: services.caches.vmConfigs.items.list(undefined) }),
});

export const getVmConfig = defineRoute({
  id: 'getVmConfig',
  tag,
  method: 'GET',
  path: one,
  summary: 'Show one VM configuration.',
  params: schemas.vmConfigParams,
  query: schemas.nothing,
  body: schemas.nothing,
  bodyKind: 'none',
  replies: { 200: { description: 'The configuration.', schema: vmSchemas.vmConfigItem } },
  permission: { kind: 'checked', ...permission, verb: 'get', name: 'vmconfig' },
  async handler({ params, services }) {
    const cached = services.caches.vmConfigs.items.item(params.vmconfig, params.namespace);
    if (cached !== undefined) return { json: cached };
    return {
      body: vmConfigItem(
        await findVmConfig(services, { namespace: params.namespace, name: params.vmconfig }),
      ),
    };
  },
});

export const createVmConfig = defineRoute({
  id: 'createVmConfig',
  tag,
  method: 'POST',
  path: collection,
  summary: 'Create a VM configuration.',
  params: schemas.namespaceParams,
  query: schemas.nothing,
  body: vmSchemas.vmConfigBody,
  bodyKind: 'json',
  replies: { 201: { description: 'The configuration.', schema: vmSchemas.vmConfigItem } },
  permission: { kind: 'native', ...permission, verb: 'create' },
  example: { name: 'small', image: 'registry.example.com/team/debian:12', cpu: 2, memory: 2 },
  async handler({ params, body, caller, services, signal, warn }) {
    for (const warning of withoutEffect(body)) warn(warning);
    const { username: owner } = await caller.user();
    const config = vmConfigOf(body, { namespace: params.namespace, owner });
    const created = await writing(() => caller.client.create(vmConfigs, config), configFields);
    await waitSeen(services.caches.vmConfigs.changes, created, signal);
    return { status: 201, body: vmConfigItem(created) };
  },
});

export const deleteVmConfig = defineRoute({
  id: 'deleteVmConfig',
  tag,
  method: 'DELETE',
  path: one,
  summary: 'Delete a VM configuration; its VMs keep their settings.',
  params: schemas.vmConfigParams,
  query: schemas.meantQuery,
  body: schemas.nothing,
  bodyKind: 'none',
  replies: {
    200: { description: 'The configuration is gone.', schema: schemas.status },
    409: { description: 'It is another than `uid` says.', schema: schemas.status },
  },
  permission: { kind: 'native', ...permission, verb: 'delete', name: 'vmconfig' },
  async handler({ params, query: { uid }, caller, services, signal }) {
    const key = { namespace: params.namespace, name: params.vmconfig };
    await requireMeantNow(vmConfigs, services, key, uid);
    await caller.client.delete(vmConfigs, key, preconditionOf(uid));
    await waitGone(services.caches.vmConfigs.changes, key, signal);
    return { body: success(`Successfully deleted vm configuration ${params.vmconfig}`) };
  },
});
