import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { images, isos, nodes, vmConfigs, vmPools, vms } from '../../src/api/resources.ts';
import type { Image } from '../../src/api/image.ts';
import type { Resource } from '../../src/api/object.ts';
import type { Vm, VmStatus } from '../../src/api/vm.ts';
import { ifFound } from '../../src/errors.ts';
import { createGateway } from '../../src/http/legacy/gateway.ts';
import { rows } from '../../src/http/legacy/table.ts';
import { effective } from '../unit/controllers/vm/builders.ts';
import { startTestApi, type TestApi } from '../support/api.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../support/cluster.ts';
import { holdWatches } from '../support/heldwatches.ts';

/**
 * A client's next request may go to another replica, which has not heard of what the first has done: it refused a resume, since the VM
 * ran as far as it knew, a save, since the VM had no disk yet, and left undone what it believed to be so already.
 */
let cluster: TestCluster;
let namespace: string;

beforeAll(async () => {
  cluster = await testCluster();
  namespace = await uniqueNamespace(cluster.client, 'replicas');
});

afterAll(async () => {
  for (const plural of ['vms', 'images'])
    await cluster.client.request({
      method: 'DELETE',
      path: `/apis/svc3.dev/v1/namespaces/${namespace}/${plural}`,
    });
});

async function create(name: string, status: VmStatus, spec: Partial<Vm['spec']> = {}): Promise<void> {
  await cluster.client.create(vms, {
    metadata: { name, namespace, ...(spec.disk === undefined ? {} : { finalizers: ['example.com/held'] }) },
    spec: { image: 'registry.example.com/debian:12', cpu: 1, memory: '256Mi', ...spec },
  } as Vm);
  await say(name, status);
}

async function say(name: string, status: VmStatus): Promise<void> {
  const patch = { type: 'merge', body: { status } } as const;
  await cluster.client.patch(vms, { name, namespace }, patch, { subresource: 'status' });
}

const booted = {
  type: 'Booted',
  status: 'True',
  reason: 'Booted',
  message: '',
  lastTransitionTime: '2026-11-01T10:00:00Z',
} as const;

type Ask = (method: string, path: string, body?: object) => ReturnType<TestApi['call']>;

/** A replica that has heard of these VMs, and of all nodes, and then of nothing more. */
async function aReplica(...known: string[]): Promise<Ask> {
  return (await aHeldReplica(...known)).ask;
}

/** The same, until it is released. */
async function aHeldReplica(...known: string[]): Promise<{ readonly ask: Ask; release(): void }> {
  const watches = holdWatches(cluster.client);
  const api = await startTestApi(watches.client, {}, (services) => ({
    surfaces: (authenticator) => [createGateway(authenticator, rows, services.settings.defaultNamespace)],
  }));
  onTestFinished(async () => {
    watches.release();
    await api.close();
  });
  const { objects } = api.services.caches.vms;
  for (const name of known) await expect.poll(() => objects.get(name, namespace)).toBeDefined();
  watches.hold('vms', 'nodes', 'images', 'isos', 'vmconfigs', 'vmpools');
  const ask: Ask = (method, path, body) =>
    api.call(method, path, {
      token: cluster.adminToken,
      headers: { 'x-svc3-namespace': namespace },
      body,
    });
  return { ask, release: watches.release };
}

test('a verb that another replica’s made possible is carried out', async () => {
  await create('sleeps', { powerState: 'Running' });
  const ask = await aReplica('sleeps');
  await say('sleeps', { powerState: 'Suspended' });
  await cluster.client.patch(
    vms,
    { name: 'sleeps', namespace },
    { type: 'merge', body: { spec: { powerState: 'Suspended' } } },
  );
  const path = `/api/v1/namespaces/${namespace}/vms/sleeps`;
  // Neither does what kube-apiserver knows fit this one.
  const started = await ask('POST', `${path}/exec?wait=false`, { command: 'start' });
  expect([started.status, started.json.message]).toEqual([
    409,
    expect.stringMatching(/^VM sleeps is Suspended, start needs it to be /),
  ]);
  const resumed = await ask('POST', `${path}/exec?wait=false`, { command: 'resume' });
  expect([resumed.status, resumed.json.message]).toEqual([202, 'resume of VM sleeps was accepted']);
  expect((await cluster.client.get(vms, 'sleeps', namespace)).spec.powerState).toBe('Running');
});

