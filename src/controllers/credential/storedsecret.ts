import type { Secret } from '../../api/core.ts';
import { annotations, labels, namespaces } from '../../api/meta.ts';
import { registryCredentials, secrets } from '../../api/resources.ts';
import { isSvc3Error } from '../../errors.ts';
import type { KubeClient } from '../../kube/types.ts';
import { basicAuthType } from './basicauth.ts';
import type { Submitted } from '../../api/object.ts';

/** Name of the basic-auth Secret that `storeCredential` writes for the credential `name` of a namespace. */
export function storedSecretName(namespace: string, name: string): string {
  return `${namespace}.${name}`;
}

/** The Secret that `storeCredential` writes; the label lets the operator delete it. */
export function basicAuthSecret(
  name: string,
  { username, password }: { readonly username: string; readonly password: string },
): Submitted<Secret> {
  const encoded = (text: string) => Buffer.from(text, 'utf8').toString('base64');
  return {
    metadata: {
      name,
      namespace: namespaces.credentials,
      labels: { [labels.managed]: 'true', [labels.partOf]: 'svc3' },
    },
    type: basicAuthType,
    data: { username: encoded(username), password: encoded(password) },
  };
}

/** Creates it; undefined where there is one of that name. */
export async function createSecret(
  client: KubeClient,
  secret: Submitted<Secret>,
): Promise<Secret | undefined> {
  try {
    return await client.create(secrets, secret);
  } catch (error) {
    if (isSvc3Error(error, 'AlreadyExists')) return undefined;
    throw error;
  }
}

/** Creates, or overwrites exactly the version that was seen; undefined where somebody was faster. */
export async function writeOver(
  client: KubeClient,
  secret: Submitted<Secret>,
  seen: Secret | undefined,
): Promise<Secret | undefined> {
  if (seen === undefined) return createSecret(client, secret);
  const { uid, resourceVersion } = seen.metadata;
  const metadata = { ...secret.metadata, namespace: namespaces.credentials, uid, resourceVersion };
  try {
    return await client.replace(secrets, { ...secret, metadata });
  } catch (error) {
    if (isSvc3Error(error, 'Conflict', 'NotFound')) return undefined;
    throw error;
  }
}

/** Whether nobody has written it since; false where there is no other. */
export function isSameVersion(one: Secret, other: Secret | undefined): boolean {
  return (
    one.metadata.uid === other?.metadata.uid &&
    one.metadata.resourceVersion === other?.metadata.resourceVersion
  );
}

/** Deletes this version of it: one that somebody has written since stays. */
export async function deleteUnchanged(client: KubeClient, { metadata }: Secret): Promise<void> {
  const { name, namespace, uid, resourceVersion } = metadata;
  try {
    await client.delete(secrets, { name, namespace }, { uid, resourceVersion });
  } catch (error) {
    if (!isSvc3Error(error, 'Conflict', 'NotFound')) throw error;
  }
}

/**
 * Deletes the Secret of a credential that was looked for and is not there: `storeCredential` was cut off before it made the object. One that somebody
 * else made stays, and so does one that a credential names by now, of whatever namespace.
 *
 * The Secret is written before it is looked for these: a store that is under way and makes its object after the look finds that its own write is not
 * the last one, and writes the Secret again; one that has made it before is seen.
 *
 * @param of - the credential that is not there
 * @returns whether there was one, and it is deleted
 */
export async function deleteLeftSecret(
  client: KubeClient,
  of: { readonly namespace: string; readonly name: string },
): Promise<boolean> {
  const name = storedSecretName(of.namespace, of.name);
  const found = await visible(client.get(secrets, name, namespaces.credentials));
  if (found?.type !== basicAuthType || found.metadata.labels?.[labels.managed] !== 'true') return false;
  const marked = await writeOver(client, ofCredential(found, ''), found);
  if (marked === undefined) return false;
  const { items } = await client.list(registryCredentials, {});
  const isUsed = items.some(
    ({ metadata, spec }) =>
      spec.secretRef.name === name || (metadata.namespace === of.namespace && metadata.name === of.name),
  );
  if (isUsed) return false;
  await deleteUnchanged(client, marked);
  return true;
}

/** Undefined where it is not there, and where whoever asks may not see it. */
async function visible<T>(looking: Promise<T>): Promise<T | undefined> {
  try {
    return await looking;
  } catch (error) {
    if (isSvc3Error(error, 'NotFound', 'Forbidden')) return undefined;
    throw error;
  }
}

/** The Secret with a note of the credential that it is for, by UID. */
export function ofCredential(secret: Submitted<Secret>, uid: string): Submitted<Secret> {
  return { ...secret, metadata: { ...secret.metadata, annotations: { [annotations.credentialUid]: uid } } };
}
