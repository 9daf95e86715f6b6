import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Node, PodSpec } from '../../../src/api/core.ts';
import {
  images,
  namespaces,
  nodes,
  pods,
  registryCredentials,
  secrets,
  vmConfigs,
  vmPools,
  vms,
} from '../../../src/api/resources.ts';
import type { KubeClient } from '../../../src/kube/types.ts';
import { type Rendered, rendered } from './helm.ts';
import { everything, install, outcome, tenant, values, type Installation } from './installation.ts';

let installation: Installation;
let admin: Installation['admin'];
let kubectl: Installation['kubectl'];
let identity: Installation['identity'];
let tenantUser: Installation['tenantUser'];
let clusterUser: Installation['clusterUser'];

beforeAll(async () => {
  // The second one is on in OpenShift: changing the owners of an object takes the right to delete it.
  installation = await install([
    '--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement',
  ]);
  ({ admin, kubectl, identity, tenantUser, clusterUser } = installation);
});

afterAll(() => installation?.remove());

describe('installation', () => {
  test('applying the chart again changes nothing', async () => {
    const { manifest } = installation;
    const generations = () =>
      kubectl(
        'get',
        '-f',
        manifest,
        '-o',
        'jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.generation}{"\\n"}{end}',
      );
    const before = await generations();
    await kubectl('apply', '--server-side', '-f', manifest);
    expect(await generations()).toBe(before);
    expect(await kubectl('diff', '--server-side', '-f', manifest)).toBe('');
  });

  test('kube-apiserver has nothing to say against the expressions of the policies', async () => {
    await expect
      .poll(async () => {
        const list = JSON.parse(await kubectl('get', 'validatingadmissionpolicies', '-o', 'json')) as {
          items: {
            metadata: { name: string };
            status?: { observedGeneration?: number; typeChecking?: { expressionWarnings?: unknown[] } };
          }[];
        };
        return list.items
          .filter(({ metadata }) => metadata.name.startsWith('svc3-'))
          .map(({ metadata, status }) => [
            metadata.name,
            status?.observedGeneration,
            status?.typeChecking?.expressionWarnings ?? [],
          ]);
      })
      .toEqual(
        [
          'svc3-api-nodes',
          'svc3-config-readers',
          'svc3-node-agent-nodes',
          'svc3-operator-nodes',
          'svc3-own-pods',
          'svc3-pull-secret-writers',
          'svc3-registrycredential-writers',
          'svc3-restricted-pods',
        ].map((name) => [name, 1, []]),
      );
  });

  test.each(['svc3-operator', 'svc3-api', 'svc3-boot-test'])(
    'a pod of %s passes the restricted level',
    async (name) => {
      const objects: Rendered[] = await rendered(...values);
      const source = objects.find(
        (object) => object.metadata.name === name && ['Deployment', 'Pod'].includes(object.kind),
      )!;
      const holder =
        source.kind === 'Pod' ? source : (source.spec as unknown as { template: Rendered }).template;
      const spec = holder.spec as unknown as PodSpec;
      await expect(
        admin.create(
          pods,
          {
            metadata: { name: `${name}-x`, namespace: 'svc3-system' },
            spec: { ...spec, serviceAccountName: 'default' },
          },
          { dryRun: true },
        ),
      ).resolves.toBeDefined();
    },
  );
});

