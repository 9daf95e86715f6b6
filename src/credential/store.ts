import { setTimeout as sleep } from 'node:timers/promises';
import type { Secret } from '../api/core.ts';
import { finalizer, group, labels, namespaces } from '../api/meta.ts';
import { allowInsecureRequired, type RegistryCredential } from '../api/registrycredential.ts';
import { registryCredentials, secrets } from '../api/resources.ts';
import { Svc3Error, invalidField, isSvc3Error } from '../errors.ts';
import type { KubeClient } from '../kube/types.ts';
import { parseServer } from './registry.ts';

/** Writing credentials with the rights of whoever adds or removes them: the same for HTTP and CLI. */
export interface StoreRequest {
  readonly server: string;
  readonly username: string;
  readonly password: string;
  readonly allowInsecure?: boolean | undefined;
  /** Overwrites a stored credential. */
  readonly replace?: boolean | undefined;
}

/** What of a request is wrong by itself. @throws Invalid, naming the field */
export function checkStoreRequest({ server, allowInsecure }: StoreRequest): void {
  if (parseServer(server).scheme === 'http' && allowInsecure !== true)
    throw invalidField('allowInsecure', allowInsecureRequired);
}

/** Name of the basic-auth Secret that `storeCredential` writes for the credential `name` of a namespace. */
export function storedSecretName(namespace: string, name: string): string {
  return `${namespace}.${name}`;
}

/**
 * How long a credential that is being removed is waited for, in milliseconds: to remove and to add are often two lines of
 * one script, and the operator takes a moment.
 */
const removalMs = 10_000;
const lookMs = 50;

/**
 * The Secret goes first, then the object that names it. A dry run of the object comes before both, so that nothing is
 * written where kube-apiserver would refuse it.
 *
 * @throws AlreadyExists where there is one and `replace` is not true; Conflict where it is still being removed after `patienceMs`
 */
export async function storeCredential(
  client: KubeClient,
  namespace: string,
  request: StoreRequest,
  patienceMs = removalMs,
): Promise<{ readonly replaced: boolean }> {
  checkStoreRequest(request);
  const { name, server } = parseServer(request.server);
  const secretName = storedSecretName(namespace, name);
  const object: RegistryCredential = {
    metadata: { name, namespace, finalizers: [finalizer] },
    spec: { server, allowInsecure: request.allowInsecure ?? false, secretRef: { name: secretName } },
  };
  const before = await findUnlessGoing(client, { namespace, name }, patienceMs);
  if (before?.metadata.deletionTimestamp !== undefined)
    throw new Svc3Error('Conflict', `the credential for ${request.server} is being removed, try again`);
  if (before !== undefined && request.replace !== true) throw alreadyStored(request.server, name);
  if (before === undefined) await client.create(registryCredentials, object, { dryRun: true });
  else await client.apply(registryCredentials, object, { dryRun: true });
  await client.apply(secrets, basicAuthSecret(secretName, request));
  if (before !== undefined) {
    await client.apply(registryCredentials, object);
    return { replaced: true };
  }
  try {
    await client.create(registryCredentials, object);
  } catch (error) {
    if (isSvc3Error(error, 'AlreadyExists')) throw alreadyStored(request.server, name, error);
    await client.delete(secrets, { name: secretName, namespace: namespaces.credentials });
    throw error;
  }
  return { replaced: false };
}

/** Its Secret is removed by the operator. @throws NotFound, naming `server` */
export async function removeCredential(client: KubeClient, namespace: string, server: string): Promise<void> {
  const { name } = parseServer(server);
  try {
    await client.delete(registryCredentials, { name, namespace });
  } catch (error) {
    if (!isSvc3Error(error, 'NotFound')) throw error;
    throw new Svc3Error('NotFound', `there is no credential for ${server} in this namespace`, {
      details: {
        group,
        kind: 'registrycredentials',
        name,
        causes: [{ field: 'server', message: 'has no credential' }],
      },
      cause: error,
    });
  }
}

/** The user name in a credential's Secret, one by one: nobody needs a right to list Secrets. Empty where it cannot be seen. */
export async function usernameOf(client: KubeClient, { spec }: RegistryCredential): Promise<string> {
  try {
    const { data } = await client.get(secrets, spec.secretRef.name, namespaces.credentials);
    return Buffer.from(data?.['username'] ?? '', 'base64').toString('utf8');
  } catch (error) {
    if (isSvc3Error(error, 'NotFound', 'Forbidden')) return '';
    throw error;
  }
}

/** One that is being removed only where it is still there after the time. */
async function findUnlessGoing(
  client: KubeClient,
  { namespace, name }: { namespace: string; name: string },
  patienceMs: number,
): Promise<RegistryCredential | undefined> {
  const until = performance.now() + patienceMs;
  for (;;) {
    const found = await find(client, namespace, name);
    if (found?.metadata.deletionTimestamp === undefined || performance.now() >= until) return found;
    await sleep(lookMs);
  }
}

async function find(
  client: KubeClient,
  namespace: string,
  name: string,
): Promise<RegistryCredential | undefined> {
  try {
    return await client.get(registryCredentials, name, namespace);
  } catch (error) {
    if (isSvc3Error(error, 'NotFound')) return undefined;
    throw error;
  }
}

function basicAuthSecret(name: string, { username, password }: StoreRequest): Secret {
  const encoded = (text: string) => Buffer.from(text, 'utf8').toString('base64');
  return {
    metadata: {
      name,
      namespace: namespaces.credentials,
      labels: { [labels.managed]: 'true', [labels.partOf]: 'svc3' },
    },
    type: 'kubernetes.io/basic-auth',
    data: { username: encoded(username), password: encoded(password) },
  };
}

function alreadyStored(server: string, name: string, cause?: unknown): Svc3Error {
  return new Svc3Error(
    'AlreadyExists',
    `a credential for ${server} already exists in this namespace; use replace to overwrite it`,
    {
      details: {
        group,
        kind: 'registrycredentials',
        name,
        causes: [{ field: 'replace', message: 'must be true to overwrite the stored credential' }],
      },
      cause,
    },
  );
}
