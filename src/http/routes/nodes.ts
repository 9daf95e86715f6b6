import { actionsGroup } from '../../api/meta.ts';
import type { Node } from '../../api/core.ts';
import { nodes } from '../../api/resources.ts';
import { ifFound } from '../../errors.ts';
import { isNodeOf, nodeItem, tagsOf, type NodeItem } from '../../wire/node.ts';
import { defineRoute, type Call, type ReplyOf } from '../call/route.ts';
import * as schemas from '../../wire/schemas.ts';
import type { Services } from '../call/services.ts';
import { success } from '../call/status.ts';
import { requireNode, setNodeTag } from '../../usecases/nodelabels.ts';

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

export function findNode({ caches }: Services, namespace: string, name: string): Node {
  return requireNode(caches.nodes.get(name), { namespace, name });
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

/** What the cache would refuse kube-apiserver is asked for: another replica may have heard first of the node, or of whom it is for. */
async function nodeToTag(
  { caches, client }: Services,
  { namespace, name }: { readonly namespace: string; readonly name: string },
): Promise<Node | undefined> {
  const cached = caches.nodes.get(name);
  return cached !== undefined && isNodeOf(cached, namespace) ? cached : ifFound(client.get(nodes, name));
}

async function setTag(
  call: Call<{ namespace: string; name: string }, unknown, { tag: string }>,
  isTagged: boolean,
): Promise<ReplyOf<typeof tagReplies>> {
  const { params, body, services } = call;
  const find = () => nodeToTag(services, params);
  await setNodeTag({ writer: services.client, find }, params, body.tag, isTagged);
  await seesTag(services, params.name, body.tag, isTagged, call.signal);
  return {
    body: success(
      isTagged
        ? `node ${params.name} was tagged ${body.tag}`
        : `tag ${body.tag} was removed from node ${params.name}`,
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
  handler: (call) => setTag(call, true),
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
  handler: (call) => setTag(call, false),
});
