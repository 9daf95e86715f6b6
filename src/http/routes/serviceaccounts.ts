import type { TokenRequest } from '../../api/core.ts';
import { limits } from '../../api/meta.ts';
import { serviceAccounts } from '../../api/resources.ts';
import { Svc3Error, invalidField } from '../../errors.ts';
import { parseDuration } from '../../wire/duration.ts';
import { defineRoute } from '../server/route.ts';
import * as schemas from '../../wire/schemas.ts';
import { success } from '../server/status.ts';
import { createServiceAccount as createAccount } from '../../usecases/serviceaccount.ts';
import { writing } from '../../usecases/writing.ts';

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
    const { items } = await caller.client.list(serviceAccounts, {
      namespace: params.namespace,
      // An account may have a megabyte of annotations, and many may be listed at the same time.
      pageSize: 50,
      transform: ({
        metadata: { annotations: _annotations, managedFields: _managedFields, ...metadata },
      }) => ({ metadata }),
    });
    return {
      body: {
        items: items.map(({ metadata }) => ({
          name: metadata.name,
          createdAt: metadata.creationTimestamp ?? '',
        })),
      },
    };
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

interface TokenBody {
  readonly duration?: string | undefined;
  readonly expirationSeconds?: number | undefined;
  readonly spec?: { readonly expirationSeconds?: number | undefined } | undefined;
}

/** The requested lifetime and the field that says it; one year where nothing is said (spec: "Limits"). */
function lifetime(body: TokenBody | undefined): { seconds: number; field: string } {
  if (body?.duration !== undefined) {
    const seconds = parseDuration(body.duration, 'duration');
    if (seconds < 600) throw invalidField('duration', 'must be at least 10 minutes');
    if (seconds > 4_294_967_296) throw invalidField('duration', 'must be less than 136 years');
    return { seconds, field: 'duration' };
  }
  const seconds =
    body?.expirationSeconds ?? body?.spec?.expirationSeconds ?? limits.serviceAccountTokenSeconds;
  return { seconds, field: 'expirationSeconds' };
}

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
    const { seconds, field } = lifetime(body);
    const audiences = body?.audiences ?? body?.spec?.audiences;
    const path = `/api/v1/namespaces/${encodeURIComponent(params.namespace)}/serviceaccounts/${encodeURIComponent(params.serviceaccount)}/token`;
    const { body: reply } = await writing(
      () =>
        caller.client.request<TokenRequest>({
          method: 'POST',
          path,
          body: {
            apiVersion: 'authentication.k8s.io/v1',
            kind: 'TokenRequest',
            spec: { expirationSeconds: seconds, ...(audiences === undefined ? {} : { audiences }) },
          },
          onWarning: warn,
        }),
      { 'spec.expirationSeconds': field },
    );
    const { token, expirationTimestamp } = reply.status ?? {};
    if (token === undefined || expirationTimestamp === undefined)
      throw new Svc3Error('BadGateway', 'kube-apiserver returned no token');
    return { body: { token, expirationTimestamp } };
  },
});
