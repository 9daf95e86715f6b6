import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { stringify } from 'yaml';
import type { PolicyRule } from '../../../src/api/core.ts';
import { namespaces, objectNames } from '../../../src/api/meta.ts';
import {
  namespaces as namespaceResource,
  registryCredentials,
  roleBindings,
  roles,
  secrets,
  typeMeta,
} from '../../../src/api/resources.ts';
import { verifyLogin } from '../../../src/controllers/credential/login.ts';
import { createClient, type RootClient } from '../../../src/kube/client.ts';
import { loadKubeconfig } from '../../../src/kube/connection.ts';
import { startTestApi, type TestApi } from '../../support/api.ts';
import { identity, tokenOf } from '../../support/identity.ts';
import { ensureTools, ownControlPlane, type OwnControlPlane } from '../../support/controlplane.ts';
import { helmTemplate } from '../chart/helm.ts';
import { svc3Program } from '../cli/process.ts';
import {
  basicAuth,
  credential,
  findCredential,
  published,
  pullSecretOf,
  readyReason,
  startOperator,
  type TestOperator,
} from './harness.ts';

const execute = promisify(execFile);
const soon = { timeout: 60_000, interval: 50 };
const team = 'team-a';
const canary = 'canary-of-identities';
const stored = 'https://stored.example.com';
const onlyAdministrators = /only cluster administrators manage registry credentials/;

let controlPlane: OwnControlPlane;
let admin: RootClient;
let asOperator: RootClient;
let operator: TestOperator;
let api: TestApi;
let kubectlPath: string;
const { svc3 } = svc3Program({});
const people: Record<string, { token: string; kubeconfig: string }> = {};

async function person(name: string, token: string): Promise<void> {
  const kubeconfig = join(controlPlane.dir, `${name}.kubeconfig`);
  const cluster = {
    server: controlPlane.server,
    'certificate-authority-data': Buffer.from(controlPlane.caPem).toString('base64'),
  };
  const text = stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'svc3', cluster }],
    users: [{ name, user: { token } }],
    contexts: [{ name: 'svc3', context: { cluster: 'svc3', user: name, namespace: team } }],
    'current-context': 'svc3',
  });
  await writeFile(kubeconfig, text, { mode: 0o600 });
  people[name] = { token, kubeconfig };
}

/** `ok`, or what kubectl said. */
async function kubectl(name: string, ...words: string[]): Promise<string> {
  const { kubeconfig = controlPlane.kubeconfigPath } = people[name] ?? {};
  try {
    await execute(kubectlPath, ['--kubeconfig', kubeconfig, ...words]);
    return 'ok';
  } catch (error) {
    return (error as { stderr: string }).stderr;
  }
}

async function manifest(name: string, object: object): Promise<string> {
  const path = join(controlPlane.dir, `${name}.json`);
  await writeFile(path, JSON.stringify(object));
  return path;
}

/** What somebody gives by mistake: everything with registry credentials, in one namespace. */
const mistake: PolicyRule[] = [{ apiGroups: ['svc3.dev'], resources: ['registrycredentials'], verbs: ['*'] }];

async function makePeople(): Promise<void> {
  const home = { namespace: 'people' };
  await admin.create(namespaceResource, { metadata: { name: home.namespace } });
  await person(
    'clusteradmin',
    await identity(admin, 'clusteradmin', { ...home, clusterRole: 'cluster-admin' }),
  );
  for (const role of ['admin', 'edit', 'view'])
    await person(role, await identity(admin, role, { ...home, role, in: team }));
  await person('mistaken', await identity(admin, 'mistaken', { ...home, role: 'admin', in: team }));
  const delegated = await identity(admin, 'delegated', { ...home, clusterRole: 'svc3-cluster-admin' });
  await person('delegated', delegated);
  await admin.create(roleBindings, {
    metadata: { name: 'delegated', namespace: namespaces.credentials },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'svc3-credentials-admin' },
    subjects: [{ kind: 'ServiceAccount', name: 'delegated', namespace: home.namespace }],
  });
  await admin.create(roles, { metadata: { name: 'mistake', namespace: team }, rules: mistake });
  await admin.create(roleBindings, {
    metadata: { name: 'mistake', namespace: team },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'mistake' },
    subjects: [{ kind: 'ServiceAccount', name: 'mistaken', namespace: home.namespace }],
  });
}

