import * as z from 'zod';
import type { Replies, Reply } from '../call/route.ts';
import { clusterInfo, incomplete, nodeItem, remoteItem } from '../../wire/schemas.ts';
import { groupVersion } from './discovery.ts';

const metadata = z.object({ name: z.string(), namespace: z.string() });

/** The name of the schema; `Node` is the one of `/api/v1`. */
export const nodeId = 'NodeObject';

/** A node as an object of the aggregated API. */
export const nodeObject = z
  .object({ apiVersion: z.string(), kind: z.literal('Node'), metadata })
  .extend(nodeItem.omit({ name: true, namespace: true }).shape)
  .meta({
    id: nodeId,
    description: 'A node as VMs of a namespace see it: what is free on it, and what it is good for.',
  });

export const nodeList = z
  .object({
    apiVersion: z.string(),
    kind: z.literal('NodeList'),
    metadata: z.object({}),
    items: z.array(nodeObject),
  })
  .meta({ id: 'NodeList' });

export type NodeObject = z.output<typeof nodeObject>;

/** The installation as the one object of its kind. */
export const clusterInfoObject = z
  .object({
    apiVersion: z.string(),
    kind: z.literal('ClusterInfo'),
    metadata: z.object({ name: z.string() }),
  })
  .extend(clusterInfo.shape)
  .meta({ id: 'ClusterInfoObject' });

/** What a remote registry holds, as an object of the aggregated API. */
export const remoteObject = z
  .object({
    apiVersion: z.string(),
    kind: z.enum(['RemoteImage', 'RemoteISO']),
    metadata,
    type: remoteItem.shape.kind,
    tags: remoteItem.shape.tags,
  })
  .meta({ id: 'RemoteObject' });
export type RemoteObject = z.output<typeof remoteObject>;

export const remoteList = z
  .object({
    apiVersion: z.string(),
    kind: z.enum(['RemoteImageList', 'RemoteISOList']),
    metadata: z.object({}),
    items: z.array(remoteObject),
    incomplete,
  })
  .meta({ id: 'RemoteList' });

/** A request of `/api/v1` as kubectl users write it: apiVersion, kind and metadata may stand in it. */
export function typedRequest(body: z.ZodType): z.ZodType {
  if (body instanceof z.ZodOptional) return typedRequest(body.unwrap() as z.ZodType).optional();
  if (!(body instanceof z.ZodObject)) return body;
  return body.extend({
    apiVersion: z.string().optional(),
    kind: z.string().optional(),
    metadata: z.looseObject({}).optional(),
  });
}

/** A reply of `/api/v1` as an object of the kind; bytes, and what has a kind already, stay as they are. */
export function typedReply(reply: Reply, kind: string): Reply {
  const { body } = reply;
  if (typeof body !== 'object' || body === null || 'kind' in body) return reply;
  return { ...reply, body: { apiVersion: groupVersion, kind, ...body } };
}

/** Replies of `/api/v1` as objects of the kind; a Status is one already. */
export function typedReplies(replies: Replies, kind: string): Replies {
  return Object.fromEntries(
    Object.entries(replies).map(([code, reply]) => {
      const { schema } = reply;
      if (!(schema instanceof z.ZodObject) || 'kind' in schema.shape) return [code, reply];
      const typed = schema.extend({ apiVersion: z.string(), kind: z.literal(kind) });
      return [code, { ...reply, schema: typed }];
    }),
  );
}
