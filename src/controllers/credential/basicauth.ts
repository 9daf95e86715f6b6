import type { Secret } from '../../api/core.ts';
import { namespaces } from '../../api/meta.ts';

export const basicAuthType = 'kubernetes.io/basic-auth';

/** What stands in a basic-auth Secret, or why it cannot be used: a sentence without any of its values. */
export type BasicAuth =
  | { readonly kind: 'login'; readonly username: string; readonly password: string }
  | {
      readonly kind: 'problem';
      readonly reason: 'SecretNotFound' | 'SecretInvalid';
      readonly message: string;
    };

/** Reads a Secret of `svc3-credentials`; `undefined` is one that does not exist. */
export function readBasicAuth(name: string, secret: Secret | undefined): BasicAuth {
  const where = `Secret ${namespaces.credentials}/${name}`;
  if (secret === undefined)
    return { kind: 'problem', reason: 'SecretNotFound', message: `${where} does not exist` };
  const invalid = (why: string): BasicAuth => ({
    kind: 'problem',
    reason: 'SecretInvalid',
    message: `${where} ${why}`,
  });
  if (secret.type !== basicAuthType)
    return invalid(`is of type ${secret.type ?? 'Opaque'}, not ${basicAuthType}`);
  const username = textOf(secret.data?.['username']);
  const password = textOf(secret.data?.['password']);
  if (username === undefined || password === undefined)
    return invalid(`holds a ${username === undefined ? 'username' : 'password'} that is not UTF-8 text`);
  if (username === '') return invalid('has no username');
  if (password === '') return invalid('has no password');
  if (username.includes(':'))
    return invalid('has a colon in the username, which basic authentication cannot carry');
  // RFC 7617 forbids them; nearly always it is the line break at the end of a file.
  const bad = [username, password].findIndex((text) => /\p{Cc}/u.test(text));
  if (bad !== -1)
    return invalid(
      `has a line break or other control character in the ${bad === 0 ? 'username' : 'password'}`,
    );
  return { kind: 'login', username, password };
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Base64 of UTF-8 as text; `undefined` where it is not UTF-8. */
function textOf(base64: string | undefined): string | undefined {
  try {
    return utf8.decode(Uint8Array.fromBase64(base64 ?? ''));
  } catch {
    return undefined;
  }
}
