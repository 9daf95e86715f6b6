import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { Agent as HttpsAgent, get } from 'node:https';
import { join } from 'node:path';
import type { TLSSocket } from 'node:tls';
import { promisify } from 'node:util';
import { Agent, request } from 'undici';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import {
  apiServices,
  clusterRoleBindings,
  configMaps,
  namespaces,
  nodes,
  secrets,
  serviceAccounts,
  vms,
} from '../../../src/api/resources.ts';
import { clusterRoles } from '../../support/resources.ts';
import type { RootClient } from '../../../src/kube/client.ts';
import { createAuthority } from '../../../src/x509.ts';
import { reportVm, runningStatus } from '../../support/api.ts';
import { tokenOf } from '../../support/identity.ts';
import { type AggregatedCluster, aggregatedCluster } from '../../support/aggregation.ts';
import { ensureTools } from '../../support/controlplane.ts';

const run = promisify(execFile);
let cluster: AggregatedCluster;
let client: RootClient;
let kubectlPath: string;
const namespace = 'team';

async function kubectl(...args: string[]): Promise<string> {
  const { stdout } = await run(kubectlPath, [
    '--kubeconfig',
    cluster.plane.kubeconfigPath,
    '--cache-dir',
    join(cluster.plane.dir, 'kubectl'),
    ...args,
  ]);
  return stdout;
}

beforeAll(async () => {
  kubectlPath = (await ensureTools('controlplane')).path('kubectl');
  cluster = await aggregatedCluster();
  client = cluster.client;
  await client.create(namespaces, { metadata: { name: namespace } });
  await cluster.start();
  await vi.waitFor(async () => expect(await cluster.available()).toBe(true), {
    timeout: 90_000,
    interval: 200,
  });
});

afterAll(async () => {
  await cluster?.remove();
});

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
  await expect
    .poll(() => kubectl('get', '--raw', '/openapi/v3/apis/api.svc3.dev/v1').catch(String), {
      timeout: 60_000,
      interval: 500,
    })
    .toContain('/apis/api.svc3.dev/v1/namespaces/{namespace}/vms/{vm}/exec');
  await expect
    .poll(
      () =>
        client
          .request({ method: 'GET', path: '/openapi/v2' })
          .then(({ body }) => JSON.stringify(body), String),
      { timeout: 60_000, interval: 500 },
    )
    .toContain('/apis/api.svc3.dev/v1/namespaces/{namespace}/vms/{vm}/exec');
  expect(await kubectl('explain', 'nodes', '--api-version=api.svc3.dev/v1')).toMatch(
    /KIND:\s+Node[^]*availableCpu[^]*gpuPassthrough/,
  );
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

test('kubectl sorts nodes by a field of theirs', async () => {
  const name = 'n2';
  await client.create(nodes, { metadata: { name } });
  onTestFinished(() => client.delete(nodes, { name }));
  const body = { status: { allocatable: { cpu: '4', memory: '32Gi' } } };
  await client.patch(nodes, { name }, { type: 'merge', body }, { subresource: 'status' });
  await expect
    .poll(() =>
      kubectl('get', 'nodes.api.svc3.dev', '-n', namespace, '--sort-by=.availableCpu').catch(String),
    )
    .toMatch(/^NAME.*\nn2\s.*\s4\/4\s.*\nn1\s/);
});

test('vms/exec writes the request, judged by the right to the subresource', async () => {
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

  // kubectl sends a body without a Content-Type.
  const file = join(cluster.plane.dir, 'exec.json');
  await writeFile(file, JSON.stringify({ command: 'suspend' }));
  await kubectl('create', '--raw', path, '-f', file);
  expect((await client.get(vms, 'demo', namespace)).spec.powerState).toBe('Suspended');

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
    .poll(() =>
      reader.request({ method: 'POST', path, body: { command: 'stop' } }).then(
        ({ status }) => status,
        (error: { reason: string }) => error.reason,
      ),
    )
    .toBe(202);
  expect((await client.get(vms, 'demo', namespace)).spec.powerState).toBe('Stopped');
});

const nodesPath = `/apis/api.svc3.dev/v1/namespaces/${namespace}/nodes`;
const asAdmin = { 'x-remote-user': 'system:admin', 'x-remote-group': 'system:masters' };

test.each([
  ['no client certificate', {}],
  ['a client certificate of the same CA with another name', 'admin'],
])('X-Remote-User with %s is refused', async (_, certificate) => {
  const pair = certificate === 'admin' ? cluster.plane.pki.admin : {};
  const { certPem: cert, keyPem: key } = pair as { certPem?: string; keyPem?: string };
  const agent = new Agent({
    connect: { rejectUnauthorized: false, ...(cert === undefined ? {} : { cert, key: key ?? '' }) },
  });
  const { statusCode, body } = await request(`https://localhost:${cluster.port}${nodesPath}`, {
    dispatcher: agent,
    headers: asAdmin,
  });
  expect([statusCode, await body.json()]).toEqual([
    401,
    expect.objectContaining({ kind: 'Status', code: 401 }),
  ]);
  await agent.close();
});

test('X-Remote-User in a TLS session that was resumed without a client certificate is refused', async () => {
  const agent = new HttpsAgent({ rejectUnauthorized: false });
  const url = `https://localhost:${cluster.port}${nodesPath}`;
  const isResumed: boolean[] = [];
  for (let turn = 0; turn < 2; turn += 1) {
    const asked = get(url, { agent, headers: asAdmin });
    const [answer] = (await once(asked, 'response')) as [IncomingMessage];
    isResumed.push((answer.socket as TLSSocket).isSessionReused());
    await once(answer.resume(), 'end');
    expect(answer.statusCode).toBe(401);
  }
  expect(isResumed).toEqual([false, true]);
});

test('X-Remote-User with a client certificate of a CA that kube-apiserver names later is taken from then on', async () => {
  const authority = await createAuthority('front-proxy-next');
  const { certPem, keyPem } = await authority.issue({ commonName: 'front-proxy-client', usages: ['client'] });
  // A connection stays what it was when it was made.
  const statusOfNewConnection = async () => {
    const dispatcher = new Agent({ connect: { rejectUnauthorized: false, cert: certPem, key: keyPem } });
    const url = `https://localhost:${cluster.port}${nodesPath}`;
    const { statusCode, body } = await request(url, { dispatcher, headers: asAdmin });
    await body.dump();
    await dispatcher.close();
    return statusCode;
  };
  expect(await statusOfNewConnection()).toBe(401);
  const file = 'requestheader-client-ca-file';
  const source = { name: 'extension-apiserver-authentication', namespace: 'kube-system' };
  const { data } = await client.get(configMaps, source.name, source.namespace);
  const former = data?.[file] ?? '';
  const write = (pem: string) =>
    client.patch(configMaps, source, { type: 'merge', body: { data: { [file]: pem } } });
  onTestFinished(async () => void (await write(former)));
  await write(`${former}${authority.certPem}`);
  await expect.poll(statusOfNewConnection).toBe(200);
});