describe('registry credentials', () => {
  const credential = (name: string) => ({
    metadata: { name: `${name}.example.com.443`, namespace: tenant },
    spec: { server: `https://${name}.example.com`, allowInsecure: false, secretRef: { name: 'a' } },
  });
  const refusal = 'only cluster administrators manage registry credentials';

  test('a namespace administrator who was given every right in a Role is refused, a cluster administrator is not', async () => {
    const boss = await tenantUser('regcred-boss', everything);
    const chief = await clusterUser('regcred-chief', 'cluster-admin');
    const keeper = await clusterUser('regcred-keeper', 'svc3-cluster-admin');
    await expect
      .poll(() => outcome(boss.create(registryCredentials, credential('boss'), { dryRun: true })))
      .toContain(refusal);
    await expect.poll(() => outcome(chief.create(registryCredentials, credential('chief')))).toBe('ok');
    await expect.poll(() => outcome(keeper.create(registryCredentials, credential('keeper')))).toBe('ok');
    const key = { name: 'chief.example.com.443', namespace: tenant };
    const change = { type: 'merge' as const, body: { spec: { allowInsecure: true } } };
    expect(await outcome(boss.patch(registryCredentials, key, change))).toContain(refusal);
    expect(await outcome(boss.delete(registryCredentials, key))).toContain(refusal);
    expect(
      await outcome(
        boss.request({
          method: 'DELETE',
          path: `/apis/svc3.dev/v1/namespaces/${tenant}/registrycredentials`,
        }),
      ),
    ).toContain(refusal);
    expect(await outcome(chief.patch(registryCredentials, key, change))).toBe('ok');
    expect(await outcome(chief.delete(registryCredentials, key))).toBe('ok');
  });

  test.each(['admin', 'edit', 'view'])(
    "who has Kubernetes' own role %s neither reads nor writes them",
    async (role) => {
      const user = await tenantUser(`regcred-${role}`, [], role);
      await expect.poll(() => outcome(user.list(vms, { namespace: tenant }))).toBe('ok');
      expect(await outcome(user.list(registryCredentials, { namespace: tenant }))).toContain('forbidden');
      expect(await outcome(user.create(registryCredentials, credential(role)))).toContain('forbidden');
      const mayWrite = await outcome(
        user.create(
          vms,
          { metadata: { name: `a-${role}`, namespace: tenant }, spec: { image: 'x', powerState: 'Running' } },
          { dryRun: true },
        ),
      );
      expect(mayWrite === 'ok').toBe(role !== 'view');
    },
  );

  test('the operator writes their finalizers and status', async () => {
    const operator = await identity('svc3-system', 'svc3-operator');
    await admin.create(registryCredentials, credential('finalized'));
    const key = { name: 'finalized.example.com.443', namespace: tenant };
    const patch = { type: 'merge' as const, body: { metadata: { finalizers: ['svc3.dev/cleanup'] } } };
    expect(await outcome(operator.patch(registryCredentials, key, patch))).toBe('ok');
    expect(
      await outcome(
        operator.patch(registryCredentials, key, { type: 'merge', body: { metadata: { finalizers: null } } }),
      ),
    ).toBe('ok');
    expect(
      await outcome(
        operator.patch(
          registryCredentials,
          key,
          { type: 'merge', body: { status: { registry: 'x' } } },
          { subresource: 'status' },
        ),
      ),
    ).toBe('ok');
  });
});

test('the operator writes the status of VM configurations, whoever edits them does not', async () => {
  const operator = await identity('svc3-system', 'svc3-operator');
  const editor = await tenantUser('config-editor', [], 'svc3-edit');
  const { metadata } = await admin.create(vmConfigs, {
    metadata: { name: 'web', namespace: tenant },
    spec: { image: 'base' },
  });
  const { name, namespace, uid } = metadata;
  const change = { type: 'merge', body: { spec: { cpu: 2 } } } as const;
  await expect.poll(() => outcome(editor.patch(vmConfigs, { name, namespace }, change))).toBe('ok');
  const status = { metadata: { name, namespace, uid }, status: { observedGeneration: 2 } };
  const written = (client: KubeClient) =>
    outcome(client.apply(vmConfigs, status as never, { subresource: 'status' }));
  expect(await written(editor)).toContain('cannot patch resource "vmconfigs/status"');
  expect(await written(operator)).toBe('ok');
});

