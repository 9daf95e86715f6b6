import * as z from 'zod';
import { Svc3Error } from '../../errors.ts';
import { defineRoute, type Call, type Permission, type ReplyOf, type Route } from '../call/route.ts';
import { findNode, listNodes, nodeItems, tagNode, untagNode, getNode } from '../routes/nodes.ts';
import { getClusterInfo } from '../routes/clusterinfo.ts';
import { listRemoteImages, listRemoteIsos } from '../routes/remotes.ts';
import { commitVm, execVm, saveVm } from '../routes/vmactions.ts';
import {
  type ClusterInfo,
  namespaceParams,
  nodeParams,
  type RemoteItem,
  waitQuery,
} from '../../wire/schemas.ts';
import { isNodeOf, nodeItem } from '../../wire/node.ts';
import { discovery, groupVersion, root } from './discovery.ts';
import { diskRoutes } from './diskroutes.ts';
import { openApiV2Of, openApiV3Of } from './documents.ts';
import * as schemas from './schemas.ts';
import { refuseDryRun, selectorOf } from './selectors.ts';
import { nodeObject, nodeTable, remoteObject, remoteTable, wantsTable } from './table.ts';

const open: Permission = { kind: 'open' };
/** kubectl and client libraries send options of their own with every read. */
const anyQuery = z.looseObject({
  watch: z.string().optional(),
  fieldSelector: z.string().optional(),
  labelSelector: z.string().optional(),
  includeObject: z.enum(['None', 'Metadata', 'Object']).optional(),
});
const nothing = z.object({});

/** A document that is made when it is first asked for: anybody may ask, as often as they like. */
function answered(path: string, body: () => unknown): Route {
  let text: Buffer | undefined;
  return defineRoute({
    id: `discovery ${path}`,
    tag: 'Discovery',
    method: 'GET',
    path,
    summary: 'Discovery.',
    params: nothing,
    query: anyQuery,
    body: nothing,
    bodyKind: 'none',
    replies: { 200: { description: 'Discovery.' } },
    permission: open,
    handler: () => ({ json: (text ??= Buffer.from(JSON.stringify(body()))) }),
  });
}

function refuseWatch(query: { watch?: string | undefined }): void {
  if (query.watch !== undefined && query.watch !== 'false' && query.watch !== '0')
    throw new Svc3Error('MethodNotAllowed', 'resources of this API cannot be watched');
}

const nodeListReplies = { 200: { description: 'The nodes.', schema: schemas.nodeList } };

/** A Table, which kubectl asks for by its Accept header. */
function json(table: object): { readonly raw: Buffer; readonly headers: Record<string, string> } {
  return {
    raw: Buffer.from(JSON.stringify(table)),
    headers: { 'content-type': 'application/json; charset=utf-8' },
  };
}

/** What the handlers need beyond a call: the Accept header. */
type Read<P> = Call<P, z.output<typeof anyQuery>, unknown>;

function nodeList(call: Read<unknown>, namespace: string | undefined): ReplyOf<typeof nodeListReplies> {
  refuseWatch(call.query);
  const isWanted = selectorOf(call.query);
  const all =
    namespace === undefined
      ? call.services.caches.nodes
          .list()
          .map((node) => nodeItem(node, '', call.services.caches.usages.of(node.metadata.name)))
      : nodeItems(call.services, namespace);
  const items = all.filter(isWanted);
  if (wantsTable(call.accept)) return json(nodeTable(items, call.query.includeObject));
  return { body: { kind: 'NodeList', apiVersion: groupVersion, metadata: {}, items: items.map(nodeObject) } };
}

const nodesOfNamespace = defineRoute({
  id: 'aggregatedListNodes',
  tag: 'Nodes',
  method: 'GET',
  path: `${root}/namespaces/{namespace}/nodes`,
  summary: listNodes.summary,
  params: namespaceParams,
  query: anyQuery,
  body: nothing,
  bodyKind: 'none',
  replies: nodeListReplies,
  permission: listNodes.permission,
  handler: (call) => nodeList(call, call.params.namespace),
});

const nodesOfAll = defineRoute({
  id: 'aggregatedListAllNodes',
  tag: 'Nodes',
  method: 'GET',
  path: `${root}/nodes`,
  summary: 'List the nodes of all namespaces.',
  params: nothing,
  query: anyQuery,
  body: nothing,
  bodyKind: 'none',
  replies: nodeListReplies,
  permission: { ...(listNodes.permission as Permission & { kind: 'checked' }), scope: 'cluster' },
  handler: (call) => nodeList(call, undefined),
});

