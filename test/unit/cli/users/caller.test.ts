import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { callerOf } from '../../../../src/cli/users/caller.ts';
import { createUsers } from '../../../../src/cli/users/users.ts';
import { Svc3Error } from '../../../../src/errors.ts';
import { loadKubeconfig, readPem } from '../../../../src/kube/connection.ts';
import type { KubeClient } from '../../../../src/kube/types.ts';

const pem = (text: string) => Buffer.from(text).toString('base64');

/** A cluster that knows whoever asks by this name. */
function knownAs(username: string) {
  const create = vi.fn<() => Promise<unknown>>().mockResolvedValue({ status: { userInfo: { username } } });
  return { client: { create } as unknown as KubeClient, create };
}

/** What tokens of a kubeconfig are kept by, which has the names that every kubeconfig of a cluster has. */
async function keyOf(
  user: object,
  cluster: object = {},
  { name, client = knownAs('me').client }: { name?: string; client?: KubeClient } = {},
): Promise<string> {
  const kubeconfig = JSON.stringify({
    'current-context': 'admin',
    clusters: [{ name: 'c', cluster: { server: 'https://c', ...cluster } }],
    users: [{ name: 'u', user }],
    contexts: [{ name: 'admin', context: { cluster: 'c', user: 'u' } }],
  });
  const connection = await loadKubeconfig(kubeconfig);
  const users = createUsers({
    client,
    server: connection.server,
    context: 'admin',
    caller: await callerOf(connection, readPem),
    ownBearer: () => Promise.resolve(undefined),
    warning: () => undefined,
  });
  return users.cacheKey(name);
}

const exec = { command: 'login', apiVersion: 'client.authentication.k8s.io/v1' };
const certificate = (text: string) => ({
  'client-certificate-data': pem(text),
  'client-key-data': pem('key'),
});

test.each<[what: string, one: object, other: object]>([
  ['a token', { token: 'one' }, { token: 'two' }],
  ['a file of a token', { tokenFile: '/one' }, { tokenFile: '/two' }],
  ['a certificate', certificate('one'), certificate('two')],
  ['a name', { username: 'one', password: 'x' }, { username: 'two', password: 'x' }],
  ['a plugin', { exec }, { exec: { ...exec, command: 'other' } }],
  [
    'arguments of a plugin',
    { exec: { ...exec, args: ['--as', 'one'] } },
    { exec: { ...exec, args: ['--as', 'two'] } },
  ],
  [
    'the environment of a plugin',
    { exec: { ...exec, env: [{ name: 'WHO', value: 'one' }] } },
    { exec: { ...exec, env: [{ name: 'WHO', value: 'two' }] } },
  ],
  ['another kind of credential', { token: 'one' }, { tokenFile: 'one' }],
])('a kept token is only for who has the same %s', async (_what, one, other) => {
  expect(await keyOf(one)).toBe(await keyOf(one));
  expect(await keyOf(one)).not.toBe(await keyOf(other));
});

test.each<[what: string, user: object]>([
  ['a plugin, which goes by its environment and login', { exec }],
  ['a file, in which another one may be by now', { tokenFile: '/one' }],
])('a kept token is for who the cluster says one is, by %s', async (_what, user) => {
  const of = (username: string) => keyOf(user, {}, { client: knownAs(username).client });
  expect(await of('admin')).toBe(await of('admin'));
  expect(await of('admin')).not.toBe(await of('dev'));
});

test('where nobody says who one is there is no kept token', async () => {
  const away = new Svc3Error('ServiceUnavailable', 'away');
  const { client, create } = knownAs('me');
  create.mockRejectedValue(away);
  await expect(keyOf({ exec }, {}, { client })).rejects.toBe(away);
});

test.each<[what: string, user: object]>([
  ['a token', { token: 'one' }],
  ['a certificate', certificate('one')],
])('nobody is asked whose %s is', async (_what, user) => {
  const { client, create } = knownAs('me');
  await keyOf(user, {}, { client });
  expect(create).not.toHaveBeenCalled();
});

test('a kept token is for one cluster and one person', async () => {
  const of = (authority: string, name?: string) =>
    keyOf(
      { token: 't' },
      { 'certificate-authority-data': pem(authority) },
      name === undefined ? {} : { name },
    );
  expect(new Set([await of('one'), await of('two'), await of('one', 'alice')]).size).toBe(3);
});

test('no secret is in the key of a kept token', async () => {
  for (const user of [
    { token: 'canary' },
    { username: 'me', password: 'canary' },
    { exec: { ...exec, env: [{ name: 'PASSWORD', value: 'canary' }] } },
  ])
    expect(await keyOf(user)).not.toContain('canary');
});

test('a certificate in a file is its content, and one that cannot be read keeps nobody from asking', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'svc3-caller-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const file = join(folder, 'me.pem');
  const user = { 'client-certificate': file, 'client-key-data': pem('key') };
  const keys = [await keyOf(user)];
  for (const text of ['one', 'two']) {
    await writeFile(file, text);
    keys.push(await keyOf(user));
  }
  expect(new Set(keys).size).toBe(3);
});
