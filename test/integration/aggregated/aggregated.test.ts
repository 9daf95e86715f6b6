import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Agent, request } from 'undici';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  apiServices,
  clusterRoleBindings,
  clusterRoles,
  namespaces,
  nodes,
  secrets,
  serviceAccounts,
  services,
  vms,
} from '../../../src/api/resources.ts';
import { createClient, type RootClient } from '../../../src/kube/client.ts';
import { loadKubeconfig } from '../../../src/kube/connection.ts';
import { freePorts } from '../../../src/localcluster/ports.ts';
import { reportVm, runningStatus, tokenOf } from '../../support/api.ts';
import { type ApiProcess, startApiProcess } from '../../support/apiprocess.ts';
import { ensureTools, ownControlPlane, type OwnControlPlane } from '../../support/controlplane.ts';
import { installDefinitions } from '../../support/definitions.ts';

const run = promisify(execFile);
let plane: OwnControlPlane;
let client: RootClient;
let api: ApiProcess;
let port: number;
let kubectlPath: string;
const namespace = 'team';

async function kubectl(...args: string[]): Promise<string> {
  const { stdout } = await run(kubectlPath, [
    '--kubeconfig',
    plane.kubeconfigPath,
    '--cache-dir',
    join(plane.dir, 'kubectl'),
    ...args,
  ]);
  return stdout;
}

async function start(): Promise<void> {
  api = await startApiProcess(plane.kubeconfigPath, { SVC3_HTTP_PORT: String(port) });
}

beforeAll(async () => {
  plane = await ownControlPlane();
  kubectlPath = (await ensureTools('controlplane')).path('kubectl');
  client = createClient(await loadKubeconfig(plane.kubeconfigPath));
  await installDefinitions(client);
  for (const name of ['svc3-system', namespace]) await client.create(namespaces, { metadata: { name } });
  [port = 0] = await freePorts(1);
  // Without pods and nodes the Service leads to this machine by name.
  await client.create(services, {
    metadata: { name: 'svc3-api', namespace: 'svc3-system' },
    spec: { type: 'ExternalName', externalName: 'localhost', ports: [{ port }] } as never,
  });
  await client.create(apiServices, {
    metadata: { name: 'v1.api.svc3.dev' },
    spec: {
      group: 'api.svc3.dev',
      version: 'v1',
      groupPriorityMinimum: 1000,
      versionPriority: 15,
      service: { name: 'svc3-api', namespace: 'svc3-system', port },
    },
  } as never);
  await client.create(nodes, { metadata: { name: 'n1', labels: { 'kubernetes.io/arch': 'amd64' } } });
  await client.patch(
    nodes,
    { name: 'n1' },
    { type: 'merge', body: { status: { allocatable: { cpu: '12', memory: '32Gi' } } } },
    { subresource: 'status' },
  );
  await start();
  await expect.poll(async () => available(), { timeout: 60_000 }).toBe(true);
});

afterAll(async () => {
  await api?.stop();
  await client?.close();
  await plane?.remove();
});

async function available(): Promise<boolean> {
  const { status } = (await client.get(apiServices, 'v1.api.svc3.dev')) as {
    status?: { conditions?: { type: string; status: string }[] };
  };
  return (
    status?.conditions?.some((condition) => condition.type === 'Available' && condition.status === 'True') ===
    true
  );
}

test('kube-apiserver trusts the certificate that the api made for its inner names', async () => {
  const secret = await client.get(secrets, 'svc3-api-tls', 'svc3-system');
  expect(Object.keys(secret.data ?? {}).sort()).toEqual([
    'internal.crt',
    'internal.key',
    'tls.crt',
    'tls.key',
  ]);
  const { spec } = (await client.get(apiServices, 'v1.api.svc3.dev')) as unknown as {
    spec: { caBundle: string };
  };
  expect(spec.caBundle).toBe(secret.data?.['internal.crt']);
});

test('discovery, OpenAPI and kubectl show the API', async () => {
  expect(JSON.parse(await kubectl('get', '--raw', '/apis/api.svc3.dev/v1'))).toMatchObject({
    kind: 'APIResourceList',
    groupVersion: 'api.svc3.dev/v1',
  });
  await expect
    .poll(() => kubectl('api-resources', '--api-group=api.svc3.dev'))
    .toMatch(/^nodes\s+api\.svc3\.dev\/v1\s+true\s+Node$/m);
  const openApi = JSON.parse(await kubectl('get', '--raw', '/openapi/v3/apis/api.svc3.dev/v1')) as {
    paths: object;
  };
  expect(Object.keys(openApi.paths)).toContain('/apis/api.svc3.dev/v1/namespaces/{namespace}/vms/{vm}/exec');
});

