/** A new service account may do its work, unless whoever makes it may not give it that; scripts hear so in the JSON. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { roleBindings, serviceAccounts, vms } from '../../src/api/resources.ts';
import { clusterRoles } from '../support/resources.ts';
import { rendered } from '../integration/chart/helm.ts';
import { inProcess } from '../integration/cli/inprocess.ts';
import { vmWorld, type VmNamespace, type VmWorld } from '../integration/vm/harness.ts';
import { startTestApi, type TestApi } from '../support/api.ts';
import { identity, tokenOf } from '../support/identity.ts';

const { svc3, home } = inProcess();

let world: VmWorld;
let space: VmNamespace;
let api: TestApi;
/** Tokens of a cluster administrator, of somebody who may make accounts and bind nothing, and of one who may not delete them either. */
let callers: Record<'admin' | 'limited' | 'creator', string>;

beforeAll(async () => {
  world = await vmWorld();
  space = await world.namespace('accounts');
  const { client } = world;
  const wanted = new Set(['svc3-view', 'svc3-edit']);
  for (const role of await rendered())
    if (role.kind === 'ClusterRole' && wanted.has(role.metadata.name))
      await client.create(clusterRoles, role);
  const roles = { 'accounts-only': ['create', 'delete', 'get', 'list'], 'accounts-creation': ['create'] };
  for (const [name, verbs] of Object.entries(roles))
    await client.create(clusterRoles, {
      metadata: { name },
      rules: [
        { apiGroups: [''], resources: ['serviceaccounts'], verbs },
        { apiGroups: ['rbac.authorization.k8s.io'], resources: ['rolebindings'], verbs: ['create'] },
      ],
    });
  callers = {
    admin: world.controlPlane.adminToken,
    limited: await identity(client, 'limited', { namespace: space.name, role: 'accounts-only' }),
    creator: await identity(client, 'creator', { namespace: space.name, role: 'accounts-creation' }),
  };
  api = await startTestApi(client);
});

afterAll(async () => {
  await api?.close();
  await world?.stop();
});

interface Made {
  readonly ok: boolean;
  readonly said: string;
  readonly warnings: string;
}
type Make = (caller: keyof typeof callers, name: string, role?: string) => Promise<Made>;

const surfaces: Record<string, Make> = {
  async http(caller, name, role) {
    const path = `/api/v1/namespaces/${space.name}/serviceaccounts/${name}`;
    const body = role === undefined ? {} : { role };
    const { status, text, headers } = await api.call('POST', path, { token: callers[caller], body });
    return { ok: status === 201, said: text, warnings: String(headers['warning'] ?? '') };
  },
  async cli(caller, name, role) {
    const kubeconfig = join(home, `${caller}.json`);
    const { client: _client, ...rest } = world;
    const { server, caPem } = rest.controlPlane;
    const cluster = { server, 'certificate-authority-data': Buffer.from(caPem).toString('base64') };
    await writeFile(
      kubeconfig,
      JSON.stringify({
        clusters: [{ name: 'test', cluster }],
        users: [{ name: 'me', user: { token: callers[caller] } }],
        contexts: [{ name: 'test', context: { cluster: 'test', user: 'me' } }],
        'current-context': 'test',
      }),
    );
    const words = [
      'sa',
      'create',
      name,
      '-n',
      space.name,
      '-o',
      'json',
      ...(role === undefined ? [] : ['--role', role]),
    ];
    const { code, stdout, stderr } = await svc3(words, { env: { KUBECONFIG: kubeconfig } });
    if (code !== 0) return { ok: false, said: stderr, warnings: '' };
    expect(stderr).toBe('');
    return { ok: true, said: stdout, warnings: String(JSON.parse(stdout).warnings ?? '') };
  },
};

/** Whether the account may list and create VMs of the namespace. */
async function rightsOf(name: string): Promise<{ list: boolean; create: boolean }> {
  const client = world.client.withToken(await tokenOf(world.client, space.name, name));
  const may = (call: Promise<unknown>) =>
    call.then(
      () => true,
      () => false,
    );
  const vm = {
    metadata: { generateName: 'vm-', namespace: space.name },
    spec: { image: 'r.example.com/a/b:1', powerState: 'Running' as const },
  };
  return {
    list: await may(client.list(vms, { namespace: space.name })),
    create: await may(client.create(vms, vm)),
  };
}

