import type { Secret } from '../../api/core.ts';
import { finalizer, group, labels, namespaces } from '../../api/meta.ts';
import { allowInsecureRequired, type RegistryCredential } from '../../api/registrycredential.ts';
import { registryCredentials, secrets } from '../../api/resources.ts';
import { parseServer } from '../../credential/registry.ts';
import { Svc3Error, invalidField, isSvc3Error } from '../../errors.ts';
import { registryCredentialItem } from '../../items/registrycredential.ts';
import type { KubeClient } from '../../kube/types.ts';
import { defineRoute, type Call } from '../route.ts';
import * as schemas from '../schemas.ts';
import { success } from '../status.ts';
import { writing } from '../upstream.ts';

const tag = 'Registry credentials';
const collection = '/api/v1/namespaces/{namespace}/secrets/registrycredentials';
/** Cluster administrators only (spec: "Only cluster administrators manage registry credentials"), so cluster-wide. */
const permission = { kind: 'checked', group, resource: 'registrycredentials', scope: 'cluster' } as const;
const fieldNames = {
  'spec.server': 'server',
  'spec.allowInsecure': 'allowInsecure',
  'metadata.name': 'server',
};

interface AddBody {
  readonly server: string;
  readonly username: string;
  readonly password: string;
  readonly allowInsecure?: boolean | undefined;
  readonly replace?: boolean | undefined;
  readonly verify?: boolean | undefined;
}

function decode(data: string | undefined): string {
  return data === undefined ? '' : Buffer.from(data, 'base64').toString('utf8');
}

/** The user name in a basic-auth Secret; one by one, since nobody needs a right to list the Secrets there. */
async function usernameOf(client: KubeClient, secret: string): Promise<string> {
  try {
    const { data } = await client.get(secrets, secret, namespaces.credentials);
    return decode(data?.['username']);
  } catch (error) {
    if (isSvc3Error(error, 'NotFound')) return '';
    throw error;
  }
}

export const listRegistryCredentials = defineRoute({
  id: 'listRegistryCredentials',
  tag,
  method: 'GET',
  path: collection,
  summary: 'List the registry credentials of the namespace, without passwords.',
  params: schemas.namespaceParams,
  query: schemas.nothing,
  body: schemas.nothing,
  bodyKind: 'none',
  replies: { 200: { description: 'The credentials.', schema: schemas.listOf(schemas.registryItem) } },
  permission: { ...permission, verb: 'list' },
  async handler({ params, caller }) {
    const credentials = await caller.client.list(registryCredentials, { namespace: params.namespace });
    const items = await Promise.all(
      credentials.items.map(async (credential) =>
        registryCredentialItem(credential, await usernameOf(caller.client, credential.spec.secretRef.name)),
      ),
    );
    return { body: { items: items.sort((a, b) => (a.server < b.server ? -1 : 1)) } };
  },
});

async function findCredential(
  client: KubeClient,
  name: string,
  namespace: string,
): Promise<RegistryCredential | undefined> {
  try {
    return await client.get(registryCredentials, name, namespace);
  } catch (error) {
    if (isSvc3Error(error, 'NotFound')) return undefined;
    throw error;
  }
}

function alreadyExists(server: string, name: string): Svc3Error {
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
    },
  );
}

/** Writes the Secret with the caller's rights; true if it was not there before. */
async function writeSecret(client: KubeClient, secret: Secret): Promise<boolean> {
  try {
    await client.create(secrets, secret);
    return true;
  } catch (error) {
    if (!isSvc3Error(error, 'AlreadyExists')) throw error;
  }
  const { name = '', namespace = '' } = secret.metadata;
  await client.patch(
    secrets,
    { name, namespace },
    {
      type: 'merge',
      body: { metadata: { labels: secret.metadata.labels }, data: null, stringData: secret.stringData },
    },
    { fieldManager: 'svc3-api' },
  );
  return false;
}

async function writeCredential(
  client: KubeClient,
  credential: RegistryCredential,
  exists: boolean,
): Promise<void> {
  if (!exists) {
    await writing(() => client.create(registryCredentials, credential), fieldNames);
    return;
  }
  const { name = '', namespace = '' } = credential.metadata;
  await writing(
    () =>
      client.patch(
        registryCredentials,
        { name, namespace },
        { type: 'merge', body: { spec: credential.spec } },
        { fieldManager: 'svc3-api' },
      ),
    fieldNames,
  );
}

