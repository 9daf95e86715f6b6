import type { Iso } from '../../api/image.ts';
import { group } from '../../api/meta.ts';
import { isos } from '../../api/resources.ts';
import { imageItem } from '../../items/image.ts';
import { findIso } from '../lookup.ts';
import { defineRoute } from '../route.ts';
import * as schemas from '../schemas.ts';
import { success } from '../status.ts';
import { writing } from '../upstream.ts';
import { waitGone, waitSeen } from '../visible.ts';
import { refuseWhileUsed } from './diskusers.ts';

const tag = 'ISOs';
const collection = '/api/v1/namespaces/{namespace}/isos';
const one = `${collection}/{iso}`;
const permission = { group, resource: 'isos', scope: 'namespace' } as const;
const accepted = { 202: { description: 'It is being made; poll it.', schema: schemas.imageItem } };

export const listIsos = defineRoute({
  id: 'listIsos',
  tag: tag,
  method: 'GET',
  path: collection,
  summary: 'List the ISOs of the namespace.',
  params: schemas.namespaceParams,
  query: schemas.nothing,
  body: schemas.nothing,
  bodyKind: 'none',
  replies: { 200: { description: 'The ISOs.', schema: schemas.listOf(schemas.imageItem) } },
  permission: { kind: 'checked', ...permission, verb: 'list' },
  handler: ({ params, services }) => ({ json: services.caches.isos.items.list(params.namespace) }),
});

export const getIso = defineRoute({
  id: 'getIso',
  tag: tag,
  method: 'GET',
  path: one,
  summary: 'Show one ISO.',
  params: schemas.isoParams,
  query: schemas.nothing,
  body: schemas.nothing,
  bodyKind: 'none',
  replies: { 200: { description: 'The ISO.', schema: schemas.imageItem } },
  permission: { kind: 'checked', ...permission, verb: 'get', name: 'iso' },
  async handler({ params, services }) {
    return { body: imageItem(await findIso(services, { namespace: params.namespace, name: params.iso })) };
  },
});

export const copyIso = defineRoute({
  id: 'copyIso',
  tag: tag,
  method: 'POST',
  path: `${one}/copy`,
  summary: 'Copy an ISO.',
  params: schemas.isoParams,
  query: schemas.nothing,
  body: schemas.copyBody,
  bodyKind: 'json',
  replies: accepted,
  permission: { kind: 'native', ...permission, verb: 'create' },
  example: { name: 'copy' },
  async handler({ params, body, caller, services, signal }) {
    await findIso(services, { namespace: params.namespace, name: params.iso });
    const iso: Iso = {
      metadata: { name: body.name, namespace: params.namespace },
      spec: {
        ...(body.description === undefined ? {} : { description: body.description }),
        source: { image: { name: params.iso } },
      },
    };
    const created = await writing(() => caller.client.create(isos, iso), { 'metadata.name': 'name' });
    await waitSeen(services.caches.isos.changes, created, signal);
    return { status: 202, body: imageItem(created) };
  },
});

export const describeIso = defineRoute({
  id: 'describeIso',
  tag: tag,
  method: 'POST',
  path: `${one}/description`,
  summary: "Set an ISO's description.",
  params: schemas.isoParams,
  query: schemas.nothing,
  body: schemas.descriptionBody,
  bodyKind: 'json',
  replies: { 200: { description: 'The ISO.', schema: schemas.imageItem } },
  permission: { kind: 'native', ...permission, verb: 'patch', name: 'iso' },
  example: { description: 'Install medium' },
  async handler({ params, body, caller }) {
    const patched = await caller.client.patch(
      isos,
      { name: params.iso, namespace: params.namespace },
      { type: 'merge', body: { spec: { description: body.description } } },
      { fieldManager: 'svc3-api' },
    );
    return { body: imageItem(patched) };
  },
});

export const deleteIso = defineRoute({
  id: 'deleteIso',
  tag: tag,
  method: 'DELETE',
  path: one,
  summary: 'Delete an ISO that no VM uses.',
  params: schemas.isoParams,
  query: schemas.nothing,
  body: schemas.nothing,
  bodyKind: 'none',
  replies: {
    200: { description: 'The ISO is gone.', schema: schemas.status },
    409: { description: 'VMs use it.', schema: schemas.status },
  },
  permission: { kind: 'native', ...permission, verb: 'delete', name: 'iso' },
  async handler({ params, caller, services, signal }) {
    const key = { namespace: params.namespace, name: params.iso };
    const iso = await findIso(services, key);
    refuseWhileUsed(services, iso, 'iso');
    await caller.client.delete(isos, key, iso.metadata.uid === undefined ? {} : { uid: iso.metadata.uid });
    await waitGone(services.caches.isos.changes, key, signal);
    return { body: success(`Successfully deleted iso ${params.iso}`) };
  },
});