describe('the pull Secret of a namespace', () => {
  const name = 'svc3-registry-credentials';
  const pullSecret = (labels?: Record<string, string>) => ({
    metadata: { name, namespace: tenant, ...(labels === undefined ? {} : { labels }) },
    type: 'kubernetes.io/dockerconfigjson',
    data: { '.dockerconfigjson': Buffer.from('{"auths":{}}').toString('base64') },
  });
  const ours = { 'app.kubernetes.io/managed-by': 'svc3' };
  const refusal =
    'the Secret svc3-registry-credentials is written by svc3 only; manage RegistryCredentials instead';

  test('only the operator and cluster administrators write it; the namespace administrator writes other Secrets', async () => {
    const operator = await identity('svc3-system', 'svc3-operator');
    const boss = await tenantUser('secret-boss', everything);
    const external = await clusterUser('secret-sync', 'admin');
    await expect.poll(() => outcome(boss.create(secrets, pullSecret()))).toContain(refusal);
    await expect.poll(() => outcome(external.create(secrets, pullSecret()))).toContain(refusal);
    expect(await outcome(operator.apply(secrets, pullSecret(ours)))).toBe('ok');
    expect(
      await outcome(boss.apply(secrets, pullSecret({ 'app.kubernetes.io/managed-by': 'me' }))),
    ).toContain(refusal);
    expect(await outcome(boss.delete(secrets, { name, namespace: tenant }))).toContain(refusal);
    expect(
      await outcome(boss.request({ method: 'DELETE', path: `/api/v1/namespaces/${tenant}/secrets` })),
    ).toContain(refusal);
    expect(
      await outcome(boss.create(secrets, { ...pullSecret(), metadata: { name: 'mine', namespace: tenant } })),
    ).toBe('ok');
    expect(
      await outcome(
        admin.patch(
          secrets,
          { name, namespace: tenant },
          { type: 'merge', body: { metadata: { labels: { a: 'b' } } } },
        ),
      ),
    ).toBe('ok');
    expect(await outcome(operator.delete(secrets, { name, namespace: tenant }))).toBe('ok');
  });

  // A StorageVersionMigration writes every Secret as it is, to have it encrypted with the key of the day.
  test('whoever may write Secrets may write it as it is, and change no field of it', async () => {
    const boss = await tenantUser('secret-migrator', everything);
    await admin.apply(secrets, pullSecret(ours));
    const patched = (body: object) =>
      outcome(boss.patch(secrets, { name, namespace: tenant }, { type: 'merge', body }));
    const other = Buffer.from('{"auths":{"r.example.com":{}}}').toString('base64');
    await expect.poll(() => patched({ data: { '.dockerconfigjson': other } })).toContain(refusal);
    expect(await patched({})).toBe('ok');
    expect(await outcome(boss.apply(secrets, pullSecret(ours)))).toBe('ok');
    const owner = { apiVersion: 'v1', kind: 'ConfigMap', name: 'a', uid: 'a' };
    for (const change of [
      { data: { more: other } },
      { immutable: true },
      { metadata: { labels: { a: 'b' } } },
      { metadata: { labels: null } },
      { metadata: { annotations: { a: 'b' } } },
      { metadata: { finalizers: ['a.example.com/b'] } },
      { metadata: { ownerReferences: [owner] } },
    ])
      expect(await patched(change), JSON.stringify(change)).toContain(refusal);
    await admin.delete(secrets, { name, namespace: tenant });
  });

  test('the operator reads and writes this Secret in any namespace and no other one', async () => {
    const operator = await identity('svc3-system', 'svc3-operator');
    const named = {
      method: 'GET' as const,
      path: '/api/v1/secrets',
      query: { fieldSelector: `metadata.name=${name}` },
    };
    expect(await outcome(operator.request(named))).toBe('ok');
    expect(await outcome(operator.request({ ...named, query: {} }))).toContain('forbidden');
    expect(
      await outcome(
        operator.apply(secrets, { ...pullSecret(), metadata: { name: 'other', namespace: tenant } }),
      ),
    ).toContain('forbidden');
    expect(await outcome(operator.list(secrets, { namespace: 'svc3-credentials' }))).toBe('ok');
  });

  test('one that svc3 did not make can be taken out of the way by whoever may delete Secrets', async () => {
    const boss = await tenantUser('secret-cleaner', everything);
    await admin.apply(secrets, pullSecret());
    await expect.poll(() => outcome(boss.delete(secrets, { name, namespace: tenant }))).toBe('ok');
  });

  test('a namespace that holds it can be deleted', async () => {
    // Namespaces wait in Terminating while an APIService is down, and here its pods never run.
    await kubectl('delete', 'apiservice', 'v1.api.svc3.dev');
    const gone = { name: 'team-gone' };
    await admin.create(namespaces, { metadata: gone });
    await admin.create(secrets, {
      ...pullSecret(ours),
      metadata: { name, namespace: gone.name, labels: ours },
    });
    await admin.create(registryCredentials, {
      metadata: { name: 'r.example.com.443', namespace: gone.name },
      spec: { server: 'https://r.example.com', allowInsecure: false, secretRef: { name: 'a' } },
    });
    await admin.delete(namespaces, gone);
    await expect
      .poll(() => outcome(admin.get(namespaces, gone.name)), { timeout: 50_000 })
      .toContain('not found');
  });
});