const oneNode = defineRoute({
  id: 'aggregatedGetNode',
  tag: 'Nodes',
  method: 'GET',
  path: `${root}/namespaces/{namespace}/nodes/{name}`,
  summary: getNode.summary,
  params: nodeParams,
  query: anyQuery,
  body: nothing,
  bodyKind: 'none',
  replies: { 200: { description: 'The node.', schema: schemas.nodeObject } },
  permission: getNode.permission,
  handler(call) {
    const { namespace, name } = call.params;
    const node = findNode(call.services, namespace, name);
    if (!isNodeOf(node, namespace)) throw new Svc3Error('NotFound', `nodes "${name}" not found`);
    const item = nodeItem(node, namespace, call.services.caches.usages.of(name));
    if (wantsTable(call.accept)) return json(nodeTable([item], call.query.includeObject));
    return { body: nodeObject(item) };
  },
});

/** The same route of `/api/v1` under the aggregated root; a body may carry apiVersion and kind, as kubectl users write them. */
function aggregated(route: Route, kind: string): Route {
  return {
    ...route,
    id: `aggregated ${route.id}`,
    path: route.path.replace('/api/v1', root),
    query: z.looseObject(waitQuery.shape),
    body: schemas.typedRequest(route.body),
    replies: schemas.typedReplies(route.replies, kind),
    async handler(call: Call<unknown, unknown, unknown>) {
      refuseDryRun(call.query);
      const { wait } = call.query as z.output<typeof waitQuery>;
      return schemas.typedReply(await route.handler({ ...call, query: { wait } }), kind);
    },
  };
}

const actions: readonly Route[] = [
  aggregated(execVm, 'VMExec'),
  aggregated(saveVm, 'VMSave'),
  aggregated(commitVm, 'VMCommit'),
  aggregated(tagNode, 'NodeTag'),
  aggregated(untagNode, 'NodeTag'),
];

/** What remote registries hold, as kubectl lists it. */
function remotes(route: Route, kind: 'RemoteImage' | 'RemoteISO'): Route {
  return defineRoute({
    id: `aggregated ${route.id}`,
    tag: route.tag,
    method: 'GET',
    path: route.path.replace('/api/v1', root),
    summary: route.summary,
    params: namespaceParams,
    query: anyQuery,
    body: nothing,
    bodyKind: 'none',
    replies: { 200: { description: 'What the registries hold.', schema: schemas.remoteList } },
    permission: route.permission,
    async handler(call) {
      refuseWatch(call.query);
      const isWanted = selectorOf(call.query);
      const { body } = await route.handler({ ...call, query: {} });
      const { items, incomplete } = body as RemoteListing;
      const objects = items
        .map((item) => remoteObject(item, kind, call.params.namespace))
        .filter(({ metadata }) => isWanted(metadata));
      if (wantsTable(call.accept)) return json(remoteTable(objects, call.query.includeObject));
      const whole = incomplete === undefined ? {} : { incomplete: [...incomplete] };
      return {
        body: {
          kind: `${kind}List` as const,
          apiVersion: groupVersion,
          metadata: {},
          items: objects,
          ...whole,
        },
      };
    },
  });
}

interface RemoteListing {
  readonly items: readonly RemoteItem[];
  readonly incomplete?: readonly string[];
}

/** Through kube-apiserver everybody has a token; the installation is one object. */
const clusterInfo = defineRoute({
  id: 'aggregated getClusterInfo',
  tag: getClusterInfo.tag,
  method: 'GET',
  path: `${root}/clusterinfos/cluster`,
  summary: getClusterInfo.summary,
  params: nothing,
  query: anyQuery,
  body: nothing,
  bodyKind: 'none',
  replies: { 200: { description: 'The cluster.', schema: schemas.clusterInfoObject } },
  permission: open,
  async handler(call) {
    const { body } = await getClusterInfo.handler({ ...call, query: {} });
    const info = body as ClusterInfo;
    return {
      body: {
        apiVersion: groupVersion,
        kind: 'ClusterInfo' as const,
        metadata: { name: 'cluster' },
        ...info,
      },
    };
  },
});

const described: readonly Route[] = [
  nodesOfNamespace,
  nodesOfAll,
  oneNode,
  ...actions,
  ...diskRoutes,
  remotes(listRemoteImages, 'RemoteImage'),
  remotes(listRemoteIsos, 'RemoteISO'),
  clusterInfo,
];

/** Every path of the aggregated API. Discovery is answered without any call to kube-apiserver. */
export const aggregatedRoutes: readonly Route[] = [
  ...Object.entries(discovery).map(([path, body]) => answered(path, () => body)),
  answered('/openapi/v2', () => openApiV2Of(described)),
  answered(`/openapi/v3${root}`, () => openApiV3Of(described)),
  ...described,
];
