import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { clusterRoleBindings } from '../../../src/api/resources.ts';
import { withFileLock } from '../../../src/cli/filelock.ts';
import { createClient, type RootClient } from '../../../src/kube/client.ts';
import { loadKubeconfig } from '../../../src/kube/connection.ts';
import { startTestApi, type TestApi } from '../../support/api.ts';
import { ownControlPlane, type OwnControlPlane } from '../../support/controlplane.ts';
import { installDefinitions } from '../../support/definitions.ts';
import { startOidcIssuer, type TestIssuer } from '../../support/oidcissuer.ts';
import { processesThatHaveOpen } from '../../support/processes.ts';
import { svc3Program } from './process.ts';

let issuer: TestIssuer;
let controlPlane: OwnControlPlane;
let client: RootClient;
let api: TestApi;
const { svc3, home } = svc3Program({});

beforeAll(async () => {
  issuer = await startOidcIssuer(['alice', 'bob']);
  controlPlane = await ownControlPlane({
    components: [],
    apiServerFlags: [
      `--oidc-issuer-url=${issuer.url}`,
      `--oidc-client-id=${issuer.clientId}`,
      `--oidc-ca-file=${issuer.caFile}`,
      '--oidc-username-claim=sub',
      '--oidc-username-prefix=oidc:',
    ],
  });
  client = createClient(await loadKubeconfig(controlPlane.kubeconfigPath));
  await installDefinitions(client);
  await client.create(clusterRoleBindings, {
    metadata: { name: 'alice' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
    subjects: [{ kind: 'User', apiGroup: 'rbac.authorization.k8s.io', name: 'oidc:alice' }],
  });
  api = await startTestApi(client, ({ settings }) => ({
    settings: { ...settings, oidc: { issuerUrl: issuer.url, clientId: issuer.clientId } },
  }));
  await writeFile(join(home, 'api.pem'), api.tls.cert);
}, 600_000);

afterAll(async () => {
  await api?.close();
  await client?.close();
  await controlPlane?.remove();
  await issuer?.stop();
});

interface Saved {
  readonly token: string;
  readonly refreshToken: string;
}
const file = () => join(home, '.config/svc3/config.json');
const saved = async () => JSON.parse(await readFile(file(), 'utf8')) as Saved;
const ended = `h.${Buffer.from(JSON.stringify({ exp: 1 })).toString('base64url')}.s`;
const letItEnd = async (change: Partial<Saved> = {}) =>
  writeFile(file(), JSON.stringify({ ...(await saved()), token: ended, ...change }));

const loginWords = () => {
  const apiCa = ['--ca-file', join(home, 'api.pem')];
  return ['login', api.baseUrl, ...apiCa, '--oidc', '--oidc-ca-file', issuer.caFile];
};

/** `svc3 login --oidc`, while somebody with a browser answers. */
async function login(user: string, action: 'allowed' | 'denied' = 'allowed', more: readonly string[] = []) {
  let answering: Promise<void> | undefined;
  const run = await svc3([...loginWords(), ...more], {
    onStderr(text) {
      const [, code] = /enter the code (\S+)\n/.exec(text) ?? [];
      if (code !== undefined) answering ??= issuer.answer(code, user, action);
    },
  });
  await answering;
  return run;
}

const list = () => svc3(['vm', 'list', '-n', 'default', '-o', 'json']);

describe('with a cluster that has an OpenID issuer', () => {
  test('the api tells everybody which, and 404 where there is none', async () => {
    expect(await api.call('GET', '/api/v1/oidc')).toMatchObject({
      status: 200,
      json: { issuerUrl: issuer.url, clientId: issuer.clientId },
    });
    const bare = await startTestApi(client);
    try {
      const { status, json } = await bare.call('GET', '/api/v1/oidc');
      expect([status, json.kind, json.reason]).toEqual([404, 'Status', 'NotFound']);
    } finally {
      await bare.close();
    }
  });

  test('its user logs in with a code, and is who the issuer says', async () => {
    const { code, stdout, stderr } = await login('alice');
    expect([code, stdout]).toEqual([0, `Logged in to ${api.baseUrl} (svc3 3.0.0)\n`]);
    expect(stderr).toContain(`Open ${issuer.url}/device in a browser`);
    const { token, refreshToken } = await saved();
    expect(stderr).not.toContain(token);
    expect(stderr).not.toContain(refreshToken);
    expect((await stat(file())).mode & 0o777).toBe(0o600);
    expect(await list()).toEqual({ code: 0, stdout: '[]\n', stderr: '' });
    const who = await client.request<{ status: { user: { username: string } } }>({
      method: 'POST',
      path: '/apis/authentication.k8s.io/v1/tokenreviews',
      body: { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenReview', spec: { token } },
    });
    expect(who.body.status.user.username).toBe('oidc:alice');
  });

  test('processes that renew at once all go on, and so do those after them', async () => {
    const before = await saved();
    await letItEnd();
    // They begin while the file is held, so that all of them have read the token that has ended.
    const lock = `${file()}.lock`;
    const running = await withFileLock(lock, async () => {
      const begun = [list(), list(), list()];
      await expect.poll(() => processesThatHaveOpen(lock)).toBe(3);
      return begun;
    });
    const runs = await Promise.all(running);
    expect(runs).toEqual(Array.from({ length: 3 }, () => ({ code: 0, stdout: '[]\n', stderr: '' })));
    const first = await saved();
    expect(first.refreshToken).not.toBe(before.refreshToken);
    await letItEnd();
    expect(await list()).toMatchObject({ code: 0, stderr: '' });
    const second = await saved();
    expect(new Set([before, first, second].map(({ refreshToken }) => refreshToken)).size).toBe(3);
    expect(second.token).not.toBe(ended);
    expect((await stat(file())).mode & 0o777).toBe(0o600);
  });

  test('a refresh token that is spent ends the login, and nothing quotes it', async () => {
    const { refreshToken, token } = await saved();
    await letItEnd({ refreshToken: 'canary-spent' });
    const run = await list();
    expect(run).toMatchObject({ code: 4, stdout: '' });
    expect(run.stderr).toMatch(
      /^svc3: the login has ended and cannot be renewed: .*; run svc3 login again: svc3 login \S+ --oidc\n$/,
    );
    expect(run.stderr).not.toContain('canary');
    await letItEnd({ refreshToken, token });
  });

  test('who has no rights is logged in all the same, and told so', async () => {
    expect(await login('bob')).toMatchObject({ code: 0 });
    expect(await list()).toMatchObject({ code: 5, stdout: '' });
  });

  test('a login that its user denies saves nothing', async () => {
    const before = await saved();
    expect(await login('alice', 'denied')).toMatchObject({
      code: 5,
      stdout: '',
      stderr: expect.stringContaining('svc3: the login was refused in the browser; nothing was saved\n'),
    });
    expect(await saved()).toEqual(before);
  });

  test('Ctrl-C ends the waiting', async () => {
    const abort = new AbortController();
    const run = await svc3(loginWords(), {
      signal: abort.signal,
      onStderr: (text) => text.includes('enter the code') && abort.abort(),
    });
    expect(run).toMatchObject({ code: 130, stdout: '' });
  });

  test.each([
    ['a client that the issuer does not know', ['--oidc-client-id', 'never'], 2, 'refuses client never'],
    [
      'an issuer that calls itself otherwise',
      ['--oidc-client-id', 'svc3', '--oidc-issuer-url', 'SLASH'],
      8,
      'must be exactly the same',
    ],
  ] as const)('%s is named', async (_, words, code, why) => {
    const more = words.map((word) => (word === 'SLASH' ? `${issuer.url}/` : word));
    const run = await login('alice', 'allowed', more);
    expect([run.code, run.stderr]).toEqual([code, expect.stringContaining(why)]);
  });

  test('an issuer whose certificate nobody knows is not spoken to', async () => {
    const run = await svc3(['login', api.baseUrl, '--ca-file', join(home, 'api.pem'), '--oidc']);
    expect([run.code, run.stderr]).toEqual([
      8,
      expect.stringMatching(/^svc3: cannot reach https:\/\/127.*--oidc-ca-file FILE\n$/),
    ]);
  });
});
