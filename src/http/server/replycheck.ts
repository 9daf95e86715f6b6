import { isDeepStrictEqual } from 'node:util';
import type { Reply, Route } from '../call/route.ts';

/** Looks at a reply before it is sent. */
export type ReplyCheck = (route: Route, reply: Reply) => void;

/**
 * Holds a reply against what the route says of its replies, which is what the OpenAPI document says. For tests and development: it
 * parses every body once more.
 *
 * @throws Error, which is answered as InternalError, that names the route and what differs.
 */
export function checkReply({ id, replies }: Route, { status = 200, body, json, stream, raw }: Reply): void {
  const described = replies[status];
  if (described === undefined) throw new Error(`${id} answers ${status}, which its replies do not have`);
  const { schema } = described;
  if (stream !== undefined || raw !== undefined || schema === undefined) return;
  // As it is on the wire: without members that are undefined.
  const sent: unknown = JSON.parse(json?.toString() ?? JSON.stringify(body));
  const { success, data, error } = schema.safeParse(sent);
  if (!success) throw new Error(`${id} answers ${status} with another body than it says: ${error.message}`);
  // What the schema does not name is left out by it.
  if (!isDeepStrictEqual(data, sent))
    throw new Error(`${id} answers ${status} with fields that its schema does not have`);
}
