import type * as z from 'zod';
import { group } from '../../api/meta.ts';
import { vmPools } from '../../api/resources.ts';
import { writing } from '../../usecases/writing.ts';
import { preconditionOf } from '../../wire/meant.ts';
import * as schemas from '../../wire/schemas.ts';
import {
  poolFields,
  poolWarnings,
  scalePatch,
  vmPoolItem,
  vmPoolOf,
  type VmPoolScaleRequest,
} from '../../wire/vmpool.ts';
import * as vmSchemas from '../../wire/vmschemas.ts';
import { findVmPool, requireMeantNow } from '../call/lookup.ts';
import { defineRoute, type Call } from '../call/route.ts';
import { success } from '../call/status.ts';
import { waitGone, waitSeen } from '../call/visible.ts';

const tag = 'VM pools';
const collection = '/api/v1/namespaces/{namespace}/vmpools';
const one = `${collection}/{vmpool}`;
const permission = { group, resource: 'vmpools', scope: 'namespace' } as const;

export const listVmPools = defineRoute({
  id: 'listVmPools',
  tag,
  method: 'GET',
  path: collection,
  summary: 'List the VM pools of all users in the namespace.',
  params: schemas.namespaceParams,
  query: schemas.nothing,
  body: schemas.nothing,
  bodyKind: 'none',
  replies: { 200: { description: 'The pools.', schema: schemas.listOf(vmSchemas.vmPoolItem) } },
  permission: { kind: 'checked', ...permission, verb: 'list' },
  handler: ({ params, services }) => ({ json: services.caches.vmPools.items.list(params.namespace) }),
});

export const getVmPool = defineRoute({
  id: 'getVmPool',
  tag,
  method: 'GET',
  path: one,
  summary: 'Show one VM pool.',
  params: schemas.vmPoolParams,
  query: schemas.nothing,
  body: schemas.nothing,
  bodyKind: 'none',
  replies: { 200: { description: 'The pool.', schema: vmSchemas.vmPoolItem } },
  permission: { kind: 'checked', ...permission, verb: 'get', name: 'vmpool' },
  async handler({ params, services }) {
    const cached = services.caches.vmPools.items.item(params.vmpool, params.namespace);
    if (cached !== undefined) return { json: cached };
    return {
      body: vmPoolItem(await findVmPool(services, { namespace: params.namespace, name: params.vmpool })),
    };
  },
});

export const createVmPool = defineRoute({
  id: 'createVmPool',
  tag,
  method: 'POST',
  path: collection,
  summary: 'Create a VM pool.',
  params: schemas.namespaceParams,
  query: schemas.nothing,
  body: vmSchemas.vmPoolBody,
  bodyKind: 'json',
  replies: { 201: { description: 'The pool.', schema: vmSchemas.vmPoolItem } },
  permission: { kind: 'native', ...permission, verb: 'create' },
  example: {
    name: 'ci',
    minIdle: 3,
    maxSize: 20,
    image: 'registry.example.com/team/debian:12',
    cpu: 2,
    memory: 4,
  },
  async handler({ params, body, caller, services, signal, warn }) {
    for (const warning of poolWarnings(body)) warn(warning);
    const { username: owner } = await caller.user();
    const pool = vmPoolOf(body, { namespace: params.namespace, owner });
    const created = await writing(() => caller.client.create(vmPools, pool), poolFields);
    await waitSeen(services.caches.vmPools.changes, created, signal);
    return { status: 201, body: vmPoolItem(created) };
  },
});

type PoolParams = z.output<typeof schemas.vmPoolParams>;
type MeantQuery = z.output<typeof schemas.meantQuery>;

const scaling = {
  tag,
  summary: 'Change how many guests of a VM pool wait.',
  params: schemas.vmPoolParams,
  query: schemas.meantQuery,
  body: vmSchemas.vmPoolScaleBody,
  bodyKind: 'json' as const,
  replies: {
    200: { description: 'The pool.', schema: vmSchemas.vmPoolItem },
    409: { description: 'It is another than `uid` says.', schema: schemas.status },
  },
  permission: { kind: 'native', ...permission, verb: 'patch', name: 'vmpool' } as const,
  example: { minIdle: 5 },
  async handler({
    params,
    query: { uid },
    body,
    caller,
    services,
    signal,
  }: Call<PoolParams, MeantQuery, VmPoolScaleRequest>) {
    const key = { namespace: params.namespace, name: params.vmpool };
    await requireMeantNow(vmPools, services, key, uid);
    const patch = { type: 'merge', body: { metadata: preconditionOf(uid), ...scalePatch(body) } } as const;
    const scaled = await writing(() => caller.client.patch(vmPools, key, patch), poolFields);
    await waitSeen(services.caches.vmPools.changes, scaled, signal);
    return { body: vmPoolItem(scaled) };
  },
};

export const scaleVmPool = defineRoute({
  ...scaling,
  id: 'scaleVmPool',
  method: 'POST',
  path: `${one}/scale`,
});

export const patchVmPool = defineRoute({ ...scaling, id: 'patchVmPool', method: 'PATCH', path: one });

export const deleteVmPool = defineRoute({
  id: 'deleteVmPool',
  tag,
  method: 'DELETE',
  path: one,
  summary: 'Delete a VM pool with the guests that wait; its VMs stay.',
  params: schemas.vmPoolParams,
  query: schemas.meantQuery,
  body: schemas.nothing,
  bodyKind: 'none',
  replies: {
    200: { description: 'The pool is gone.', schema: schemas.status },
    409: { description: 'It is another than `uid` says.', schema: schemas.status },
  },
  permission: { kind: 'native', ...permission, verb: 'delete', name: 'vmpool' },
  async handler({ params, query: { uid }, caller, services, signal }) {
    const key = { namespace: params.namespace, name: params.vmpool };
    await requireMeantNow(vmPools, services, key, uid);
    await caller.client.delete(vmPools, key, preconditionOf(uid));
    await waitGone(services.caches.vmPools.changes, key, signal);
    return { body: success(`Successfully deleted vm pool ${params.vmpool}`) };
  },
});
