import { finalizer, group, labels, namespaces } from '../../../api/meta.ts';
import { allowInsecureRequired, type RegistryCredential } from '../../../api/registrycredential.ts';
import { registryCredentials, secrets, selfSubjectAccessReviews } from '../../../api/resources.ts';
import type { Secret, SelfSubjectAccessReview } from '../../../api/core.ts';
import { verifyLogin } from '../../../credential/login.ts';
import { parseServer } from '../../../credential/registry.ts';
import { invalidField, isSvc3Error, Svc3Error } from '../../../errors.ts';
import { registryCredentialItem } from '../../../items/registrycredential.ts';
import type { KubeClient } from '../../../kube/types.ts';
import type { RegistryCredentialRequest, RegistryCredentials, Verdict } from '../types.ts';

export function createRegistryCredentials(client: KubeClient): RegistryCredentials {
  return {
    async list(namespace) {
      await requireAdministrator(client, 'list');
      const { items } = await client.list(registryCredentials, { namespace });
      const shown = await Promise.all(
        items.map(async (each) => registryCredentialItem(each, await usernameOf(client, each))),
      );
      return shown.sort((a, b) => (a.server < b.server ? -1 : 1));
    },
    async add(namespace, request, options) {
      const { name, scheme, server } = parseServer(request.server);
      if (scheme === 'http' && request.allowInsecure !== true)
        throw invalidField('allowInsecure', allowInsecureRequired);
      await requireAdministrator(client, 'create');
      const added = await add(client, { namespace, name, server }, request);
      return options.verify ? { ...added, verdict: await verify(request) } : added;
    },
    async remove(namespace, server) {
      const { name } = parseServer(server);
      await requireAdministrator(client, 'delete');
      try {
        await client.delete(registryCredentials, { name, namespace });
      } catch (error) {
        if (!isSvc3Error(error, 'NotFound')) throw error;
        throw new Svc3Error('NotFound', `there is no credential for ${server} in this namespace`, {
          cause: error,
        });
      }
    },
  };
}

/** One login from here; a registry that only the cluster can reach is not refused for that. */
async function verify({ allowInsecure = false, ...request }: RegistryCredentialRequest): Promise<Verdict> {
  const { outcome, message } = await verifyLogin({ ...request, allowInsecure });
  return { accepted: outcome === 'Accepted', message };
}

/** Only cluster administrators manage registry credentials, which also holds for reading (spec: rule 3). */
async function requireAdministrator(client: KubeClient, verb: string): Promise<void> {
  const spec = { resourceAttributes: { group, resource: 'registrycredentials', verb } };
  const review: SelfSubjectAccessReview = await client.create(selfSubjectAccessReviews, { spec });
  if (review.status?.allowed === true) return;
  throw new Svc3Error('Forbidden', 'only cluster administrators manage registry credentials');
}

async function usernameOf(client: KubeClient, credential: RegistryCredential): Promise<string> {
  try {
    const secret = await client.get(secrets, credential.spec.secretRef.name, namespaces.credentials);
    return Buffer.from(secret.data?.['username'] ?? '', 'base64').toString('utf8');
  } catch (error) {
    if (isSvc3Error(error, 'NotFound', 'Forbidden')) return '';
    throw error;
  }
}

/**
 * The Secret goes first, then the object that names it. A dry run of the object comes before both, so that nothing is
 * written where kube-apiserver would refuse it.
 */
interface Identity {
  readonly namespace: string;
  readonly name: string;
  readonly server: string;
}

async function add(client: KubeClient, identity: Identity, request: RegistryCredentialRequest) {
  const { namespace, name, server } = identity;
  const secretName = `${namespace}.${name}`;
  const spec = {
    server,
    allowInsecure: request.allowInsecure ?? false,
    secretRef: { name: secretName },
  };
  const object: RegistryCredential = { metadata: { name, namespace, finalizers: [finalizer] }, spec };
  const before = await existing(client, namespace, name);
  if (before?.metadata.deletionTimestamp !== undefined) {
    throw new Svc3Error('Conflict', `the credential for ${request.server} is being removed, try again`);
  }
  if (before !== undefined && request.replace !== true) throw alreadyStored(request.server);
  if (before === undefined) {
    await client.create(registryCredentials, object, { dryRun: true });
  } else {
    await client.apply(registryCredentials, object, { dryRun: true });
  }
  await client.apply(secrets, basicAuthSecret(secretName, request));
  if (before !== undefined) {
    await client.apply(registryCredentials, object);
    return { replaced: true };
  }
  try {
    await client.create(registryCredentials, object);
  } catch (error) {
    if (isSvc3Error(error, 'AlreadyExists')) throw alreadyStored(request.server, error);
    await client.delete(secrets, { name: secretName, namespace: namespaces.credentials });
    throw error;
  }
  return { replaced: false };
}

async function existing(
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

function basicAuthSecret(name: string, { username, password }: RegistryCredentialRequest): Secret {
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

function alreadyStored(server: string, cause?: unknown): Svc3Error {
  return new Svc3Error(
    'AlreadyExists',
    `a credential for ${server} already exists in this namespace; use replace to overwrite it`,
    { cause },
  );
}