const isThere = (name: string) =>
  world.client.get(serviceAccounts, name, space.name).then(
    () => true,
    () => false,
  );

describe.each(Object.keys(surfaces))('a service account made by %s', (surface) => {
  const make = surfaces[surface]!;

  test.each([
    [undefined, { list: true, create: true }],
    ['svc3-view', { list: true, create: false }],
    ['none', { list: false, create: false }],
  ])('with role %s may do what that says', async (role, rights) => {
    const name = `${surface}-${role ?? 'default'}`;
    expect(await make('admin', name, role)).toMatchObject({ ok: true, warnings: '' });
    await expect.poll(() => rightsOf(name)).toEqual(rights);
  });

  test('owns its role binding, which another account of the name does not inherit', async () => {
    const name = `${surface}-again`;
    await make('admin', name);
    const { metadata } = await world.client.get(serviceAccounts, name, space.name);
    const { items } = await world.client.list(roleBindings, { namespace: space.name });
    const own = items.filter(
      ({ metadata: { ownerReferences } }) => ownerReferences?.[0]?.uid === metadata.uid,
    );
    expect(own.map(({ roleRef, subjects }) => [roleRef.name, subjects?.[0]?.name])).toEqual([
      ['svc3-edit', name],
    ]);
    await world.client.delete(serviceAccounts, { name, namespace: space.name });
    // The binding of the account before is there until it is collected.
    expect(await make('admin', name, 'svc3-view')).toMatchObject({ ok: true });
  });

  test('has no rights, and that is said, where its maker may not bind the default', async () => {
    const name = `${surface}-limited`;
    const made = await make('limited', name);
    expect(made.ok, made.said).toBe(true);
    expect(made.warnings).toContain('you may not bind svc3-edit');
    expect(await rightsOf(name)).toEqual({ list: false, create: false });
  });

  test('is not made where its maker may not bind the role that was named', async () => {
    const name = `${surface}-refused`;
    const made = await make('limited', name, 'svc3-edit');
    expect(made).toMatchObject({ ok: false });
    expect(made.said).toContain('you may not bind svc3-edit');
    expect(await isThere(name)).toBe(false);
  });

  test('stays where its maker may not delete it either: whoever may bind its role completes it', async () => {
    const name = `${surface}-left`;
    const refused = await make('creator', name, 'svc3-edit');
    expect(refused).toMatchObject({ ok: false });
    expect(refused.said).toContain('you may not bind svc3-edit');
    expect(refused.said).toContain(`service account ${name} stays without a role`);
    const other = await make('admin', name, 'svc3-view');
    expect([other.ok, other.said]).toEqual([false, expect.stringContaining('already exists')]);
    expect(await make('admin', name, 'svc3-edit')).toMatchObject({ ok: true, warnings: '' });
    await expect.poll(() => rightsOf(name)).toEqual({ list: true, create: true });
  });

  test('has no role again that was taken from it', async () => {
    const name = `${surface}-revoked`;
    await make('admin', name);
    const { metadata } = await world.client.get(serviceAccounts, name, space.name);
    expect(metadata.annotations ?? {}).toEqual({});
    const binding = { name: `svc3-account-${metadata.uid}`, namespace: space.name };
    await world.client.delete(roleBindings, binding);
    expect((await make('admin', name)).ok).toBe(false);
    await expect.poll(() => rightsOf(name)).toEqual({ list: false, create: false });
  });
});

test('a token without expiration lives as long as the server lets it, which is said', async () => {
  const env = { KUBECONFIG: world.controlPlane.kubeconfigPath };
  await surfaces['cli']!('admin', 'lasting');
  const words = ['sa', 'token', 'lasting', '-n', space.name, '--no-expiration'];
  const { code, stdout, stderr } = await svc3([...words, '-o', 'json'], { env });
  expect([code, stderr]).toEqual([0, '']);
  const { expirationTimestamp } = JSON.parse(stdout);
  expect(Date.parse(expirationTimestamp)).toBeGreaterThan(Date.now() + 100 * 365 * 24 * 3_600_000);
  const plain = await svc3(words, { env });
  expect(plain.stderr).toMatch(/^The token is valid until \d{4}-/);
  expect(plain.stdout.split('.')).toHaveLength(3);
  expect(await svc3([...words, '--duration', '1h'], { env })).toMatchObject({ code: 2 });
});
