import { X509Certificate } from 'node:crypto';
import { mkdtemp, readFile, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { parse } from 'yaml';
import { ensureIdentities } from '../../../../src/localcluster/cluster/identities.ts';

const dayMs = 86_400_000;

let state: string;
beforeEach(async () => {
  state = await mkdtemp(join(tmpdir(), 'svc3-identities-'));
});
afterEach(() => rm(state, { recursive: true }));

const read = (file: string): Promise<string> => readFile(join(state, 'pki', file), 'utf8');
const inDays = (days: number): Date => new Date(Date.now() + days * dayMs);

async function everything(): Promise<Record<string, string>> {
  const names = await readdir(join(state, 'pki'));
  return Object.fromEntries(await Promise.all(names.map(async (name) => [name, await read(name)] as const)));
}

test('identities stay for as long as all of them are good', async () => {
  expect(await ensureIdentities(state)).toBe('made');
  const before = await everything();
  expect(await ensureIdentities(state, inDays(330))).toBe('kept');
  expect(await everything()).toEqual(before);
  expect(await readdir(state)).toEqual(['pki']);
});

test('a month before their end all are made anew but the key of the tokens', async () => {
  await ensureIdentities(state);
  const before = await everything();
  expect(await ensureIdentities(state, inDays(340))).toBe('renewed');
  const after = await everything();
  expect(Object.keys(after).toSorted()).toEqual(Object.keys(before).toSorted());
  const same = Object.keys(after).filter((name) => after[name] === before[name]);
  expect(same.toSorted()).toEqual(['sa.key', 'sa.pub']);
  const authority = new X509Certificate(await read('ca.crt'));
  for (const name of Object.keys(after).filter((file) => file.endsWith('.crt')))
    expect(new X509Certificate(await read(name)).verify(authority.publicKey), name).toBe(true);
  const { users } = parse(await read('node1.kubeconfig')) as {
    users: { user: Record<'client-certificate-data', string> }[];
  };
  const shown = Buffer.from(users[0]?.user['client-certificate-data'] ?? '', 'base64').toString();
  expect(shown).toBe(await read('node1.crt'));
  expect(await readdir(state)).toEqual(['pki']);
});

test.each(['ca.crt', 'node3.crt'])('a %s that cannot be read is made anew with all others', async (name) => {
  await ensureIdentities(state);
  const key = await read('sa.key');
  await writeFile(join(state, 'pki', name), '');
  expect(await ensureIdentities(state)).toBe('renewed');
  expect(new X509Certificate(await read(name)).subject).toContain('CN=');
  expect(await read('sa.key')).toBe(key);
});

test('who was killed between the old and the new ones loses no key', async () => {
  await ensureIdentities(state);
  const key = await read('sa.key');
  await rename(join(state, 'pki'), join(state, 'pki.old'));
  expect(await ensureIdentities(state)).toBe('renewed');
  expect(await read('sa.key')).toBe(key);
  expect(await readdir(state)).toEqual(['pki']);
});