test('a verb is for the VM that there is, also where that was made anew', async () => {
  await create('anew', { powerState: 'Running', conditions: [booted] });
  const ask = await aReplica('anew');
  await cluster.client.delete(vms, { name: 'anew', namespace });
  await create('anew', { powerState: 'Running', conditions: [booted] });
  const path = `/api/v1/namespaces/${namespace}/vms/anew/exec?wait=false`;
  const suspended = await ask('POST', path, { command: 'suspend' });
  expect([suspended.status, suspended.json.message]).toEqual([202, 'suspend of VM anew was accepted']);
  expect((await cluster.client.get(vms, 'anew', namespace)).spec.powerState).toBe('Suspended');
});

test.each(['restart', 'revert'] as const)(
  'another replica tells what has become of a %s whose own ends, and it is carried out once',
  async (command) => {
    const name = `told-${command}`;
    await create(name, { powerState: 'Running', conditions: [booted] });
    const path = `/api/v1/namespaces/${namespace}/vms/${name}`;
    const ending = await startTestApi(cluster.client);
    const { ask, release } = await aHeldReplica(name);
    const token = cluster.adminToken;
    const asking = ending.call('POST', `${path}/exec`, { token, body: { command } });
    const member = `${command}Request` as const;
    const asked = async () => (await cluster.client.get(vms, name, namespace)).spec[member];
    await expect.poll(asked).toBeDefined();
    const request = await asked();
    const closing = ending.close(10_000);
    const accepted = await asking;
    await closing;
    expect([accepted.status, accepted.json.message]).toEqual([202, `${command} of VM ${name} was accepted`]);
    const look = async () =>
      (await ask('GET', `${path}?request=${accepted.json['request']}`)).json['outcome'];
    expect(await look()).toEqual({ state: 'UnderWay' });
    const { generation = 0 } = (await cluster.client.get(vms, name, namespace)).metadata;
    await say(name, { observedGeneration: generation, [member]: request });
    release();
    await expect.poll(look).toEqual({ state: 'Done' });
    expect(await asked()).toBe(request);
    await cluster.client.delete(vms, { name, namespace });
    await create(name, { powerState: 'Running', conditions: [booted] });
    // Also where a cache still has the one before.
    expect((await ask('GET', `${path}?request=${accepted.json['request']}`)).status).toBe(404);
  },
);

test('another replica tells what has become of a change whose own ends', async () => {
  await create('changes', { powerState: 'Running', conditions: [booted], observedGeneration: 1 });
  const path = `/api/v1/namespaces/${namespace}/vms/changes`;
  const ending = await startTestApi(cluster.client);
  const { ask, release } = await aHeldReplica('changes');
  const token = cluster.adminToken;
  const changing = ending.call('PATCH', path, { token, body: { cpu: 2 } });
  await expect.poll(async () => (await cluster.client.get(vms, 'changes', namespace)).spec.cpu).toBe(2);
  const closing = ending.close(10_000);
  const { status, json } = await changing;
  await closing;
  expect(status).toBe(202);
  const look = () => ask('GET', `${path}?request=${json['request']}`);
  expect((await look()).json['outcome']).toEqual({ state: 'UnderWay' });
  const { generation = 0 } = (await cluster.client.get(vms, 'changes', namespace)).metadata;
  await say('changes', { observedGeneration: generation, warnings: ['no room'] });
  release();
  await expect.poll(async () => (await look()).json['outcome']).toEqual({ state: 'Done' });
  expect((await look()).headers['warning']).toContain('no room');
});