async function add(call: Call<{ namespace: string }, unknown, AddBody>): Promise<boolean> {
  const { params, body, caller } = call;
  const { name, scheme, server } = parseServer(body.server);
  if (scheme === 'http' && body.allowInsecure !== true)
    throw invalidField('allowInsecure', allowInsecureRequired);
  const existing = await findCredential(caller.client, name, params.namespace);
  if (existing?.metadata.deletionTimestamp !== undefined)
    throw new Svc3Error('Conflict', `the credential for ${body.server} is being removed, try again`);
  if (existing !== undefined && body.replace !== true) throw alreadyExists(body.server, name);
  const secretName = `${params.namespace}.${name}`;
  const made = await writeSecret(caller.client, {
    metadata: {
      name: secretName,
      namespace: namespaces.credentials,
      labels: { [labels.managed]: 'true', [labels.partOf]: 'svc3' },
    },
    type: 'kubernetes.io/basic-auth',
    stringData: { username: body.username, password: body.password },
  });
  try {
    await writeCredential(
      caller.client,
      {
        metadata: { name, namespace: params.namespace, finalizers: [finalizer] },
        spec: {
          server,
          allowInsecure: body.allowInsecure ?? false,
          secretRef: { name: secretName },
        },
      },
      existing !== undefined,
    );
  } catch (error) {
    if (made)
      await caller.client
        .delete(secrets, { name: secretName, namespace: namespaces.credentials })
        .catch(() => undefined);
    throw isSvc3Error(error, 'AlreadyExists') ? alreadyExists(body.server, name) : error;
  }
  return existing !== undefined;
}

async function verify(call: Call<{ namespace: string }, unknown, AddBody>): Promise<void> {
  const { server, username, password, allowInsecure = false } = call.body;
  const { outcome, message } = await call.services
    .registryLogin({ server, username, password, allowInsecure, signal: call.signal })
    .catch(() => ({ outcome: 'Unreachable' as const, message: 'the registry could not be asked' }));
  if (outcome !== 'Accepted') call.warn(`${server}: ${message}`);
}

export const addRegistryCredential = defineRoute({
  id: 'addRegistryCredential',
  tag,
  method: 'POST',
  path: `${collection}/add`,
  summary: 'Add or replace the credential of a registry.',
  params: schemas.namespaceParams,
  query: schemas.nothing,
  body: schemas.registryAddBody,
  bodyKind: 'json',
  replies: {
    200: { description: 'The stored credential was replaced.', schema: schemas.status },
    201: { description: 'The credential was added.', schema: schemas.status },
    409: { description: 'There is one, and replace is not true.', schema: schemas.status },
  },
  permission: { ...permission, verb: 'create' },
  example: { server: 'https://registry.example.com', username: 'robot', password: '…' },
  async handler(call) {
    const replaced = await add(call);
    if (call.body.verify === true) await verify(call);
    const code = replaced ? 200 : 201;
    return {
      status: code,
      body: success(`the credential for ${call.body.server} was ${replaced ? 'replaced' : 'added'}`, code),
    };
  },
});

export const removeRegistryCredential = defineRoute({
  id: 'removeRegistryCredential',
  tag,
  method: 'DELETE',
  path: `${collection}/remove`,
  summary: 'Remove the credential of a registry.',
  params: schemas.namespaceParams,
  query: schemas.nothing,
  body: schemas.registryRemoveBody,
  bodyKind: 'json',
  replies: { 200: { description: 'The credential was removed.', schema: schemas.status } },
  permission: { ...permission, verb: 'delete' },
  example: { server: 'https://registry.example.com' },
  async handler({ params, body, caller }) {
    const { name } = parseServer(body.server);
    try {
      await caller.client.delete(registryCredentials, { name, namespace: params.namespace });
    } catch (error) {
      if (!isSvc3Error(error, 'NotFound')) throw error;
      throw new Svc3Error('NotFound', `there is no credential for ${body.server} in this namespace`, {
        details: {
          group,
          kind: 'registrycredentials',
          name,
          causes: [{ field: 'server', message: 'has no credential' }],
        },
        cause: error,
      });
    }
    return { body: success(`the credential for ${body.server} was removed`) };
  },
});
