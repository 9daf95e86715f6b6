import { setTimeout as sleep } from 'node:timers/promises';
import type { Secret } from '../../api/core.ts';
import { annotations, finalizer, group, labels, namespaces } from '../../api/meta.ts';
import { allowInsecureRequired, type RegistryCredential } from '../../api/registrycredential.ts';
import { registryCredentials, secrets } from '../../api/resources.ts';
import { Svc3Error, ifFound, invalidField, isSvc3Error } from '../../errors.ts';
import type { Submitted } from '../../api/object.ts';
import type { KubeClient, WriteOptions } from '../../kube/types.ts';
import { parseServer } from '../../registry/identity.ts';
import {
  basicAuthSecret,
  createSecret,
  deleteLeftSecret,
  deleteUnchanged,
  isSameVersion,
  ofCredential,
  storedSecretName,
  writeOver,
} from './storedsecret.ts';

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

/**
 * How long a credential that is being removed is waited for, in milliseconds: to remove and to add are often two lines of
 * one script, and the operator takes a moment.
 */
const removalMs = 10_000;
const lookMs = 50;

/** How often a store is begun again after others wrote in between. */
const mostAttempts = 5;

interface Wanted {
  readonly request: StoreRequest;
  readonly object: Submitted<RegistryCredential>;
  readonly secret: Submitted<Secret>;
}

/**
 * Adds or replaces. Of several that add at the same time the one whose object is created has added: nobody else's write changes
 * the Secret then, and no password is replaced without `replace`. Each write of a Secret holds user name and password both.
 *
 * @throws AlreadyExists where there is one and `replace` is not true; Conflict where it is still being removed after
 * `timeoutMs`, or was removed meanwhile
 */
export async function storeCredential(
  client: KubeClient,
  namespace: string,
  request: StoreRequest,
  timeoutMs = removalMs,
): Promise<{ readonly replaced: boolean }> {
  checkStoreRequest(request);
  const wanted = wantedBy(namespace, request);
  for (let attempt = 1; ; attempt += 1)
    try {
      return await storeOnce(client, wanted, timeoutMs);
    } catch (error) {
      if (!(error instanceof Overtaken) || attempt >= mostAttempts) throw error;
    }
}

function wantedBy(namespace: string, request: StoreRequest): Wanted {
  const { name, server } = parseServer(request.server);
  const secretName = storedSecretName(namespace, name);
  return {
    request,
    object: {
      metadata: { name, namespace, finalizers: [finalizer] },
      spec: { server, allowInsecure: request.allowInsecure ?? false, secretRef: { name: secretName } },
    },
    secret: basicAuthSecret(secretName, request),
  };
}

/** A dry run of the object comes before all, so that nothing is written where kube-apiserver would refuse it. */
async function storeOnce(
  client: KubeClient,
  wanted: Wanted,
  timeoutMs: number,
): Promise<{ readonly replaced: boolean }> {
  const { request, object } = wanted;
  const before = await findUnlessGoing(client, object, timeoutMs);
  if (before?.metadata.deletionTimestamp !== undefined)
    throw new Svc3Error('Conflict', `the credential for ${request.server} is being removed, try again`);
  if (before === undefined) {
    await createObject(client, wanted, { dryRun: true });
    await add(client, wanted);
    return { replaced: false };
  }
  if (request.replace !== true) throw alreadyStored(request.server, object.metadata.name);
  await replace(client, wanted, before.metadata.uid);
  return { replaced: true };
}

/** Overwrites Secret and object of the credential that was seen, and of no other. */
async function replace(client: KubeClient, { request, object, secret }: Wanted, uid: string): Promise<void> {
  const same = { ...object, metadata: { ...object.metadata, uid } };
  try {
    await client.apply(registryCredentials, same, { dryRun: true });
    await client.apply(secrets, ofCredential(secret, uid));
    await client.apply(registryCredentials, same);
  } catch (error) {
    if (isSvc3Error(error, 'Conflict', 'NotFound')) throw new Overtaken(request.server, error);
    throw error;
  }
}

/**
 * The Secret is created before the object, so that nobody sees an object without one. Where there is a Secret already, whether
 * another add is under way or one was cut off before its object, the object alone decides.
 */
async function add(client: KubeClient, wanted: Wanted): Promise<void> {
  const { request, secret } = wanted;
  const mine = await createSecret(client, secret);
  if (mine === undefined && request.replace !== true) await refuseForeign(client, wanted);
  let object: RegistryCredential;
  try {
    object = await createObject(client, wanted, {});
  } catch (error) {
    if (mine !== undefined) await takeBack(client, wanted, mine, error);
    throw error;
  }
  await keepSecret(client, wanted, object.metadata.uid, mine);
}