test('no verb is for a VM that was made anew where the one before is meant', async () => {
  await create('meant', { powerState: 'Running', conditions: [booted] });
  const ask = await aReplica('meant');
  const before = await cluster.client.get(vms, 'meant', namespace);
  await cluster.client.delete(vms, { name: 'meant', namespace });
  await create('meant', { powerState: 'Running', conditions: [booted] });
  const now = await cluster.client.get(vms, 'meant', namespace);
  const path = `/api/v1/namespaces/${namespace}/vms/meant`;
  const verbs = (uid: string | undefined): readonly [method: string, path: string, body?: object][] => {
    const meaning = uid === undefined ? '' : `&uid=${uid}`;
    return [
      ['POST', `${path}/exec?wait=false`, { command: 'suspend', uid }],
      ['PATCH', `${path}?wait=false${meaning}`, { cpu: 2 }],
      ['POST', `${path}/eject`, { uid }],
      ['DELETE', `${path}?wait=false&deleteDisk=true${meaning}`],
      ['DELETE', `${path}?wait=false${meaning}`],
    ];
  };
  for (const verb of verbs(before.metadata.uid)) {
    const { status, json } = await ask(...verb);
    expect([verb[1], status, json.message]).toEqual([
      verb[1],
      409,
      expect.stringContaining('is another one'),
    ]);
  }
  expect(await cluster.client.get(vms, 'meant', namespace)).toEqual(now);
  const [suspend, change, eject] = verbs(now.metadata.uid);
  const [, changeAny, ejectAny, , remove] = verbs(undefined);
  for (const [status, verb] of [
    [202, suspend],
    [202, change],
    [202, changeAny],
    [200, eject],
    [200, ejectAny],
    [202, remove],
  ] as const) {
    const answer = await ask(...verb!);
    expect([...verb!.slice(0, 2), answer.status, answer.text]).toEqual([
      ...verb!.slice(0, 2),
      status,
      expect.any(String),
    ]);
  }
  await expect.poll(() => ifFound(cluster.client.get(vms, 'meant', namespace))).toBeUndefined();
});

test.each([
  {
    kind: images,
    spec: { source: { upload: {} } },
    changes: [
      ['POST', '/copy', { name: 'copied' }],
      ['POST', '/description', { description: 'other' }],
    ],
  },
  {
    kind: isos,
    spec: { source: { upload: {} } },
    changes: [
      ['POST', '/copy', { name: 'copied' }],
      ['POST', '/description', { description: 'other' }],
    ],
  },
  {
    kind: vmPools,
    spec: { minIdle: 0, template: { image: 'registry.example.com/debian:12' } },
    changes: [
      ['POST', '/scale', { minIdle: 2 }],
      ['PATCH', '', { minIdle: 2 }],
    ],
  },
  { kind: vmConfigs, spec: { image: 'registry.example.com/debian:12' }, changes: [] },
] as unknown as readonly {
  readonly kind: Resource<Image>;
  readonly spec: Image['spec'];
  readonly changes: readonly (readonly [method: string, verb: string, body: object])[];
}[])(
  '$kind.kind that was made anew is not what the one before was meant to become',
  async ({ kind, spec, changes }) => {
    const make = () => cluster.client.create(kind, { metadata: { name: 'meant', namespace }, spec });
    const { uid: before } = (await make()).metadata;
    const ask = await aReplica();
    await cluster.client.delete(kind, { name: 'meant', namespace });
    const now = await make();
    const path = `/api/v1/namespaces/${namespace}/${kind.plural}/meant`;
    const all = [...changes, ['DELETE', ''] as const];
    for (const [method, verb, body] of all) {
      const { status, json } = await ask(method, `${path}${verb}?uid=${before}`, body);
      expect([method, verb, status, json.message]).toEqual([
        method,
        verb,
        409,
        expect.stringContaining('UID'),
      ]);
    }
    expect(await cluster.client.get(kind, 'meant', namespace)).toEqual(now);
    for (const [method, verb, body] of all) {
      const { status, text } = await ask(method, `${path}${verb}?uid=${now.metadata.uid}`, body);
      expect([method, verb, status, text]).toEqual([
        method,
        verb,
        verb === '/copy' ? 202 : 200,
        expect.any(String),
      ]);
    }
    expect(await ifFound(cluster.client.get(kind, 'meant', namespace))).toBeUndefined();
  },
);

