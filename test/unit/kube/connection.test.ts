import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { inClusterConnection, loadKubeconfig } from '../../../src/kube/connection.ts';

const folder = mkdtempSync(path.join(tmpdir(), 'svc3-kubeconfig-'));
afterAll(() => rmSync(folder, { recursive: true }));

function kubeconfig({
  user = '{token: abc}',
  cluster = '{server: "https://host:6443/"}',
  current = 'c',
} = {}): string {
  return `
current-context: ${current}
clusters: [{name: k, cluster: ${cluster}}]
users: [{name: u, user: ${user}}]
contexts: [{name: c, context: {cluster: k, user: u, namespace: ns}}, {name: bare, context: {cluster: k}}]
`;
}

describe('a kubeconfig', () => {
  test('gives server, namespace and credential of its current context', async () => {
    expect(await loadKubeconfig(kubeconfig())).toEqual({
      server: 'https://host:6443',
      namespace: 'ns',
      context: 'c',
      auth: { kind: 'token', token: 'abc' },
    });
  });

  test('gives another context when asked, also one without a user', async () => {
    expect(await loadKubeconfig(kubeconfig(), 'bare')).toMatchObject({
      context: 'bare',
      auth: { kind: 'none' },
    });
  });

  test('names its files relative to itself and keeps embedded ones as text', async () => {
    const file = path.join(folder, 'config');
    const pem = Buffer.from('PEM').toString('base64');
    writeFileSync(
      file,
      kubeconfig({
        cluster: '{server: "https://h", certificate-authority: ca.crt, tls-server-name: sni}',
        user: `{client-certificate-data: ${pem}, client-key: key.pem}`,
      }),
    );
    expect(await loadKubeconfig(file)).toMatchObject({
      ca: { file: path.join(folder, 'ca.crt') },
      tlsServerName: 'sni',
      clientCertificate: { cert: { pem: 'PEM' }, key: { file: path.join(folder, 'key.pem') } },
    });
  });

  test('may be several files, of which the first that names a thing wins and missing ones do not matter', async () => {
    const [one, other] = [path.join(folder, 'one'), path.join(folder, 'other')];
    writeFileSync(one, 'users: [{name: u, user: {token: first}}]\n');
    writeFileSync(other, kubeconfig({ user: '{token: second}' }));
    expect(
      await loadKubeconfig([one, path.join(folder, 'missing'), other].join(path.delimiter)),
    ).toMatchObject({ auth: { token: 'first' } });
  });

  test('with an exec plugin keeps command, arguments and environment', async () => {
    const user =
      '{exec: {apiVersion: client.authentication.k8s.io/v1, command: ./plugin, args: [a], env: [{name: X, value: y}], installHint: get it}}';
    const { auth } = await loadKubeconfig(kubeconfig({ user }), { environment: { PATH: '/bin' } });
    expect(auth).toMatchObject({
      kind: 'exec',
      environment: { PATH: '/bin' },
      plugin: { args: ['a'], env: { X: 'y' }, installHint: 'get it' },
    });
  });

  test.each([
    ['as', '{token: abc, as: alice, as-groups: [team]}'],
    ['as-uid', '{token: abc, as-uid: 7}'],
    ['as-groups', '{token: abc, as: "", as-groups: [team]}'],
    ['as-user-extra', '{token: abc, as-user-extra: {scopes: [view]}}'],
  ])('whose user acts as another one by %s is refused', async (key, user) => {
    await expect(loadKubeconfig(kubeconfig({ user }))).rejects.toMatchObject({
      reason: 'BadRequest',
      message: `${key} of the kubeconfig is not supported: use a context whose user has a credential of its own`,
    });
  });

  test('that names nobody else to act as is that of its user', async () => {
    const user = '{token: abc, as: "", as-uid: "", as-groups: [], as-user-extra: {}}';
    expect(await loadKubeconfig(kubeconfig({ user }))).toMatchObject({ auth: { token: 'abc' } });
  });

  test.each([
    [
      'a context that it does not have',
      kubeconfig({ current: 'nowhere' }),
      'the kubeconfig has no context "nowhere"',
    ],
    ['no server', kubeconfig({ cluster: '{}' }), 'cluster "k" of the kubeconfig has no server'],
    [
      'an old auth-provider',
      kubeconfig({ user: '{auth-provider: {name: oidc}}' }),
      'auth-provider "oidc" of the kubeconfig is not supported: use an exec plugin',
    ],
    ['broken YAML', 'token: "secret\nb: [', 'the kubeconfig is not valid YAML'],
    ['a file that is not there', '/nowhere/config', 'kubeconfig /nowhere/config cannot be read'],
  ])('with %s is refused in one sentence', async (_what, source, message) => {
    await expect(loadKubeconfig(source)).rejects.toMatchObject({ reason: 'BadRequest', message });
  });
});

test('a pod’s connection takes address and files from the kubelet, also over IPv6', () => {
  expect(inClusterConnection({ host: 'fd00::1', port: '443' })).toEqual({
    server: 'https://[fd00::1]:443',
    ca: { file: '/var/run/secrets/kubernetes.io/serviceaccount/ca.crt' },
    auth: { kind: 'tokenFile', file: '/var/run/secrets/kubernetes.io/serviceaccount/token' },
  });
});