beforeAll(async () => {
  controlPlane = await ownControlPlane({ components: ['kube-controller-manager'], audit: 'Metadata' });
  kubectlPath = (await ensureTools('controlplane')).path('kubectl');
  admin = createClient(await loadKubeconfig(controlPlane.kubeconfigPath));
  await admin.create(namespaceResource, { metadata: { name: namespaces.system } });
  await admin.create(namespaceResource, { metadata: { name: team } });
  const chart = join(controlPlane.dir, 'chart.yaml');
  await writeFile(chart, await helmTemplate('--no-hooks', '--set=aggregatedApi.enabled=false'));
  expect(await kubectl('root', 'apply', '--server-side', '-f', chart)).toBe('ok');
  expect(await kubectl('root', 'wait', '--for=condition=Established', '--all', 'crd')).toBe('ok');
  await makePeople();
  const { server, caPem } = controlPlane;
  const token = await tokenOf(admin, namespaces.system, objectNames.operatorServiceAccount);
  asOperator = createClient({ server, ca: { pem: caPem }, auth: { kind: 'token', token } });
  operator = await startOperator(asOperator);
  api = await startTestApi(admin, { registryLogin: verifyLogin });
  const first = credential(team, stored);
  await admin.create(secrets, basicAuth(first.spec.secretRef.name, 'robot', canary));
  await admin.create(registryCredentials, first);
  await vi.waitFor(async () => expect(await readyReason(admin, team, stored)).toBe('Published'), soon);
  // The authorizer's caches learn of the roles, the admission plugin of the policies.
  const probe = await manifest('probe', {
    ...typeMeta(registryCredentials),
    ...credential(team, 'https://probe.example.com'),
  });
  const isRefused = async () =>
    expect(await kubectl('mistaken', 'create', '--dry-run=server', '-f', probe)).toMatch(onlyAdministrators);
  await vi.waitFor(isRefused, soon);
});

afterAll(async () => {
  await api?.close();
  await operator?.stop();
  await asOperator?.close();
  await admin?.close();
  await controlPlane?.remove();
});

const refusedByRole = /cannot \w+ resource "registrycredentials" in API group "svc3.dev"/;

const administrators = [
  { who: 'clusteradmin', what: 'a cluster administrator' },
  { who: 'delegated', what: 'somebody with the roles svc3-cluster-admin and svc3-credentials-admin' },
];

