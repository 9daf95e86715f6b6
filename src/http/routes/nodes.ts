import { actionsGroup, tagLabel } from '../../api/meta.ts';
import { nodes } from '../../api/resources.ts';
import type { Node } from '../../api/core.ts';
import { isNodeOf, nodeItem, tagsOf, type NodeItem } from '../../wire/node.ts';
import { notFound } from '../server/lookup.ts';
import { defineRoute, type Call, type ReplyOf } from '../server/route.ts';
import * as schemas from '../../wire/schemas.ts';
import type { Services } from '../server/services.ts';
import { success } from '../server/status.ts';

const tag = 'Nodes';
const collection = '/api/v1/namespaces/{namespace}/nodes';
const permission = { kind: 'checked', group: actionsGroup, resource: 'nodes', scope: 'namespace' } as const;
const tagPermission = {
  kind: 'checked',
  group: actionsGroup,
  resource: 'nodes',
  subresource: 'tag',
  verb: 'create',
  scope: 'cluster',
  name: 'name',
} as const;

/** The nodes that may run VMs of the namespace, by name. */
export function nodeItems(services: Services, namespace: string): NodeItem[] {
  return services.caches.nodes
    .list()
    .filter((node) => isNodeOf(node, namespace))
    .map((node) => nodeItem(node, namespace, services.caches.usages.of(node.metadata.name)))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

export function findNode(services: Services, namespace: string, name: string): Node {
  const node = services.caches.nodes.get(name);
  if (node === undefined || !isNodeOf(node, namespace)) throw notFound('nodes', name);
  return node;
}

export const listNodes = defineRoute({
  id: 'listNodes',
  tag,
  method: 'GET',
  path: collection,
  summary: 'List the nodes that VMs of the namespace may run on.',
  params: schemas.namespaceParams,
  query: schemas.nothing,
  body: schemas.nothing,
  bodyKind: 'none',
  replies: { 200: { description: 'The nodes.', schema: schemas.listOf(schemas.nodeItem) } },
  permission: { ...permission, verb: 'list' },
  handler: ({ params, services }) => ({ body: { items: nodeItems(services, params.namespace) } }),
});

export const getNode = defineRoute({
  id: 'getNode',
  tag,
  method: 'GET',
  path: `${collection}/{name}`,
  summary: 'Show one node.',
  params: schemas.nodeParams,
  query: schemas.nothing,
  body: schemas.nothing,
  bodyKind: 'none',
  replies: { 200: { description: 'The node.', schema: schemas.nodeItem } },
  permission: { ...permission, verb: 'get', name: 'name' },
  handler({ params, services }) {
    const node = findNode(services, params.namespace, params.name);
    return { body: nodeItem(node, params.namespace, services.caches.usages.of(params.name)) };
  },
});

const tagReplies = { 200: { description: 'Done.', schema: schemas.status } };

async function setTag(
  call: Call<{ namespace: string; name: string }, unknown, { tag: string }>,
  value: 'true' | null,
): Promise<ReplyOf<typeof tagReplies>> {
  const { params, body, services } = call;
  findNode(services, params.namespace, params.name);
  // Also where the cache says that it is so: the request before may have gone to another replica.
  await services.client.patch(
    nodes,
    { name: params.name },
    { type: 'merge', body: { metadata: { labels: { [tagLabel(body.tag)]: value } } } },
  );
  await seesTag(services, params.name, body.tag, value === 'true', call.signal);
  return {
    body: success(
      value === null
        ? `tag ${body.tag} was removed from node ${params.name}`
        : `node ${params.name} was tagged ${body.tag}`,
    ),
  };
}

async function seesTag(
  services: Services,
  name: string,
  tag: string,
  expected: boolean,
  signal: AbortSignal,
): Promise<void> {
  const endsAt = performance.now() + 1_000;
  while (performance.now() < endsAt && !signal.aborted) {
    const node = services.caches.nodes.get(name);
    if (node === undefined || tagsOf(node).includes(tag) === expected) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

export const tagNode = defineRoute({
  id: 'tagNode',
  tag,
  method: 'POST',
  path: `${collection}/{name}/tag`,
  summary: 'Tag a node.',
  params: schemas.nodeParams,
  query: schemas.nothing,
  body: schemas.tagBody,
  bodyKind: 'json',
  replies: tagReplies,
  permission: tagPermission,
  example: { tag: 'fast' },
  handler: (call) => setTag(call, 'true'),
});

export const untagNode = defineRoute({
  id: 'untagNode',
  tag,
  method: 'POST',
  path: `${collection}/{name}/untag`,
  summary: 'Take a tag from a node.',
  params: schemas.nodeParams,
  query: schemas.nothing,
  body: schemas.tagBody,
  bodyKind: 'json',
  replies: tagReplies,
  permission: tagPermission,
  example: { tag: 'fast' },
  handler: (call) => setTag(call, null),
});
