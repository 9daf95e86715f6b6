import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { objectNames } from '../../../src/api/meta.ts';
import { registryCredentials, typeMeta } from '../../../src/api/resources.ts';
import { verifyLogin } from '../../../src/controllers/credential/login.ts';
import { startTestApi, type TestApi } from '../../support/api.ts';
import { type OwnControlPlane, ensureTools, ownControlPlane } from '../../support/controlplane.ts';
import { svc3Program, type Run } from '../cli/process.ts';
import { canaries, expectNoTrace, startEchoingRegistry, type EchoingRegistry } from './canaries.ts';
import {
  basicAuth,
  credential,
  credentialCluster,
  newNamespace,
  pullSecretOf,
  readyReason,
  startOperator,
  type CredentialCluster,
  type TestOperator,
} from './harness.ts';

const execute = promisify(execFile);
const soon = { timeout: 60_000, interval: 50 };

let own: OwnControlPlane;
let cluster: CredentialCluster;
let operator: TestOperator;
let api: TestApi;
let echo: EchoingRegistry;
let kubectlPath: string;
const runs: Run[] = [];
const answers: string[] = [];
const said: string[] = [];
const { svc3 } = svc3Program({});

beforeAll(async () => {
  own = await ownControlPlane({ audit: 'Metadata' });
  cluster = await credentialCluster(own);
  kubectlPath = (await ensureTools('controlplane')).path('kubectl');
  operator = await startOperator(cluster.client, { enabled: true, allowed: ['*'] });
  api = await startTestApi(cluster.client, { registryLogin: verifyLogin });
  echo = await startEchoingRegistry();
});

afterAll(async () => {
  echo?.close();
  await api?.close();
  await operator?.stop();
  await cluster?.remove();
});

async function kubectl(...words: string[]): Promise<string> {
  const args = ['--kubeconfig', cluster.controlPlane.kubeconfigPath, ...words];
  const { stdout, stderr } = await execute(kubectlPath, args).catch(
    (error: { stdout: string; stderr: string }) => error,
  );
  said.push(stdout, stderr);
  return stdout + stderr;
}

/** A policy that quotes the Secret which it refuses, as webhooks of others may. */
async function quotingPolicy(namespace: string): Promise<() => Promise<void>> {
  const path = '/apis/admissionregistration.k8s.io/v1';
  const name = `quote-${namespace}`;
  await cluster.client.request({
    method: 'POST',
    path: `${path}/validatingadmissionpolicies`,
    body: {
      metadata: { name },
      spec: {
        failurePolicy: 'Fail',
        matchConstraints: {
          resourceRules: [
            { apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['secrets'] },
          ],
        },
        matchConditions: [
          {
            name: 'ours',
            expression: `request.namespace == '${namespace}' && request.name == '${objectNames.pullSecret}'`,
          },
        ],
        validations: [
          { expression: 'false', messageExpression: "'refused ' + string(object.data['.dockerconfigjson'])" },
        ],
      },
    },
  });
  await cluster.client.request({
    method: 'POST',
    path: `${path}/validatingadmissionpolicybindings`,
    body: { metadata: { name }, spec: { policyName: name, validationActions: ['Deny'] } },
  });
  return async () => {
    await cluster.client.request({
      method: 'DELETE',
      path: `${path}/validatingadmissionpolicybindings/${name}`,
    });
    await cluster.client.request({ method: 'DELETE', path: `${path}/validatingadmissionpolicies/${name}` });
  };
}

/** Whether a policy is at work yet; kube-apiserver takes a moment. */
async function expectRefused(namespace: string): Promise<void> {
  const probe = {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: objectNames.pullSecret, namespace },
    type: 'Opaque',
    data: { '.dockerconfigjson': 'YQ==' },
  };
  const query = { dryRun: 'All' };
  const create = cluster.client.request({
    method: 'POST',
    path: `/api/v1/namespaces/${namespace}/secrets`,
    query,
    body: probe,
  });
  await expect(create).rejects.toThrow(/refused/);
}