describe('through kubectl', () => {
  const server = 'https://kubectl.example.com';
  const { name } = credential(team, server).metadata;
  const storedName = credential(team, stored).metadata.name ?? '';

  test.each(administrators)('$what lists, adds, replaces and removes', async ({ who }) => {
    const path = await manifest(`by-${who}`, {
      ...typeMeta(registryCredentials),
      ...credential(team, server),
    });
    expect(await kubectl(who, 'create', '-f', path)).toBe('ok');
    expect(await kubectl(who, 'get', 'registrycredentials')).toBe('ok');
    const patch = JSON.stringify({ spec: { secretRef: { name: 'another' } } });
    expect(await kubectl(who, 'patch', 'regcred', name, '--type=merge', '-p', patch)).toBe('ok');
    expect(await kubectl(who, 'delete', 'regcred', name)).toBe('ok');
  });

  test.each([
    { who: 'admin', what: 'a namespace administrator' },
    { who: 'edit', what: 'an editor' },
    { who: 'view', what: 'a viewer' },
  ])('$what does none of it', async ({ who }) => {
    const path = await manifest(`by-${who}`, {
      ...typeMeta(registryCredentials),
      ...credential(team, server),
    });
    const patch = JSON.stringify({ spec: { secretRef: { name: 'another' } } });
    const attempts = await Promise.all([
      kubectl(who, 'get', 'registrycredentials'),
      kubectl(who, 'get', 'regcred', storedName, '-o', 'yaml'),
      kubectl(who, 'create', '-f', path),
      kubectl(who, 'patch', 'regcred', storedName, '--type=merge', '-p', patch),
      kubectl(who, 'delete', 'regcred', storedName),
      kubectl(who, 'delete', 'regcred', '--all'),
    ]);
    for (const said of attempts) expect(said).toMatch(refusedByRole);
    expect(await kubectl(who, 'get', 'secrets', '-n', namespaces.credentials)).toMatch(
      /cannot list resource "secrets"/,
    );
    expect(await findCredential(admin, team, server)).toBeUndefined();
  });

  test('a namespace administrator with rights given by mistake reads what holds no secret, and writes nothing', async () => {
    const path = await manifest('by-mistaken', {
      ...typeMeta(registryCredentials),
      ...credential(team, server),
    });
    const patch = JSON.stringify({ spec: { secretRef: { name: 'another' } } });
    const attempts = await Promise.all([
      kubectl('mistaken', 'create', '-f', path),
      kubectl('mistaken', 'apply', '--server-side', '-f', path),
      kubectl('mistaken', 'patch', 'regcred', storedName, '--type=merge', '-p', patch),
      kubectl('mistaken', 'annotate', 'regcred', storedName, 'a=b'),
      kubectl('mistaken', 'delete', 'regcred', storedName),
      kubectl('mistaken', 'delete', 'regcred', '--all'),
    ]);
    for (const said of attempts) expect(said).toMatch(onlyAdministrators);
    expect(await kubectl('mistaken', 'get', 'registrycredentials')).toBe('ok');
    const seen = await admin
      .withToken(people['mistaken']!.token)
      .list(registryCredentials, { namespace: team });
    expect(seen.items).toHaveLength(1);
    expect(JSON.stringify(seen)).not.toContain(canary);
  });

  test('nobody but cluster administrators writes the pull Secret by hand', async () => {
    const words = ['secret', objectNames.pullSecret];
    const patch = JSON.stringify({ data: { '.dockerconfigjson': btoa('{"auths":{}}') } });
    const before = await published(admin, team);
    const attempts = await Promise.all([
      kubectl('admin', 'patch', ...words, '--type=merge', '-p', patch),
      kubectl('edit', 'patch', ...words, '--type=merge', '-p', patch),
      kubectl('admin', 'delete', ...words),
      kubectl('edit', 'delete', ...words),
      kubectl('mistaken', 'label', ...words, 'app.kubernetes.io/managed-by-'),
    ]);
    for (const said of attempts)
      expect(said).toMatch(/is written by svc3 only; manage RegistryCredentials instead/);
    expect(await kubectl('view', 'get', ...words)).toMatch(/cannot get resource "secrets"/);
    expect(await published(admin, team)).toEqual(before);
    expect(await kubectl('clusteradmin', 'delete', ...words)).toBe('ok');
    await expect.poll(() => published(admin, team), soon).toEqual(before);
  });

  test('nobody puts a pull Secret in place where there is none yet', async () => {
    const other = 'team-b';
    await admin.create(namespaceResource, { metadata: { name: other } });
    await admin.create(roleBindings, {
      metadata: { name: 'edit', namespace: other },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'edit' },
      subjects: [{ kind: 'ServiceAccount', name: 'edit', namespace: 'people' }],
    });
    const create = () =>
      kubectl(
        'edit',
        '-n',
        other,
        'create',
        'secret',
        'generic',
        objectNames.pullSecret,
        '--from-literal=a=b',
      );
    await expect.poll(create, soon).toMatch(/is written by svc3 only/);
    expect(await pullSecretOf(admin, other)).toBeUndefined();
  });

  test('editors can read the pull Secret, as all Secrets of their namespace: the threat model says so', async () => {
    expect(await kubectl('edit', 'get', 'secret', objectNames.pullSecret)).toBe('ok');
  });
});

describe('through HTTP', () => {
  const collection = `/api/v1/namespaces/${team}/secrets/registrycredentials`;
  const server = 'https://http.example.com';
  const body = { server, username: 'robot', password: canary };

  test.each(administrators)('$what lists, adds, replaces and removes', async ({ who }) => {
    const { token } = people[who]!;
    const add = (more: object) =>
      api.call('POST', `${collection}/add`, { token, body: { ...body, ...more } });
    expect((await add({})).status).toBe(201);
    expect((await add({})).status).toBe(409);
    expect((await add({ replace: true })).status).toBe(200);
    const list = await api.call('GET', collection, { token });
    expect(list.status).toBe(200);
    expect(list.json.items).toContainEqual(expect.objectContaining({ server, username: 'robot' }));
    expect(list.text).not.toContain(canary);
    await expect.poll(async () => (await published(admin, team))?.['http.example.com'], soon).toBe(canary);
    expect((await api.call('DELETE', `${collection}/remove`, { token, body: { server } })).status).toBe(200);
    await expect.poll(async () => (await published(admin, team))?.['http.example.com'], soon).toBeUndefined();
  });

  test.each([
    { who: 'admin', what: 'a namespace administrator' },
    { who: 'edit', what: 'an editor' },
    { who: 'view', what: 'a viewer' },
    { who: 'mistaken', what: 'a namespace administrator with rights given by mistake' },
  ])('$what does none of it', async ({ who }) => {
    const { token } = people[who]!;
    const answers = await Promise.all([
      api.call('GET', collection, { token }),
      api.call('POST', `${collection}/add`, { token, body }),
      api.call('POST', `${collection}/add`, { token, body: { ...body, server: stored, replace: true } }),
      api.call('DELETE', `${collection}/remove`, { token, body: { server: stored } }),
    ]);
    expect(answers.map(({ status }) => status)).toEqual([403, 403, 403, 403]);
    expect(answers.map(({ text }) => text).join()).not.toContain(canary);
    expect((await published(admin, team))?.['stored.example.com']).toBe(canary);
  });
});