describe('with the admission plugin OwnerReferencesPermissionEnforcement the operator', () => {
  test('makes a second Image an owner of the tickets of workers', async () => {
    const operator = await identity('svc3-system', 'svc3-operator');
    const name = 'svc3-worker-tickets';
    for (const image of ['first', 'second']) {
      const { metadata } = await admin.create(images, {
        metadata: { name: image, namespace: tenant },
        spec: { source: { blank: { size: '64Mi' } } },
      });
      const { uid } = metadata;
      const ownerReferences = [{ apiVersion: 'svc3.dev/v1', kind: 'Image', name: image, uid }];
      const tickets = { metadata: { name, namespace: tenant, ownerReferences }, data: { [image]: 'YQ==' } };
      const write = operator.apply(secrets, tickets, { fieldManager: `svc3-worker-${uid}` });
      expect(await outcome(write)).toBe('ok');
    }
    const { ownerReferences = [] } = (await admin.get(secrets, name, tenant)).metadata;
    expect(ownerReferences.map((owner) => owner.name)).toEqual(['first', 'second']);
  });

  test('gives a guest of a pool to a VM', async () => {
    const operator = await identity('svc3-system', 'svc3-operator');
    const metadata = { name: 'guest', namespace: tenant };
    const pool = await admin.create(vmPools, {
      metadata,
      spec: { template: { image: 'x' }, minIdle: 1, standby: 'Suspended', serveConfig: false },
    });
    const vm = await admin.create(vms, { metadata, spec: { image: 'x', powerState: 'Running' } });
    const ownedBy = (kind: string, { uid }: { uid: string }) => ({
      ownerReferences: [
        { apiVersion: 'svc3.dev/v1', kind, name: 'guest', uid, controller: true, blockOwnerDeletion: true },
      ],
    });
    const pod = {
      metadata: { ...metadata, ...ownedBy('VMPool', pool.metadata) },
      spec: { containers: [{ name: 'a', image: 'a' }] },
    };
    // The plugin hears of new kinds a moment later, as kube-controller-manager of the namespace that needs its ServiceAccount.
    await expect.poll(() => outcome(operator.create(pods, pod))).toBe('ok');
    const body = { metadata: ownedBy('VM', vm.metadata) };
    expect(await outcome(operator.patch(pods, metadata, { type: 'merge', body }))).toBe('ok');
  });
});

