import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { Environment } from '../../../src/cli/environment.ts';
import { Svc3Error } from '../../../src/errors.ts';
import { cachedToken, isRenewalDue, type CachedToken } from '../../../src/cli/tokencache.ts';

const now = new Date('2026-11-01T10:00:00Z');
const until = (minutes: number): string => new Date(now.getTime() + minutes * 60_000).toISOString();

const taken = (_token: string) => Promise.resolve(true);

/** A cache in a folder of its own; tokens are numbered. */
async function cache(minutes: number | undefined) {
  const root = await mkdtemp(join(tmpdir(), 'svc3-tokens-'));
  onTestFinished(() => rm(root, { recursive: true }));
  const environment = {
    variables: { XDG_CACHE_HOME: root },
    home: '/nowhere',
    now: () => now,
  } as unknown as Environment;
  const folder = join(root, 'svc3', 'tokens');
  let issued = 0;
  return {
    folder,
    environment,
    issue: async (key = 'a', isTaken = taken): Promise<string> =>
      (
        await cachedToken(environment, key, {
          isTaken,
          async issue(): Promise<CachedToken> {
            issued += 1;
            const token = `token-${issued}`;
            return minutes === undefined ? { token } : { token, expirationTimestamp: until(minutes) };
          },
        })
      ).token,
  };
}

test('a token is kept while it is good for more than ten minutes, for its key only', async () => {
  const { issue } = await cache(11);
  expect([await issue(), await issue(), await issue('b'), await issue()]).toEqual([
    'token-1',
    'token-1',
    'token-2',
    'token-1',
  ]);
});

test('one that ends within ten minutes is renewed', async () => {
  const { issue } = await cache(10);
  expect([await issue(), await issue()]).toEqual(['token-1', 'token-2']);
});

test.each([
  ['stays where its server is away for a moment', 'ServiceUnavailable', 9, 'token-1'],
  ['is over where its server says so', 'Forbidden', 9, 'Forbidden'],
  ['is over at its end, also while its server is away', 'ServiceUnavailable', -1, 'ServiceUnavailable'],
] as const)('one that ends within ten minutes %s', async (_what, reason, minutes, outcome) => {
  const { issue, environment } = await cache(minutes);
  await issue();
  const issuer = { issue: () => Promise.reject(new Svc3Error(reason, 'no')), isTaken: taken };
  const seen = await cachedToken(environment, 'a', issuer).then(
    ({ token }) => token,
    (error: Svc3Error) => error.reason,
  );
  expect(seen).toBe(outcome);
});

test('one that is not taken any more is replaced, once', async () => {
  const { issue } = await cache(60);
  const asked: string[] = [];
  const isTaken = (token: string) => Promise.resolve(asked.push(token) > 1);
  await issue();
  expect([await issue('a', isTaken), await issue('a', isTaken)]).toEqual(['token-2', 'token-2']);
  expect(asked).toEqual(['token-1', 'token-2']);
});

test('one that is not taken any more is not used while its server is away', async () => {
  const { issue, environment } = await cache(60);
  await issue();
  const away = new Svc3Error('ServiceUnavailable', 'away');
  const issuer = { issue: () => Promise.reject(away), isTaken: () => Promise.resolve(false) };
  await expect(cachedToken(environment, 'a', issuer)).rejects.toBe(away);
});

test('one without an end is not kept', async () => {
  const { issue, folder } = await cache(undefined);
  expect([await issue(), await issue()]).toEqual(['token-1', 'token-2']);
  await expect(readdir(folder)).rejects.toThrow('ENOENT');
});

test('one that cannot be written is used, and asked for once by a process', async () => {
  const { issue, folder } = await cache(11);
  // Also root cannot make a folder below a file.
  await mkdir(join(folder, '..'), { recursive: true });
  await writeFile(folder, '');
  expect([await issue(), await issue(), await issue('b')]).toEqual(['token-1', 'token-1', 'token-2']);
  const replaced = () => Promise.resolve(false);
  expect([await issue('a', replaced), await issue()]).toEqual(['token-3', 'token-3']);
  await rm(folder);
  expect([await issue('a', replaced), await issue()]).toEqual(['token-4', 'token-4']);
  expect(await readdir(folder)).toHaveLength(1);
});

test('it lies in a file that only its owner reads, and whose name says nothing of its key', async () => {
  const { issue, folder } = await cache(60);
  await issue('https://api.example.com alice');
  const [file = ''] = await readdir(folder);
  expect(file).toMatch(/^[0-9a-f]{32}\.json$/);
  expect((await stat(join(folder, file))).mode & 0o777).toBe(0o600);
  expect(await readFile(join(folder, file), 'utf8')).toContain('token-1');
});

test.each([
  '',
  '{',
  'null',
  '[]',
  '{"token":1,"expirationTimestamp":"2999-01-01T00:00:00Z"}',
  '{"token":"a"}',
])('a file that is broken is replaced: %j', async (text) => {
  const { issue, folder } = await cache(60);
  await issue();
  const [file = ''] = await readdir(folder);
  await writeFile(join(folder, file), text);
  expect([await issue(), await issue()]).toEqual(['token-2', 'token-2']);
});

test.each([
  ['of an hour with eleven minutes left', 60, 11, false],
  ['of an hour with ten minutes left', 60, 10, true],
  ['of five minutes with one left', 5, 1, false],
  ['of five minutes with 50 seconds left', 5, 5 / 6, true],
  ['of a day with eleven minutes left', 1440, 11, false],
  ['that has ended', 60, -1, true],
])('a token %s', (_, life, left, isDue) => {
  const exp = now.getTime() / 1000 + left * 60;
  const claims = { iat: exp - life * 60, exp };
  const token = `h.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.s`;
  expect(isRenewalDue(token, now.getTime())).toBe(isDue);
});

test.each(['', 'opaque', 'h.e30.s', 'h.bnVsbA.s', 'h.!.s'])(
  'a token that says no end is not renewed: "%s"',
  (token) => {
    expect(isRenewalDue(token, now.getTime())).toBe(false);
  },
);
