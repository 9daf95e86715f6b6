import { isSvc3Error } from '../errors.ts';
import type { KubeObject, Resource, Submitted } from '../api/object.ts';
import type { KubeClient } from './types.ts';

/** No object has it, so a write with it only succeeds where there is no object. */
export const absentVersion = '1';

/** How often the object may go between a look and a write before that is an error. */
const attempts = 5;

/**
 * The object of that name, made where there is none. Of several processes that make it at once one wins, and the others get what
 * the winner made. It is made by server-side apply, which a right on this one name allows: a create has no name that RBAC
 * could ask for.
 */
export async function ensureObject<T extends KubeObject>(
  client: KubeClient,
  resource: Resource<T>,
  { name, namespace }: { readonly name: string; readonly namespace: string },
  make: () => Submitted<T> | Promise<Submitted<T>>,
): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await client.get(resource, name, namespace);
    } catch (error) {
      if (!isSvc3Error(error, 'NotFound')) throw error;
    }
    const made = await make();
    const metadata = { ...made.metadata, name, namespace, resourceVersion: absentVersion };
    try {
      return await client.apply(resource, { ...made, metadata });
    } catch (error) {
      if (attempt >= attempts || !isSvc3Error(error, 'Conflict', 'AlreadyExists')) throw error;
    }
  }
}

/** Tries a read and a write that depends on it again when somebody else has written between the two. */
export async function retryOnConflict<T>(readAndWrite: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1)
    try {
      return await readAndWrite();
    } catch (error) {
      if (attempt >= attempts || !isSvc3Error(error, 'Conflict')) throw error;
    }
}
