import type * as z from 'zod';
import { validate } from '../../wire/fields.ts';
import type { JsonValue } from '../../wire/fields.ts';
import { requireTaken } from '../uploads/multipart.ts';
import { attributesOf, refusedFor } from '../auth/permission.ts';
import type { Call, Reply, Route } from '../call/route.ts';

export interface Arguments {
  readonly params: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: Readonly<Record<string, unknown>>;
}

/** The call of a route with these arguments, authorised and validated as if it had come over the wire. */
export async function callFor<P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType>(
  outer: Call<unknown, unknown, unknown>,
  route: Route<P, Q, B>,
  given: Arguments,
): Promise<Call<z.output<P>, z.output<Q>, z.output<B>>> {
  const params = validate(route.params, { ...given.params }, 'path', () => undefined);
  const attributes = attributesOf(route.permission, params);
  if (attributes !== undefined && route.permission.kind === 'checked')
    await outer.caller.authorize(attributes);
  if (outer.upload !== undefined && route.takes !== undefined) requireTaken(route.takes, outer.upload);
  const query = validate(route.query, { ...given.query }, 'query', outer.warn);
  const json = given.body === undefined ? undefined : (JSON.parse(JSON.stringify(given.body)) as JsonValue);
  const body = validate(route.body, route.bodyKind === 'json' ? json : {}, 'body', outer.warn);
  return { ...outer, params, query, body };
}

/** Runs something of a route in its name: refusals of a native route are shown only to who may do it. */
export async function inNameOf<T>(
  outer: Call<unknown, unknown, unknown>,
  route: Route,
  params: Readonly<Record<string, string>>,
  run: () => Promise<T> | T,
): Promise<T> {
  try {
    return await run();
  } catch (error) {
    throw await refusedFor(route, params, outer.caller, error);
  }
}

/** Runs a route inside another one, with its own rights and schemas. */
export function invoke(
  outer: Call<unknown, unknown, unknown>,
  route: Route,
  given: Arguments,
): Promise<Reply> {
  return inNameOf(outer, route, given.params, async () => route.handler(await callFor(outer, route, given)));
}
