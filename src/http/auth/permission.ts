import { isSvc3Error } from '../../errors.ts';
import { Undecided } from './decisions.ts';
import type { Permission, Route } from '../call/route.ts';
import type { AccessAttributes, Caller } from '../call/caller.ts';

/** What a route's permission asks for one request. */
export function attributesOf(permission: Permission, params: unknown): AccessAttributes | undefined {
  if (permission.kind === 'open' || permission.kind === 'delegated') return undefined;
  const { group, resource, subresource, verb, scope, name } = permission;
  const values = params as Readonly<Record<string, string | undefined>>;
  const namespace = scope === 'namespace' ? values['namespace'] : undefined;
  const objectName = name === undefined ? undefined : values[name];
  return {
    group,
    resource,
    verb,
    ...(subresource === undefined ? {} : { subresource }),
    ...(namespace === undefined ? {} : { namespace }),
    ...(objectName === undefined ? {} : { name: objectName }),
  };
}

/** A native route's own refusals are shown only to who may do the thing. */
export async function refusedFor(
  route: Route,
  params: unknown,
  caller: Caller | undefined,
  error: unknown,
): Promise<unknown> {
  const attributes = attributesOf(route.permission, params);
  if (route.permission.kind !== 'native' || attributes === undefined) return error;
  if (isSvc3Error(error, 'Unauthorized', 'Forbidden')) return error;
  try {
    await caller?.authorize(attributes);
    return error;
  } catch (refusal) {
    return refusal;
  }
}

/**
 * Whether the authorizer lets the caller; a token that is refused is no answer and thrown.
 *
 * @param isFresh - what was decided before does not count
 */
export async function isAllowed(
  caller: Caller,
  attributes: AccessAttributes,
  isFresh?: boolean,
): Promise<boolean> {
  try {
    await caller.authorize(attributes, isFresh);
    return true;
  } catch (error) {
    if (isSvc3Error(error, 'Forbidden')) return false;
    throw error;
  }
}

/** The same of what is only shown: a right that cannot be told now is none for the moment. */
export async function isShown(
  caller: Caller,
  attributes: AccessAttributes,
  isFresh?: boolean,
): Promise<boolean> {
  try {
    return await isAllowed(caller, attributes, isFresh);
  } catch (error) {
    if (error instanceof Undecided) return false;
    throw error;
  }
}
