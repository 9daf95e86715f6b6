import { Svc3Error } from '../../errors.ts';
import { defineRoute } from '../call/route.ts';
import * as schemas from '../../wire/schemas.ts';

/** For callers that have no token yet: both values are public. */
export const getOidcClient = defineRoute({
  id: 'getOidcClient',
  tag: 'Cluster',
  method: 'GET',
  path: '/api/v1/oidc',
  summary: 'Say with which client of which OpenID issuer people log in.',
  params: schemas.nothing,
  query: schemas.nothing,
  body: schemas.nothing,
  bodyKind: 'none',
  replies: { 200: { description: 'Issuer and client.', schema: schemas.oidcClient } },
  permission: { kind: 'open' },
  handler({ services }) {
    const { oidc } = services.settings;
    if (oidc === undefined)
      throw new Svc3Error('NotFound', 'this installation names no OpenID issuer (chart value api.oidc)');
    return { body: oidc };
  },
});