test('kubectl get nodes.api.svc3.dev prints a table', async () => {
  await expect
    .poll(() => kubectl('get', 'nodes.api.svc3.dev', '-n', namespace))
    .toMatch(
      /NAME\s+PHASE\s+CPU\s+MEMORY\s+GPU\s+ARCHITECTURE\nn1\s+NOT READY\s+12\/12\s+32\.00G\/32\.00G\s+false\s+amd64/,
    );
  expect(
    JSON.parse(await kubectl('get', 'nodes.api.svc3.dev', 'n1', '-n', namespace, '-o', 'json')),
  ).toMatchObject({ kind: 'Node', metadata: { name: 'n1' }, allocatableCpu: 12 });
  expect(await kubectl('get', 'nodes.api.svc3.dev', '-A', '-o', 'name')).toContain('n1');
});

test('vms/exec writes the wish, judged by the right to the subresource', async () => {
  const vm = await client.create(vms, {
    metadata: { name: 'demo', namespace },
    spec: { image: 'r.example.com/debian:12', powerState: 'Running' },
  });
  await reportVm(client, vm, runningStatus);
  const path = `/apis/api.svc3.dev/v1/namespaces/${namespace}/vms/demo/exec?wait=false`;
  await expect
    .poll(() =>
      client
        .request({
          method: 'POST',
          path,
          body: { apiVersion: 'api.svc3.dev/v1', kind: 'VMExec', command: 'stop' },
        })
        .then(
          ({ status }) => status,
          (error: Error) => error.message,
        ),
    )
    .toBe(202);
  expect((await client.get(vms, 'demo', namespace)).spec.powerState).toBe('Stopped');

  await client.create(serviceAccounts, { metadata: { name: 'reader', namespace } });
  const reader = client.withToken(await tokenOf(client, namespace, 'reader'));
  await expect(reader.request({ method: 'POST', path, body: { command: 'start' } })).rejects.toMatchObject({
    reason: 'Forbidden',
  });

  await client.create(clusterRoles, {
    metadata: { name: 'execs' },
    rules: [{ apiGroups: ['api.svc3.dev'], resources: ['vms/exec'], verbs: ['create'] }],
  });
  await client.create(clusterRoleBindings, {
    metadata: { name: 'execs' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'execs' },
    subjects: [{ kind: 'ServiceAccount', name: 'reader', namespace }],
  });
  await expect
    .poll(
      () =>
        reader.request({ method: 'POST', path, body: { command: 'suspend' } }).then(
          ({ status }) => status,
          (error: { reason: string }) => error.reason,
        ),
      { timeout: 30_000 },
    )
    .toBe(202);
  expect((await client.get(vms, 'demo', namespace)).spec.powerState).toBe('Suspended');
});

test.each([
  ['no client certificate', {}],
  ['a client certificate of the same CA with another name', 'admin'],
])('X-Remote-User with %s is refused', async (_, certificate) => {
  const pair = certificate === 'admin' ? plane.pki.admin : {};
  const { certPem: cert, keyPem: key } = pair as { certPem?: string; keyPem?: string };
  const agent = new Agent({
    connect: { rejectUnauthorized: false, ...(cert === undefined ? {} : { cert, key: key ?? '' }) },
  });
  const { statusCode, body } = await request(
    `https://localhost:${port}/apis/api.svc3.dev/v1/namespaces/${namespace}/nodes`,
    {
      dispatcher: agent,
      headers: { 'x-remote-user': 'system:admin', 'x-remote-group': 'system:masters' },
    },
  );
  expect([statusCode, await body.json()]).toEqual([
    401,
    expect.objectContaining({ kind: 'Status', code: 401 }),
  ]);
  await agent.close();
});

test('while the api is down a namespace waits in Terminating, and goes when it is back', async () => {
  await client.create(namespaces, { metadata: { name: 'short-lived' } });
  expect(await api.stop()).toBe(0);
  await expect.poll(async () => available(), { timeout: 60_000 }).toBe(false);
  await client.delete(namespaces, { name: 'short-lived' });
  await expect
    .poll(
      async () =>
        (await client.get(namespaces, 'short-lived')).status?.conditions?.find(
          ({ type }) => type === 'NamespaceDeletionDiscoveryFailure',
        )?.status,
      { timeout: 60_000 },
    )
    .toBe('True');
  await client.create(secrets, { metadata: { name: 'works', namespace }, stringData: { a: 'b' } });
  await start();
  await expect
    .poll(
      () =>
        client.get(namespaces, 'short-lived').then(
          () => 'there',
          (error: { reason: string }) => error.reason,
        ),
      { timeout: 90_000, interval: 500 },
    )
    .toBe('NotFound');
});
