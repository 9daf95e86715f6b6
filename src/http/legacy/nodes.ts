import * as z from 'zod';
import { callFor, invoke } from '../server/invoke.ts';
import { listNodes, nodeItems, tagNode, untagNode } from '../routes/nodes.ts';
import type { Route } from '../call/route.ts';
import type { NodeItem } from '../../wire/node.ts';
import { nodesHelp } from './help.ts';
import { mapped, nothing, type Row } from './row.ts';

/** A node in `nodes` of the 2.4.x API; GPUs are texts there, `N/A` where passthrough is off. */
function nodeView(item: NodeItem): Record<string, unknown> {
  const gpu = (count: number): string => (item.gpuPassthrough ? String(count) : 'N/A');
  return {
    name: item.name,
    host_name: item.name,
    address: item.nodeIP,
    hostIP: item.nodeIP,
    available_cpu: item.availableCpu,
    allocatable_cpu: item.allocatableCpu,
    available_gpu: gpu(item.availableGpu),
    allocatable_gpu: gpu(item.allocatableGpu),
    available_memory: item.availableMemory,
    total_cpu: item.allocatableCpu,
    total_memory: item.allocatableMemory,
    node_type: item.nodeType,
    state: item.phase,
    svc_tags: item.tags,
  };
}

const list = mapped({
  kind: 'mapped',
  method: 'GET',
  path: '/resources/node/list',
  successor: 'GET NS/nodes',
  link: '/nodes',
  body: nothing,
  bodyKind: 'none',
  async handler(call) {
    await callFor(call, listNodes, { params: { namespace: call.namespace } });
    return {
      help: nodesHelp(call.baseUrl),
      fields: { nodes: nodeItems(call.services, call.namespace).map(nodeView) },
    };
  },
});

const node = z.object({ svc_node_name: z.string().min(1).max(253) });

/** Tags a node or takes a tag off; what differs is the verb. */
function tagRow({
  method,
  verb,
  route,
  message,
}: {
  readonly method: 'POST' | 'DELETE';
  readonly verb: 'tag' | 'untag';
  readonly route: Route;
  message(node: string, tag: string): string;
}): Row {
  return mapped({
    kind: 'mapped',
    method,
    path: '/resources/node/tag/{tag}',
    successor: `POST NS/nodes/{name}/${verb}`,
    link: '/nodes',
    body: node,
    bodyKind: 'json',
    fields: { name: 'svc_node_name' },
    async handler(call) {
      const { tag = '' } = call.params;
      const { svc_node_name: name } = call.body;
      await invoke(call, route, { params: { namespace: call.namespace, name }, body: { tag } });
      return { message: message(name, tag) };
    },
  });
}

/** Rows of nodes. */
export const nodeRows: readonly Row[] = [
  list,
  tagRow({
    method: 'POST',
    verb: 'tag',
    route: tagNode,
    message: (name, tag) => `Successfully tagged node '${name}' with a tag '${tag}'`,
  }),
  tagRow({
    method: 'DELETE',
    verb: 'untag',
    route: untagNode,
    message: (name) => `Successfully untagged node '${name}'`,
  }),
];