test('the disk of a VM that got one since is saved', async () => {
  await create('young', {});
  const ask = await aReplica('young');
  await say('young', {
    conditions: [booted],
    powerState: 'Running',
    effective: { ...effective, image: 'r.example.com/a@sha256:1' },
  });
  const saved = await ask('POST', `/api/v1/namespaces/${namespace}/vms/young/save`, { imageName: 'kept' });
  expect([saved.status, saved.text]).toEqual([202, expect.any(String)]);
});

test('the console of a VM that runs by now is opened', async () => {
  await create('screen', {});
  const ask = await aReplica('screen');
  await say('screen', { powerState: 'Running', conditions: [booted] });
  const ticket = await ask('POST', `/api/v1/namespaces/${namespace}/vms/screen/console`, {});
  expect([ticket.status, ticket.json.ticket]).toEqual([200, expect.any(String)]);
});

test('what is gone already is purged, and is nothing that could be deleted', async () => {
  for (const name of ['purged', 'deleted']) await create(name, { powerState: 'Running' });
  const ask = await aReplica('purged', 'deleted');
  for (const name of ['purged', 'deleted']) await cluster.client.delete(vms, { name, namespace });
  const purged = await ask('DELETE', '/resources/vm/purge', { svc_vm_name: 'purged' });
  expect([purged.status, purged.json.message]).toEqual([200, 'Successfully purged VM']);
  const deleted = await ask('DELETE', '/resources/vm/delete', { svc_vm_name: 'deleted' });
  expect(deleted.status).toBe(500);
  expect(deleted.text).toContain('No VMs with that name are currently deployed');
});

test('a node is tagged and untagged whatever the replica believes of it', async () => {
  const name = `${namespace}-node`;
  const label = 'tag.svc3.dev/fast';
  const write = (value: string | null) =>
    cluster.client.patch(
      nodes,
      { name },
      { type: 'merge', body: { metadata: { labels: { [label]: value } } } },
    );
  const isTagged = async () => (await cluster.client.get(nodes, name)).metadata.labels?.[label] === 'true';
  await cluster.client.create(nodes, { metadata: { name, labels: { [label]: 'true' } } });
  onTestFinished(() => cluster.client.delete(nodes, { name }));
  const ask = await aReplica();
  const path = `/api/v1/namespaces/${namespace}/nodes/${name}`;
  await write(null);
  expect((await ask('POST', `${path}/tag`, { tag: 'fast' })).status).toBe(200);
  expect(await isTagged()).toBe(true);
  await write(null);
  const untagging = await aReplica();
  await write('true');
  expect((await untagging('POST', `${path}/untag`, { tag: 'fast' })).status).toBe(200);
  expect(await isTagged()).toBe(false);
});

test('a node is tagged that another replica has heard of before, or of whom it is for', async () => {
  const [late, given] = [`${namespace}-late`, `${namespace}-given`];
  const reserved = (of: string) => ({ metadata: { labels: { 'svc3.dev/namespace': of } } });
  await cluster.client.create(nodes, { metadata: { name: given, ...reserved('others').metadata } });
  onTestFinished(() => cluster.client.delete(nodes, { name: given }));
  const ask = await aReplica();
  await cluster.client.create(nodes, { metadata: { name: late } });
  onTestFinished(() => cluster.client.delete(nodes, { name: late }));
  const tag = async (name: string) =>
    (await ask('POST', `/api/v1/namespaces/${namespace}/nodes/${name}/tag`, { tag: 'fast' })).status;
  expect([await tag(late), await tag(given), await tag('missing')]).toEqual([200, 404, 404]);
  await cluster.client.patch(nodes, { name: given }, { type: 'merge', body: reserved(namespace) });
  expect(await tag(given)).toBe(200);
});

