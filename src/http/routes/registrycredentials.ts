import { group } from '../../api/meta.ts';
import { removeCredential } from '../../controllers/credential/store.ts';
import { defineRoute } from '../call/route.ts';
import * as schemas from '../../wire/schemas.ts';
import { success } from '../call/status.ts';
import { addCredential, listCredentials, type Verify } from '../../usecases/credential.ts';

const tag = 'Registry credentials';
const collection = '/api/v1/namespaces/{namespace}/secrets/registrycredentials';
/** Cluster administrators only (spec: "Only cluster administrators manage registry credentials"), so cluster-wide. */
const permission = { kind: 'checked', group, resource: 'registrycredentials', scope: 'cluster' } as const;

interface VerifyFields {
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
    return { body: { items: await listCredentials(caller.client, params.namespace) } };
  },
});

function verifyOf({ verify, verifyOnlyPublic }: VerifyFields): Verify {
  if (verify !== true) return 'never';
  return verifyOnlyPublic === true ? 'public' : 'always';
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
    const { caller, params, body, services, signal } = call;
    const environment = { caller: caller.client, login: services.registryLogin };
    const options = { verify: verifyOf(body), signal };
    const { replaced, verdict } = await addCredential(environment, params.namespace, body, options);
    if (verdict?.accepted === false) call.warn(`${body.server}: ${verdict.message}`);
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
