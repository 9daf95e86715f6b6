import { serviceAccounts } from '../../api/resources.ts';
import { defineRoute } from '../call/route.ts';
import * as schemas from '../../wire/schemas.ts';
import { success } from '../call/status.ts';
import {
  createServiceAccount as createAccount,
  listServiceAccounts as listAccounts,
} from '../../usecases/serviceaccount.ts';
import { issueToken } from '../../usecases/token.ts';

const tag = 'Service accounts';
const collection = '/api/v1/namespaces/{namespace}/serviceaccounts';
const one = `${collection}/{serviceaccount}`;
const permission = { kind: 'native', group: '', resource: 'serviceaccounts', scope: 'namespace' } as const;

export const listServiceAccounts = defineRoute({
  id: 'listServiceAccounts',
  tag,
  method: 'GET',
  path: collection,
  summary: 'List the service accounts of the namespace.',
  params: schemas.namespaceParams,
  query: schemas.nothing,
  body: schemas.nothing,
  bodyKind: 'none',
  replies: {
    200: { description: 'The service accounts.', schema: schemas.listOf(schemas.serviceAccountItem) },
  },
  permission: { ...permission, verb: 'list' },
  async handler({ params, caller }) {
    return { body: { items: await listAccounts(caller.client, params.namespace) } };
  },
});

export const createServiceAccount = defineRoute({
  id: 'createServiceAccount',
  tag,
  method: 'POST',
  path: one,
  summary: 'Create a service account, and bind it a role in its namespace.',
  params: schemas.serviceAccountParams,
  query: schemas.nothing,
  body: schemas.serviceAccountBody,
  bodyKind: 'json',
  replies: { 201: { description: 'The service account exists.', schema: schemas.status } },
  permission: { ...permission, verb: 'create' },
  async handler({ params: { namespace, serviceaccount: name }, body, caller, warn }) {
    const role = await createAccount(caller.client, { namespace, name, role: body?.role }, warn);
    const rights = role === 'none' ? 'without a role' : `with role ${role}`;
    return { status: 201, body: success(`service account ${name} was created ${rights}`, 201) };
  },
});

export const deleteServiceAccount = defineRoute({
  id: 'deleteServiceAccount',
  tag,
  method: 'DELETE',
  path: one,
  summary: 'Delete a service account; its tokens end at once.',
  params: schemas.serviceAccountParams,
  query: schemas.nothing,
  body: schemas.nothing,
  bodyKind: 'none',
  replies: { 200: { description: 'The service account is gone.', schema: schemas.status } },
  permission: { ...permission, verb: 'delete', name: 'serviceaccount' },
  async handler({ params, caller }) {
    await caller.client.delete(serviceAccounts, { name: params.serviceaccount, namespace: params.namespace });
    return { body: success(`service account ${params.serviceaccount} was deleted`) };
  },
});

export const createServiceAccountToken = defineRoute({
  id: 'createServiceAccountToken',
  tag,
  method: 'POST',
  path: `${one}/token`,
  summary: 'Issue a token for a service account: one year, or a custom duration.',
  params: schemas.serviceAccountParams,
  query: schemas.nothing,
  body: schemas.tokenBody,
  bodyKind: 'json',
  replies: { 200: { description: 'The token and when it really ends.', schema: schemas.tokenReply } },
  permission: { ...permission, subresource: 'token', verb: 'create', name: 'serviceaccount' },
  example: { duration: '720h' },
  async handler({ params, body, caller, warn }) {
    const { serviceaccount: name, namespace } = params;
    const requested = {
      duration: body?.duration,
      expirationSeconds: body?.expirationSeconds ?? body?.spec?.expirationSeconds,
      audiences: body?.audiences ?? body?.spec?.audiences,
    };
    return { body: await issueToken({ caller: caller.client, warn }, { namespace, name }, requested) };
  },
});