describe('a disk is deleted', () => {
  const digest = `sha256:${'0'.repeat(64)}`;

  /** An Image whose disk is in the store, unless it is a copy that is not there yet. */
  async function image(name: string, copyOf?: string): Promise<void> {
    const source = copyOf === undefined ? { upload: {} } : { image: { name: copyOf } };
    await cluster.client.create(images, { metadata: { name, namespace }, spec: { source } });
    if (copyOf === undefined) await store(name);
  }
  async function store(name: string): Promise<void> {
    const patch = { type: 'merge', body: { status: { digest } } } as const;
    await cluster.client.patch(images, { name, namespace }, patch, { subresource: 'status' });
  }
  const remove = async (ask: Ask, name: string) => {
    const { status, json } = await ask('DELETE', `/api/v1/namespaces/${namespace}/images/${name}`, {});
    return [status, json.message];
  };
  /** The answer to a deletion of which the replica hears once it is carried out. */
  async function removed({ ask, release }: Awaited<ReturnType<typeof aHeldReplica>>, name: string) {
    const removing = remove(ask, name);
    const isGone = () =>
      cluster.client.get(images, name, namespace).then(
        () => false,
        () => true,
      );
    await expect.poll(isGone).toBe(true);
    release();
    return removing;
  }
  const success = (name: string) => [200, `Successfully deleted image ${name}`];

  test('that a VM used which another replica has deleted, and not while one uses it', async () => {
    await image('golden');
    for (const name of ['user-1', 'user-2']) await create(name, {}, { image: 'golden' });
    const replica = await aHeldReplica('user-1', 'user-2');
    await cluster.client.delete(vms, { name: 'user-1', namespace });
    expect(await remove(replica.ask, 'golden')).toEqual([409, 'image golden is in use by VM user-2']);
    await cluster.client.delete(vms, { name: 'user-2', namespace });
    expect(await removed(replica, 'golden')).toEqual(success('golden'));
  });

  test('whose copy is there by now', async () => {
    await image('source');
    await image('copy', 'source');
    const replica = await aHeldReplica();
    expect((await remove(replica.ask, 'source'))[0]).toBe(409);
    await store('copy');
    expect(await removed(replica, 'source')).toEqual(success('source'));
  });

  test('that was made anew', async () => {
    await image('made-anew');
    const replica = await aHeldReplica();
    await cluster.client.delete(images, { name: 'made-anew', namespace });
    await image('made-anew');
    expect(await removed(replica, 'made-anew')).toEqual(success('made-anew'));
  });
});

test('a disk that is to go with its VM goes, though the replica believes that it would anyway', async () => {
  const disk = { storage: 'Persistent', whenDeleted: 'Delete' } as const;
  await create('kept', { effective: { ...effective, disk } }, { disk });
  const key = { name: 'kept', namespace };
  const write = (body: object) => cluster.client.patch(vms, key, { type: 'merge', body });
  onTestFinished(async () => void (await write({ metadata: { finalizers: [] } })));
  const ask = await aReplica('kept');
  await write({ spec: { disk: { whenDeleted: 'Retain' } } });
  const path = `/api/v1/namespaces/${namespace}/vms/kept?deleteDisk=true&wait=false`;
  expect((await ask('DELETE', path, {})).status).toBe(202);
  expect((await cluster.client.get(vms, 'kept', namespace)).spec.disk?.whenDeleted).toBe('Delete');
});