describe.each(Object.entries(canaries))('a %s password', (_, password) => {
  const servers = {
    http: 'https://http.example.com',
    cli: 'https://cli.example.com',
    gitops: 'https://gitops.example.com',
    refused: 'https://refused.example.com',
  };
  let namespace: string;

  test('that is added through HTTP, CLI and kubectl and is refused by registry and admission', async () => {
    namespace = await newNamespace(cluster.client, 'canary');
    const collection = `/api/v1/namespaces/${namespace}/secrets/registrycredentials`;
    const token = cluster.controlPlane.adminToken;
    const login = { username: 'robot', password };
    const broken = `http://${echo.address}`;
    const calls = [
      { server: servers.http, ...login },
      { server: servers.http, ...login },
      { server: servers.http, ...login, replace: true },
      { server: broken, ...login, allowInsecure: true, verify: true },
      { server: `https://robot:${password}@registry.example.com`, ...login },
      { server: `https://robot:${encodeURIComponent(password)}@registry.example.com`, ...login },
      { server: servers.http, username: 'robot', password: { oops: password } },
      { server: servers.http, username: 'robot', password, more: password },
    ];
    for (const body of calls) {
      const { text, headers } = await api.call('POST', `${collection}/add`, { token, body });
      answers.push(text, JSON.stringify(headers));
    }
    answers.push(
      (
        await api.call('POST', `${collection}/add`, {
          token,
          raw: `{"password":"${password}",`,
          headers: { 'content-type': 'application/json' },
        })
      ).text,
    );
    answers.push((await api.call('GET', collection, { token })).text);

    const env = { KUBECONFIG: cluster.controlPlane.kubeconfigPath };
    const regcred = (...words: string[]) =>
      svc3(['regcred', ...words, '--namespace', namespace], { stdin: password, env });
    const add = ['--username', 'robot', '--password-stdin'];
    const before = runs.length;
    runs.push(await regcred('add', servers.cli, ...add, '--verify=no'));
    runs.push(await regcred('add', servers.cli, ...add, '--verify=no'));
    runs.push(await regcred('add', broken, ...add, '--allow-insecure', '--replace'));
    runs.push(await regcred('add', `https://robot:x@cli.example.com`, ...add));
    runs.push(await regcred('list', '-o', 'json'));

    const wanted = credential(namespace, servers.gitops);
    const secretFile = join(cluster.controlPlane.dir, 'secret.json');
    const objectFile = join(cluster.controlPlane.dir, 'credential.json');
    await writeFile(
      secretFile,
      JSON.stringify({
        apiVersion: 'v1',
        kind: 'Secret',
        ...basicAuth(wanted.spec.secretRef.name, 'robot', password),
      }),
    );
    await writeFile(objectFile, JSON.stringify({ ...typeMeta(registryCredentials), ...wanted }));
    // Client-side apply: what was applied stands in an annotation.
    await kubectl('apply', '-f', secretFile);
    await kubectl('apply', '-f', objectFile);
    for (const server of [servers.http, servers.cli, servers.gitops])
      await expect.poll(() => readyReason(cluster.client, namespace, server), soon).toBe('Published');
    expect(runs.slice(before).map(({ code }) => code)).toEqual([0, 7, 0, 2, 0]);
  });

  test('that admission quotes when it refuses the pull Secret', async () => {
    const other = await newNamespace(cluster.client, 'canary');
    const allow = await quotingPolicy(other);
    await vi.waitFor(() => expectRefused(other), soon);
    const wanted = credential(other, servers.refused);
    const env = { KUBECONFIG: cluster.controlPlane.kubeconfigPath };
    const words = [
      'regcred',
      'add',
      servers.refused,
      '--username',
      'robot',
      '--password-stdin',
      '--verify=no',
    ];
    runs.push(await svc3([...words, '--namespace', other], { stdin: password, env }));
    await expect.poll(() => readyReason(cluster.client, other, servers.refused), soon).toBe('SecretRefused');
    await kubectl('describe', 'regcred', wanted.metadata.name ?? '', '-n', other);
    expectNoTrace('kubectl describe', said.at(-2) ?? '');
    expect(said.at(-2)).toMatch(/refused \*\*\*/);
    await allow();
    await expect
      .poll(() => readyReason(cluster.client, other, servers.refused), { ...soon, timeout: 50_000 })
      .toBe('Published');
  });

  test('stands in the pull Secret, so it would be found', async () => {
    const secret = await pullSecretOf(cluster.client, namespace);
    const text = Buffer.from(secret?.data?.['.dockerconfigjson'] ?? '', 'base64').toString('utf8');
    expect(() => expectNoTrace('the pull Secret', text)).toThrow(/holds the \w+ password/);
    expect(() => expectNoTrace('the pull Secret', secret?.data?.['.dockerconfigjson'] ?? '')).toThrow(
      /holds the \w+ password in base64/,
    );
  });
});

describe('a password, long or short,', () => {
  test('stands in no answer and no log of the HTTP API', () => {
    expect(answers.length).toBeGreaterThan(10);
    expectNoTrace('an answer', answers.join('\n'));
    expect(api.log.lines.length).toBeGreaterThan(0);
    expectNoTrace('the log of the api', api.log.lines.join('\n'));
  });

  test('stands in nothing that CLI and kubectl print', () => {
    expectNoTrace('the CLI', runs.map(({ stdout, stderr }) => stdout + stderr).join('\n'));
    expectNoTrace('kubectl', said.join('\n'));
  });

  test('stands in no log and no metric of the operator', async () => {
    expect(operator.logged.join('')).toContain('reconcile failed');
    expectNoTrace('the log of the operator', operator.logged.join(''));
    const metrics = await operator.metrics.registry.metrics();
    expect(metrics).toContain('svc3_reconcile_total');
    expectNoTrace('the metrics', metrics + (await api.registry.metrics()));
  });

  test('stands in no object but Secrets: no status, event, managed field or last applied object', async () => {
    await operator.drainEvents();
    const kinds = [
      'registrycredentials',
      'events',
      'events.events.k8s.io',
      'configmaps',
      'serviceaccounts',
      'namespaces',
      'vms',
      'images',
    ];
    const text = await kubectl('get', kinds.join(','), '-A', '-o', 'yaml', '--show-managed-fields');
    expect(text).toContain('SecretRefused');
    expect(text).toContain('kubectl.kubernetes.io/last-applied-configuration');
    expect(text).toContain('managedFields');
    expectNoTrace('an object', text);
  });

  test('stands, of a pull Secret, only in its data', async () => {
    const text = await kubectl(
      'get',
      'secrets',
      '-A',
      '-o',
      'json',
      '--show-managed-fields',
      '--field-selector',
      `metadata.name=${objectNames.pullSecret}`,
    );
    said.pop();
    said.pop();
    const { items } = JSON.parse(text) as { items: { metadata: object }[] };
    expect(items.length).toBeGreaterThan(1);
    expectNoTrace('the metadata of a pull Secret', JSON.stringify(items.map(({ metadata }) => metadata)));
  });

  test('stands in no address and no user agent of the audit log', async () => {
    const lines = (await readFile(own.auditLogPath, 'utf8')).split('\n');
    const asked = lines.map((line) => line.slice(0, line.indexOf('"responseStatus"')));
    expect(asked.length).toBeGreaterThan(100);
    expectNoTrace('the audit log', asked.join('\n'));
  });
});
