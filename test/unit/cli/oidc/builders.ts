import type { Issuer } from '../../../../src/cli/oidc/issuer.ts';
import type { IssuerReply } from '../../../../src/cli/oidc/protocol.ts';

export const issuerUrl = 'https://login.example.com';
export const client = { issuerUrl, clientId: 'svc3' };

export const discovery = {
  issuer: issuerUrl,
  token_endpoint: `${issuerUrl}/token`,
  device_authorization_endpoint: `${issuerUrl}/device`,
  scopes_supported: ['openid', 'offline_access', 'email'],
};

export const device = {
  device_code: 'canary-device-code',
  user_code: 'ABCD-EFGH',
  verification_uri: `${issuerUrl}/activate`,
  verification_uri_complete: `${issuerUrl}/activate?user_code=ABCD-EFGH`,
  expires_in: 300,
  interval: 5,
};

export const ok = (value: unknown): IssuerReply => ({ status: 200, value });
export const refused = (error: string, status = 400): IssuerReply => ({
  status,
  value: { error, error_description: 'canary-description' },
});

/** A JWT whose times are seconds since 1970. */
export function aToken(claims: { readonly iat?: number; readonly exp?: number }): string {
  return `h.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.s`;
}

export interface ScriptedIssuer extends Issuer {
  /** Addresses and forms of what was asked, in order. */
  readonly asked: readonly (readonly [url: string, form?: Readonly<Record<string, string>>])[];
}

/** An issuer that answers forms with one reply after the other; an error is thrown. */
export function anIssuer(
  replies: readonly (IssuerReply | Error)[],
  found: unknown = discovery,
): ScriptedIssuer {
  const asked: [string, Readonly<Record<string, string>>?][] = [];
  const left = [...replies];
  return {
    asked,
    get(url) {
      asked.push([url]);
      return Promise.resolve(ok(found));
    },
    post(url, form) {
      asked.push([url, form]);
      const reply = left.shift() ?? new Error('asked more often than expected');
      return reply instanceof Error ? Promise.reject(reply) : Promise.resolve(reply);
    },
    close: () => Promise.resolve(),
  };
}