async function createObject(
  client: KubeClient,
  { request, object }: Wanted,
  options: WriteOptions,
): Promise<RegistryCredential> {
  try {
    return await client.create(registryCredentials, object, options);
  } catch (error) {
    if (!isSvc3Error(error, 'AlreadyExists')) throw error;
    throw request.replace === true
      ? new Overtaken(request.server, error)
      : alreadyStored(request.server, object.metadata.name, error);
  }
}

/** A Secret that somebody else made is theirs, also where no credential names it yet. */
async function refuseForeign(client: KubeClient, { secret, request, object }: Wanted): Promise<void> {
  const { name, namespace } = secret.metadata;
  const found = await ifFound(client.get(secrets, name, namespace));
  if (found === undefined || found.metadata.labels?.[labels.managed] === 'true') return;
  throw alreadyStored(
    request.server,
    object.metadata.name,
    undefined,
    `Secret ${namespace}/${name} already exists and is not svc3's`,
  );
}

/**
 * Deletes the Secret that was made for an object that could not be, unless it has another owner by now. When it is not known
 * whether the object was made, it is looked for: where there is one, it names this Secret.
 */
async function takeBack(client: KubeClient, wanted: Wanted, mine: Secret, why: unknown): Promise<void> {
  const isRefused = isSvc3Error(why, 'AlreadyExists') || why instanceof Overtaken;
  if (!isRefused && (await find(client, wanted.object)) !== undefined) return;
  await deleteUnchanged(client, mine);
}

/** Sees to it that the Secret is this credential's: others may have written theirs, and may take it back, before they learn that they lost. */
async function keepSecret(
  client: KubeClient,
  { request, object, secret }: Wanted,
  uid: string,
  written: Secret | undefined,
): Promise<void> {
  const { name, namespace } = secret.metadata;
  let mine = written;
  for (let attempt = 1; attempt <= mostAttempts; attempt += 1) {
    const found = await ifFound(client.get(secrets, name, namespace));
    const isOwn = found?.metadata.annotations?.[annotations.credentialUid] === uid;
    if (found !== undefined && (isOwn || isSameVersion(found, mine))) return;
    mine = await writeOver(client, ofCredential(secret, uid), found);
    if (mine === undefined) continue;
    const holder = await find(client, object);
    if (holder?.metadata.uid === uid && holder.metadata.deletionTimestamp === undefined) return;
    // It was removed, and whoever removed its Secret may have done so before this one was there.
    await deleteUnchanged(client, mine);
    break;
  }
  throw new Svc3Error('Conflict', `the credential for ${request.server} was changed meanwhile, try again`);
}

/** Somebody else wrote in between: what was seen does not hold any more. */
class Overtaken extends Svc3Error {
  constructor(server: string, cause: unknown) {
    super('Conflict', `the credential for ${server} was changed meanwhile, try again`, { cause });
  }
}

/**
 * Its Secret is removed by the operator. Where there is only a Secret, left by an add that was cut off before its object, that is removed.
 *
 * @throws NotFound, naming `server`
 */
export async function removeCredential(client: KubeClient, namespace: string, server: string): Promise<void> {
  const { name } = parseServer(server);
  try {
    await client.delete(registryCredentials, { name, namespace });
  } catch (error) {
    if (!isSvc3Error(error, 'NotFound')) throw error;
    if (await deleteLeftSecret(client, { namespace, name })) return;
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
  object: Submitted<RegistryCredential>,
  timeoutMs: number,
): Promise<RegistryCredential | undefined> {
  const until = performance.now() + timeoutMs;
  for (;;) {
    const found = await find(client, object);
    if (found?.metadata.deletionTimestamp === undefined || performance.now() >= until) return found;
    await sleep(lookMs);
  }
}

/** As it is now. */
function find(
  client: KubeClient,
  { metadata: { name, namespace } }: Submitted<RegistryCredential>,
): Promise<RegistryCredential | undefined> {
  return ifFound(client.get(registryCredentials, name, namespace));
}

function alreadyStored(
  server: string,
  name: string,
  cause?: unknown,
  what = `a credential for ${server} already exists in this namespace`,
): Svc3Error {
  return new Svc3Error('AlreadyExists', `${what}; use replace to overwrite it`, {
    details: {
      group,
      kind: 'registrycredentials',
      name,
      causes: [{ field: 'replace', message: 'must be true to overwrite the stored credential' }],
    },
    cause,
  });
}
