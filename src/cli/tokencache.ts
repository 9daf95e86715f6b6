import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { isPassing } from '../errors.ts';
import { writePrivate } from './config.ts';
import type { Environment } from './environment.ts';

/** One without an expiry is not kept. */
export interface CachedToken {
  readonly token: string;
  readonly expirationTimestamp?: string;
}

/** Where a token comes from. */
export interface TokenIssuer {
  issue(): Promise<CachedToken>;
  /** Whether one that is kept is still taken; it may have been withdrawn, or its cluster made anew. */
  isTaken(token: string): Promise<boolean>;
}

/** Set for credential plugins that this program starts: one that is this program again would never end. */
export const insidePlugin = 'SVC3_INSIDE_PLUGIN';

/** A token is renewed this long before it ends: a sixth of the hour that a user's token has. */
const renewBeforeMs = 10 * 60_000;

/** By the file that they could not be written to: good for this process all the same. */
const unwritten = new Map<string, CachedToken>();

/**
 * The token kept for `key` while it is good for a while and is taken, else a new one, kept in a file of its owner only; where that cannot be
 * written, by this process. While nobody can issue one for the moment, the old one until its end.
 */
export async function cachedToken(
  environment: Environment,
  key: string,
  { issue, isTaken }: TokenIssuer,
): Promise<CachedToken> {
  const { variables, home } = environment;
  const root = variables['XDG_CACHE_HOME'] ?? '';
  const name = createHash('sha256').update(key).digest('hex').slice(0, 32);
  const file = path.join(root === '' ? path.join(home, '.cache') : root, 'svc3', 'tokens', `${name}.json`);
  const kept = unwritten.get(file) ?? (await readToken(file));
  const leftMs = Date.parse(kept?.expirationTimestamp ?? '') - environment.now().getTime();
  const isLong = leftMs > renewBeforeMs;
  if (kept !== undefined && isLong && (await isTaken(kept.token))) return kept;
  try {
    const fresh = await issue();
    if (fresh.expirationTimestamp !== undefined) await keep(file, fresh);
    return fresh;
  } catch (error) {
    if (kept === undefined || isLong || leftMs <= 0 || !isPassing(error)) throw error;
    return kept;
  }
}

async function keep(file: string, token: CachedToken): Promise<void> {
  try {
    await writePrivate(file, JSON.stringify(token));
    unwritten.delete(file);
  } catch {
    unwritten.set(file, token);
  }
}

/** When a token ends, in milliseconds since 1970; never, where it does not say so. Nothing of it is checked: who takes it does that. */
export function endOf(token: string): number {
  const { exp } = claimsOf(token);
  return typeof exp === 'number' ? exp * 1000 : Number.POSITIVE_INFINITY;
}

/**
 * Whether a token is to be renewed: in the last sixth of its life, which is `renewBeforeMs` at most. ID tokens of some issuers live
 * for five minutes.
 */
export function isRenewalDue(token: string, nowMs: number): boolean {
  const { iat } = claimsOf(token);
  const end = endOf(token);
  const sixthMs = typeof iat === 'number' ? (end - iat * 1000) / 6 : renewBeforeMs;
  return end - nowMs <= Math.min(sixthMs, renewBeforeMs);
}

function claimsOf(token: string): { readonly exp?: unknown; readonly iat?: unknown } {
  try {
    const claims: unknown = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString('utf8'));
    return typeof claims === 'object' && claims !== null ? claims : {};
  } catch {
    return {};
  }
}

async function readToken(file: string): Promise<CachedToken | undefined> {
  try {
    const value: unknown = JSON.parse(await readFile(file, 'utf8'));
    if (typeof value !== 'object' || value === null) return undefined;
    const [token, expirationTimestamp]: unknown[] = [
      Reflect.get(value, 'token'),
      Reflect.get(value, 'expirationTimestamp'),
    ];
    return typeof token === 'string' && typeof expirationTimestamp === 'string'
      ? { token, expirationTimestamp }
      : undefined;
  } catch {
    // No file, or a broken one: a new token takes its place.
    return undefined;
  }
}