describe('Nodes', () => {
  const one = { name: 'node-one' };
  const other = { name: 'node-other' };
  const label = (key: string, value: string | null) => ({ metadata: { labels: { [key]: value } } });
  const annotation = (key: string, value: string | null) => ({ metadata: { annotations: { [key]: value } } });
  const clients = new Map<string, KubeClient>();

  beforeAll(async () => {
    const base: Partial<Node['metadata']> = {
      labels: { keep: 'me', 'svc3.dev/gpu-passthrough': 'enabled', 'tag.svc3.dev/old': 'true' },
      annotations: { keep: 'me', 'svc3.dev/hardware': '{"version":0}' },
    };
    await Promise.all([one, other].map(({ name }) => admin.create(nodes, { metadata: { ...base, name } })));
    const pod = await admin.create(pods, {
      metadata: { name: 'agent', namespace: 'svc3-node' },
      spec: {
        nodeName: one.name,
        serviceAccountName: 'svc3-node-agent',
        containers: [{ name: 'a', image: 'a' }],
      },
    });
    clients.set('operator', await identity('svc3-system', 'svc3-operator'));
    clients.set('api', await identity('svc3-system', 'svc3-api'));
    clients.set('agent', await identity('svc3-node', 'svc3-node-agent', pod));
    clients.set('stolen token without a node', await identity('svc3-node', 'svc3-node-agent'));
  });

  const onlyGpu =
    'the operator may change only the label svc3.dev/gpu-passthrough, the annotation svc3.dev/gpu-passthrough-reason and the condition svc3.dev/GPUUnavailable of a Node, and take away the annotation svc3.dev/hardware';
  const onlyTags = 'the api may change only labels tag.svc3.dev/* of a Node';
  const onlyHardware = 'the node agent may change only the annotation svc3.dev/hardware of a Node';
  const onlyOwn = 'the node agent may change only the Node it runs on';

  test.each<[who: string, node: { name: string }, change: unknown, what: string, message: string]>([
    ['operator', one, label('svc3.dev/gpu-passthrough', 'enabled'), 'sets the GPU label', 'ok'],
    ['operator', other, label('svc3.dev/gpu-passthrough', null), 'removes the GPU label', 'ok'],
    ['operator', one, annotation('svc3.dev/gpu-passthrough-reason', 'why'), 'says why', 'ok'],
    ['operator', other, annotation('svc3.dev/hardware', null), 'takes the hardware facts away', 'ok'],
    ['operator', one, label('svc3.dev/allow-gpu-passthrough', 'true'), 'allows GPUs itself', onlyGpu],
    ['operator', one, label('tag.svc3.dev/x', 'true'), 'tags', onlyGpu],
    ['operator', one, label('keep', null), "removes another's label", onlyGpu],
    ['operator', one, annotation('svc3.dev/hardware', '{}'), 'writes the hardware facts', onlyGpu],
    ['operator', one, { spec: { unschedulable: true } }, 'cordons', onlyGpu],
    ['operator', one, { spec: { taints: [{ key: 'a', effect: 'NoExecute' }] } }, 'taints', onlyGpu],
    ['operator', one, { metadata: { finalizers: ['a/b'] } }, 'adds a finalizer', onlyGpu],
    ['api', one, label('tag.svc3.dev/x', 'true'), 'tags', 'ok'],
    ['api', one, label('tag.svc3.dev/old', null), 'untags', 'ok'],
    ['api', one, label('svc3.dev/gpu-passthrough', 'enabled'), 'sets a label that is set', 'ok'],
    ['api', other, label('svc3.dev/gpu-passthrough', 'disabled'), 'changes the GPU label', onlyTags],
    ['api', one, label('svc3.dev/namespace', 'team-a'), 'reserves the node', onlyTags],
    ['api', one, annotation('a', 'b'), 'annotates', onlyTags],
    ['api', one, { spec: { unschedulable: true } }, 'cordons', onlyTags],
    [
      'agent',
      one,
      annotation('svc3.dev/hardware', '{"version":1}'),
      'writes the facts of its own node',
      'ok',
    ],
    [
      'agent',
      other,
      annotation('svc3.dev/hardware', '{"version":1}'),
      'writes the facts of another node',
      onlyOwn,
    ],
    ['agent', one, annotation('keep', 'mine'), "changes another's annotation", onlyHardware],
    ['agent', one, label('svc3.dev/gpu-passthrough', 'disabled'), 'changes the GPU label', onlyHardware],
    ['agent', one, label('svc3.dev/allow-gpu-passthrough', 'true'), 'allows GPUs itself', onlyHardware],
    ['agent', one, { spec: { unschedulable: true } }, 'cordons', onlyHardware],
    ['stolen token without a node', one, annotation('svc3.dev/hardware', '{}'), 'writes the facts', onlyOwn],
  ])('%s, node %o, change %o: %s → %s', async (who, { name }, body, _, message) => {
    const write = () =>
      outcome(clients.get(who)!.patch(nodes, { name }, { type: 'merge', body }, { dryRun: true }));
    // The policies take effect a moment after they were applied.
    await expect.poll(write).toContain(message);
  });

  const gpuUnavailable = { type: 'svc3.dev/GPUUnavailable', status: 'True', reason: 'a', message: 'b' };
  const readyNode = { type: 'Ready', status: 'True', reason: 'a', message: 'b' };
  test.each<[what: string, status: object, message: string]>([
    ['sets its condition', { conditions: [gpuUnavailable] }, 'ok'],
    ['calls a node ready', { conditions: [readyNode] }, onlyGpu],
    ['sets its condition and another', { conditions: [gpuUnavailable, readyNode] }, onlyGpu],
    ['gives a node devices', { allocatable: { 'svc3.dev/gpu-passthrough': '2' } }, onlyGpu],
    ['moves a node', { addresses: [{ type: 'InternalIP', address: '192.0.2.9' }] }, onlyGpu],
    ['says what a node is', { nodeInfo: { architecture: 'arm64' } }, onlyGpu],
  ])('the operator %s in the status of a Node: %o → %s', async (_what, status, message) => {
    const write = () =>
      outcome(
        clients
          .get('operator')!
          .patch(
            nodes,
            one,
            { type: 'strategic', body: { status } },
            { subresource: 'status', dryRun: true },
          ),
      );
    await expect.poll(write).toContain(message);
  });

  test("the operator takes its condition away and leaves everybody else's", async () => {
    const operator = clients.get('operator')!;
    // kube-controller-manager adds conditions of its own to a Node whose kubelet is silent.
    const conditions = async () =>
      ((await admin.get(nodes, one.name)).status?.conditions ?? []).filter(({ type }) =>
        [readyNode.type, gpuUnavailable.type].includes(type),
      );
    const write = (client: KubeClient, condition: object) =>
      client.patch(
        nodes,
        one,
        { type: 'strategic', body: { status: { conditions: [condition] } } },
        { subresource: 'status' },
      );
    await write(admin, readyNode);
    await write(operator, gpuUnavailable);
    expect((await conditions()).map(({ type }) => type).toSorted()).toEqual([
      'Ready',
      'svc3.dev/GPUUnavailable',
    ]);
    await write(operator, { type: gpuUnavailable.type, $patch: 'delete' });
    expect((await conditions()).map(({ type }) => type)).toEqual(['Ready']);
  });

  test.each(['operator', 'api', 'agent'])(
    '%s neither makes nor deletes a Node, nor writes its status',
    async (who) => {
      const client = clients.get(who)!;
      expect(await outcome(client.create(nodes, { metadata: { name: 'new' } }))).toContain('forbidden');
      expect(await outcome(client.delete(nodes, one))).toContain('forbidden');
      const status = { type: 'merge' as const, body: { status: { capacity: { cpu: '1000' } } } };
      expect(await outcome(client.patch(nodes, one, status, { subresource: 'status' }))).toContain(
        'forbidden',
      );
    },
  );
});
