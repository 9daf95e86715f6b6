import { group } from '../../api/meta.ts';
import { registryCredentials } from '../../api/resources.ts';
import {
  removeCredential,
  storeCredential,
  usernameOf,
  type StoreRequest,
} from '../../controllers/credential/store.ts';
import { registryCredentialItem } from '../../wire/registrycredential.ts';
import { defineRoute, type Call } from '../server/route.ts';
import * as schemas from '../../wire/schemas.ts';
import { success } from '../server/status.ts';
import { writing } from '../../usecases/writing.ts';

const tag = 'Registry credentials';
const collection = '/api/v1/namespaces/{namespace}/secrets/registrycredentials';
/** Cluster administrators only (spec: "Only cluster administrators manage registry credentials"), so cluster-wide. */
const permission = { kind: 'checked', group, resource: 'registrycredentials', scope: 'cluster' } as const;
const fieldNames = {
  'spec.server': 'server',
  'spec.allowInsecure': 'allowInsecure',
  'metadata.name': 'server',
};

interface AddBody extends StoreRequest {
  readonly verify?: boolean | undefined;
  readonly verifyOnlyPublic?: boolean | undefined;
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
        registryCredentialItem(credential, await usernameOf(caller.client, credential)),
      ),
    );
    return { body: { items: items.sort((a, b) => (a.server < b.server ? -1 : 1)) } };
  },
});

async function verify(call: Call<{ namespace: string }, unknown, AddBody>): Promise<void> {
  const {
    server,
    username,
    password,
    allowInsecure = false,
    verifyOnlyPublic: onlyPublic = false,
  } = call.body;
  const { outcome, message } = await call.services
    .registryLogin({ server, username, password, allowInsecure, onlyPublic, signal: call.signal })
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
    const { caller, params, body } = call;
    const { replaced } = await writing(
      () => storeCredential(caller.client, params.namespace, body),
      fieldNames,
    );
    if (body.verify === true) await verify(call);
    const what = `the credential for ${body.server} was`;
    return replaced
      ? { body: success(`${what} replaced`) }
      : { status: 201, body: success(`${what} added`, 201) };
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
    await removeCredential(caller.client, params.namespace, body.server);
    return { body: success(`the credential for ${body.server} was removed`) };
  },
});