describe('through the CLI', () => {
  const server = 'https://cli.example.com';
  const run = (who: string, ...words: string[]) =>
    svc3(['regcred', ...words, '--namespace', team], {
      stdin: canary,
      env: { KUBECONFIG: people[who]?.kubeconfig ?? '' },
    });
  const login = ['--username', 'robot', '--password-stdin', '--verify=no'];

  test.each(administrators)('$what lists, adds, replaces and removes', async ({ who }) => {
    const runs = [
      await run(who, 'add', server, ...login),
      await run(who, 'add', server, ...login, '--replace'),
      await run(who, 'list'),
      await run(who, 'remove', server),
    ];
    expect(runs.map(({ code, stderr }) => ({ code, stderr }))).toEqual(
      runs.map(() => ({ code: 0, stderr: '' })),
    );
    expect(runs[2]?.stdout).toContain(server);
    expect(runs.map(({ stdout }) => stdout).join()).not.toContain(canary);
  });

  test.each([
    { who: 'admin', what: 'a namespace administrator' },
    { who: 'edit', what: 'an editor' },
    { who: 'view', what: 'a viewer' },
    { who: 'mistaken', what: 'a namespace administrator with rights given by mistake' },
  ])('$what does none of it', async ({ who }) => {
    const runs = await Promise.all([
      run(who, 'list'),
      run(who, 'add', server, ...login),
      run(who, 'remove', stored),
    ]);
    for (const { code, stdout, stderr } of runs) {
      expect({ code, stdout }).toEqual({ code: 5, stdout: '' });
      expect(stderr).toMatch(onlyAdministrators);
      expect(stderr).not.toContain(canary);
    }
    expect((await published(admin, team))?.['stored.example.com']).toBe(canary);
  });
});

interface AuditEvent {
  readonly user: { readonly username: string };
  readonly verb: string;
  readonly requestURI: string;
  readonly objectRef?: { readonly resource?: string; readonly namespace?: string };
  readonly responseStatus?: { readonly code?: number };
}

describe('the operator, by the audit log of kube-apiserver', () => {
  async function requests(): Promise<AuditEvent[]> {
    const lines = (await readFile(controlPlane.auditLogPath, 'utf8'))
      .split('\n')
      .filter((line) => line !== '');
    return lines
      .map((line) => JSON.parse(line) as AuditEvent)
      .filter(({ user }) => user.username === 'system:serviceaccount:svc3-system:svc3-operator');
  }

  test('never lists Secrets across the cluster without the name of the pull Secret', async () => {
    const reads = (await requests()).filter(
      ({ verb, objectRef }) => objectRef?.resource === 'secrets' && ['list', 'watch'].includes(verb),
    );
    const places = reads.map(({ objectRef, requestURI }) =>
      objectRef?.namespace === namespaces.credentials
        ? namespaces.credentials
        : new URL(requestURI, 'https://x').searchParams.get('fieldSelector'),
    );
    expect(new Set(places)).toEqual(
      new Set([`metadata.name=${objectNames.pullSecret}`, namespaces.credentials]),
    );
  });

  test('was refused nothing: the rights of the chart are enough', async () => {
    const all = await requests();
    expect(all.length).toBeGreaterThan(10);
    expect(all.filter(({ responseStatus }) => [401, 403].includes(responseStatus?.code ?? 0))).toEqual([]);
  });
});
