import type { TokenRequest } from '../api/core.ts';
import { limits } from '../api/meta.ts';
import { invalidField, Svc3Error } from '../errors.ts';
import type { KubeClient } from '../kube/types.ts';
import { parseDuration } from '../wire/duration.ts';
import type { IssuedToken } from '../wire/schemas.ts';
import { writing } from './writing.ts';

export interface TokenEnvironment {
  /** Whose right it is to have the account's tokens issued. */
  readonly caller: KubeClient;
  /** Hears that a token lives shorter than was asked for. */
  warn(text: string): void;
}

/** How long a token is to live and for whom; a year where nothing is said (spec: "Limits"). */
export interface TokenOptions {
  /** `720h`, `1h30m`, `30d` or plain seconds; goes before `expirationSeconds`. */
  readonly duration?: string | undefined;
  readonly expirationSeconds?: number | undefined;
  /** Undefined: kube-apiserver. */
  readonly audiences?: readonly string[] | undefined;
}

/** What kube-apiserver gives at least, in seconds. */
const shortest = 600;
/** What it can be asked for at most, in seconds: 136 years. */
const longest = 2 ** 32;

/**
 * Issues a token of a ServiceAccount; when it ends is kube-apiserver's word, which may be sooner than was asked for.
 *
 * @throws Svc3Error Invalid that names the field of the request, NotFound of the account
 */
export async function issueToken(
  { caller, warn }: TokenEnvironment,
  { namespace, name }: { readonly namespace: string; readonly name: string },
  { duration, expirationSeconds = limits.serviceAccountTokenSeconds, audiences }: TokenOptions,
): Promise<IssuedToken> {
  const seconds = duration === undefined ? expirationSeconds : secondsOf(duration);
  const { body } = await writing(
    () =>
      caller.request<TokenRequest>({
        method: 'POST',
        path: `/api/v1/namespaces/${encodeURIComponent(namespace)}/serviceaccounts/${encodeURIComponent(name)}/token`,
        body: {
          apiVersion: 'authentication.k8s.io/v1',
          kind: 'TokenRequest',
          spec: { expirationSeconds: seconds, ...(audiences === undefined ? {} : { audiences }) },
        },
        onWarning: warn,
      }),
    { 'spec.expirationSeconds': duration === undefined ? 'expirationSeconds' : 'duration' },
  );
  const { token, expirationTimestamp } = body.status ?? {};
  if (token === undefined || expirationTimestamp === undefined)
    throw new Svc3Error('BadGateway', 'kube-apiserver answered a TokenRequest without a token');
  return { token, expirationTimestamp };
}

function secondsOf(duration: string): number {
  const seconds = parseDuration(duration, 'duration');
  if (seconds < shortest) throw invalidField('duration', 'must be at least 10 minutes');
  if (seconds > longest) throw invalidField('duration', 'must be less than 136 years');
  return seconds;
}
