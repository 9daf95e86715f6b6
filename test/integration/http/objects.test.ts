import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { finalizer } from '../../../src/api/meta.ts';
import {
  images,
  namespaces,
  nodes,
  registryCredentials,
  secrets,
  vmPools,
} from '../../../src/api/resources.ts';
import { condition, startTestApi, type TestApi } from '../../support/api.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../../support/cluster.ts';

let cluster: TestCluster;
let api: TestApi;
let namespace: string;
let token: string;
const image = 'registry.example.com/team/debian:12';

beforeAll(async () => {
  cluster = await testCluster();
  token = cluster.adminToken;
  namespace = await uniqueNamespace(cluster.client, 'objects');
  await cluster.client.apply(namespaces, { metadata: { name: 'svc3-credentials' } });
  api = await startTestApi(cluster.client);
});

afterAll(async () => {
  await api?.close();
});

const call: TestApi['call'] = (method, path, options = {}) => api.call(method, path, { token, ...options });
const ns = (path: string) => `/api/v1/namespaces/${namespace}${path}`;

describe('VM configurations', () => {
  test('create, list, get, deploy from it, delete', async () => {
    const body = {
      name: 'small',
      image,
      cpu: 2,
      memory: 4.5,
      gpuPassthrough: false,
      vncConsole: true,
      scheduler: 'most-allocated',
      tag: 'fast',
      tagRequired: true,
    };
    const created = await call('POST', ns('/vmconfigs'), { body });
    expect(created.status).toBe(201);
    expect(created.json).toMatchObject({ ...body, namespace });
    expect((await call('GET', ns('/vmconfigs'))).json.items).toEqual([created.json]);
    expect((await call('GET', ns('/vmconfigs/small'))).json).toEqual(created.json);
    const deployed = await call('POST', ns('/vms?wait=false'), {
      body: { vmConfig: 'small', name: 'from-config' },
    });
    expect([deployed.status, deployed.json.memory]).toEqual([202, '4.50Gi']);
    expect((await call('GET', ns('/vms/from-config'))).json).toMatchObject({
      cpu: 2,
      memory: '4.50Gi',
      image,
    });
    await call('DELETE', ns('/vms/from-config'));
    expect((await call('DELETE', ns('/vmconfigs/small'))).json.status).toBe('Success');
    expect((await call('GET', ns('/vmconfigs/small'))).status).toBe(404);
  });

  test('two words for one thing that say two things are refused', async () => {
    const body = { name: 'both', image, type: 'arm64', architecture: 'amd64' };
    const { status, json } = await call('POST', ns('/vmconfigs'), { body });
    expect([status, json.details.causes[0].field]).toEqual([422, 'type']);
    const same = await call('POST', ns('/vmconfigs'), { body: { ...body, architecture: 'arm64' } });
    expect([same.status, same.json.type]).toEqual([201, 'arm64']);
    await call('DELETE', ns('/vmconfigs/both'));
  });

  test('a name longer than 50 characters is refused', async () => {
    const { status, json } = await call('POST', ns('/vmconfigs'), { body: { name: 'a'.repeat(51), image } });
    expect([status, json.details.causes[0].field]).toEqual([422, 'name']);
  });
});

test('what kube-apiserver could not check beside another mistake names no field', async () => {
  const customVMMetadata = Object.fromEntries(Array.from({ length: 65 }, (_, at) => [`n${at}`, 'v']));
  const body = { name: 'much', image, customVMMetadata };
  const { status, json } = await call('POST', ns('/vmconfigs'), { body });
  const fields = json.details.causes.map(({ field }: { field: string }) => field);
  expect([status, fields]).toEqual([422, ['customVMMetadata']]);
});

describe('VM pools', () => {
  test('create, list, get, scale, deploy from it, delete', async () => {
    const body = { name: 'ci', image, cpu: 2, memory: 4.5, minIdle: 2, maxSize: 3, standby: 'Running' };
    const created = await call('POST', ns('/vmpools'), { body });
    expect([created.status, created.json]).toMatchObject([201, { ...body, namespace, idle: 0 }]);
    expect((await call('GET', ns('/vmpools'))).json.items).toEqual([created.json]);
    expect((await call('GET', ns('/vmpools/ci'))).json).toEqual(created.json);
    const scaled = await call('POST', ns('/vmpools/ci/scale'), { body: { minIdle: 3 } });
    expect([scaled.status, scaled.json]).toMatchObject([200, { minIdle: 3, maxSize: 3 }]);
    const tooMany = await call('POST', ns('/vmpools/ci/scale'), { body: { minIdle: 4 } });
    expect([tooMany.status, tooMany.json.details.causes[0].field]).toEqual([422, 'maxSize']);
    const deployed = await call('POST', ns('/vms?wait=false'), { body: { pool: 'ci', name: 'of-pool' } });
    expect([deployed.status, deployed.json.memory]).toEqual([202, '4.50Gi']);
    const { json } = await call('GET', ns('/vms/of-pool'));
    expect(json).toMatchObject({ pool: 'ci', cpu: 2, memory: '4.50Gi', image });
    await call('DELETE', ns('/vms/of-pool'));
    expect((await call('DELETE', ns('/vmpools/ci'))).json.status).toBe('Success');
    expect((await call('GET', ns('/vmpools/ci'))).status).toBe(404);
  });

  test('takes type for architecture, as items show it and configurations take it', async () => {
    const body = { name: 'arm', image, type: 'arm64' };
    const { status, headers, json } = await call('POST', ns('/vmpools'), { body });
    expect([status, headers['warning'], json]).toMatchObject([201, undefined, body]);
    const { spec } = await cluster.client.get(vmPools, 'arm', namespace);
    expect(spec.template.architecture).toBe('arm64');
    await call('DELETE', ns('/vmpools/arm'));
    const both = { ...body, architecture: 'amd64' };
    const refused = await call('POST', ns('/vmpools'), { body: both });
    expect([refused.status, refused.json.details.causes[0].field]).toEqual([422, 'type']);
  });

  test('a VM of a pool that says what the template fixes is refused with every field, as the request names it', async () => {
    await call('POST', ns('/vmpools'), { body: { name: 'fixed', image } });
    const body = { pool: 'fixed', name: 'of-pool', cpu: 2, sshNodePort: false, reservedPorts: '80' };
    const { status, json } = await call('POST', ns('/vms?wait=false'), { body });
    const fields = json.details.causes.map(({ field }: { field: string }) => field).sort();
    expect([status, fields]).toEqual([422, ['cpu', 'reservedPorts', 'sshNodePort']]);
    const screen = { pool: 'fixed', name: 'of-pool', displayDPI: 96, screenshareNodePort: true };
    const other = await call('POST', ns('/vms?wait=false'), { body: screen });
    const named = other.json.details.causes.map(({ field }: { field: string }) => field).sort();
    expect([other.status, named]).toEqual([422, ['displayDPI', 'screenshareNodePort']]);
    await call('DELETE', ns('/vmpools/fixed'));
  });

  test('a VM of a pool that is not there is refused at once', async () => {
    const { status, json } = await call('POST', ns('/vms'), { body: { pool: 'missing', name: 'of-pool' } });
    expect([status, json.message]).toEqual([404, 'vmpools "missing" not found']);
  });

  test('a pool of nothing is refused with a field of the request', async () => {
    const { status, json } = await call('POST', ns('/vmpools'), { body: { name: 'nothing' } });
    expect([status, json.details.causes[0].field]).toEqual([422, 'image']);
  });

  test('a pool may hold nothing, as kubectl says it', async () => {
    const body = { name: 'paused', image, minIdle: 0, maxSize: 0 };
    expect(await call('POST', ns('/vmpools'), { body })).toMatchObject({ status: 201, json: body });
    const scaled = await call('POST', ns('/vmpools/paused/scale'), { body: { minIdle: 0, maxSize: 0 } });
    expect([scaled.status, scaled.json.maxSize]).toEqual([200, 0]);
    await call('DELETE', ns('/vmpools/paused'));
  });

  test('a pool whose guests would hold the GPU for nobody is refused with the field', async () => {
    const { status, json } = await call('POST', ns('/vmpools'), {
      body: { name: 'gpu', image, gpuPassthrough: true },
    });
    expect([status, json.details.causes[0].field]).toEqual([422, 'gpuPassthrough']);
  });
});

/** Says of an Image that its disk is in the store. */
async function store(name: string): Promise<void> {
  const digest = `sha256:${'0'.repeat(64)}`;
  const body = { status: { digest } };
  const key = { name, namespace };
  await cluster.client.patch(images, key, { type: 'merge', body }, { subresource: 'status' });
  const { objects } = api.services.caches.images;
  await expect.poll(() => objects.get(name, namespace)?.status?.digest).toBe(digest);
}

describe('images', () => {
  test('generate, copy, describe, refuse to delete while used, delete', async () => {
    const made = await call('POST', ns('/images'), { body: { name: 'blank', size: '10G' } });
    expect([made.status, made.json.state]).toEqual([202, 'Updating']);
    expect((await call('POST', ns('/images/blank/copy'), { body: { name: 'blank2' } })).status).toBe(202);
    expect((await call('POST', ns('/images/nothing/copy'), { body: { name: 'x' } })).status).toBe(404);
    expect(
      (await call('POST', ns('/images/blank/description'), { body: { description: 'empty' } })).json
        .description,
    ).toBe('empty');
    expect((await call('GET', ns('/images'))).json.items.map((item: { name: string }) => item.name)).toEqual([
      'blank',
      'blank2',
    ]);
    // Nobody uses what has nothing in the store.
    await store('blank');
    await call('POST', ns('/vms?wait=false'), { body: { name: 'user', image: 'blank' } });
    await expect.poll(async () => (await call('GET', ns('/vms/user'))).status).toBe(200);
    await expect.poll(async () => (await call('GET', ns('/vms'))).json.items.length).toBe(1);
    const refused = await call('DELETE', ns('/images/blank'));
    expect([refused.status, refused.json.message]).toEqual([
      409,
      'image blank is in use by VM user and Image blank2',
    ]);
    await call('DELETE', ns('/vms/user'));
    const copied = await call('DELETE', ns('/images/blank'));
    expect([copied.status, copied.json.message]).toEqual([409, 'image blank is in use by Image blank2']);
    expect((await call('GET', ns('/images/blank2'))).json.copyOf).toBe('blank');
    await store('blank2');
    expect((await call('DELETE', ns('/images/blank'))).status).toBe(200);
    expect((await call('GET', ns('/images/blank2/download'))).status).toBe(409);
    await call('DELETE', ns('/images/blank2'));
  });

  test('a deletion is done when the name is free again, and is said to go on where that takes long', async () => {
    const { client } = cluster;
    const key = { name: 'held', namespace };
    const release = () =>
      client.patch(images, key, { type: 'merge', body: { metadata: { finalizers: null } } });
    const create = () =>
      client.create(images, {
        metadata: { ...key, finalizers: [finalizer] },
        spec: { source: { blank: { size: '1G' } } },
      });
    await create();
    const deletion = call('DELETE', ns('/images/held'));
    const isGoing = async () => (await client.get(images, 'held', namespace)).metadata.deletionTimestamp;
    await expect.poll(isGoing).toBeDefined();
    const late = await call('POST', ns('/images/held/copy'), { body: { name: 'late' } });
    expect([late.status, late.json.message]).toEqual([
      409,
      'image held is being deleted: a copy comes too late',
    ]);
    await release();
    expect(await deletion).toMatchObject({ status: 200, json: { status: 'Success' } });
    await create();
    const conditions = [condition('Ready', 'False', 'InUse', 'in use by VM of namespace ci')];
    const body = { status: { conditions } };
    await client.patch(images, key, { type: 'merge', body }, { subresource: 'status' });
    const kept = await call('DELETE', ns('/images/held'));
    expect([kept.status, kept.json.message]).toEqual([
      202,
      'deletion of image held has begun: in use by VM of namespace ci',
    ]);
    await release();
  });

  test('a remote image is pulled under the last part of its name', async () => {
    expect((await call('GET', ns('/remoteimages'))).json.items[0].name).toBe(image);
    const { status, json } = await call('POST', ns(`/remoteimages/${encodeURIComponent(image)}/pull`));
    expect([status, json.name]).toEqual([202, 'debian']);
    expect(
      (await call('POST', ns('/remoteisos/r.example.com%2Finstaller/pull'), { body: { name: 'iso1' } })).json
        .name,
    ).toBe('iso1');
    expect((await call('GET', ns('/isos'))).json.items).toHaveLength(1);
    await call('DELETE', ns('/images/debian'));
    await call('DELETE', ns('/isos/iso1'));
  });
});

describe('nodes', () => {
  test('a namespace sees its own and the unreserved nodes, and tags them', async () => {
    const free = `free-${namespace}`;
    const own = `own-${namespace}`;
    const other = `other-${namespace}`;
    for (const [name, reserved] of [[free], [own, namespace], [other, 'elsewhere']] as const) {
      await cluster.client.create(nodes, {
        metadata: {
          name,
          labels: {
            'kubernetes.io/arch': 'amd64',
            ...(reserved === undefined ? {} : { 'svc3.dev/namespace': reserved }),
          },
        },
      });
      await cluster.client.patch(
        nodes,
        { name },
        {
          type: 'merge',
          body: {
            status: {
              allocatable: { cpu: '12', memory: '32Gi', 'svc3.dev/gpu-passthrough': '1' },
              addresses: [{ type: 'InternalIP', address: '192.0.2.1' }],
              conditions: [{ type: 'Ready', status: 'True' }],
            },
          },
        },
        { subresource: 'status' },
      );
    }
    const names = async () =>
      (await call('GET', ns('/nodes'))).json.items.map((item: { name: string }) => item.name);
    await expect.poll(() => api.services.caches.nodes.get(other)).toBeDefined();
    await expect.poll(names).toEqual(expect.arrayContaining([free, own]));
    expect(await names()).not.toContain(other);
    await expect
      .poll(async () => (await call('GET', ns(`/nodes/${own}`))).json)
      .toEqual({
        name: own,
        namespace,
        nodeIP: '192.0.2.1',
        availableCpu: 12,
        availableMemory: '32.00G',
        availableGpu: 1,
        allocatableCpu: 12,
        allocatableMemory: '32.00G',
        allocatableGpu: 1,
        nodeType: 'WORKER',
        phase: 'READY',
        architecture: 'amd64',
        tags: [],
        gpuPassthrough: false,
      });
    expect((await call('POST', ns(`/nodes/${own}/tag`), { body: { tag: 'fast' } })).status).toBe(200);
    expect((await call('GET', ns(`/nodes/${own}`))).json.tags).toEqual(['fast']);
    expect((await call('POST', ns(`/nodes/${own}/untag`), { body: { tag: 'fast' } })).status).toBe(200);
    expect((await call('GET', ns(`/nodes/${own}`))).json.tags).toEqual([]);
    expect((await call('POST', ns(`/nodes/${other}/tag`), { body: { tag: 'fast' } })).status).toBe(404);
    expect((await call('POST', ns(`/nodes/${own}/tag`), { body: { tag: 'no tag' } })).status).toBe(422);
    for (const name of [free, own, other]) await cluster.client.delete(nodes, { name });
  });
});

describe('registry credentials', () => {
  const path = '/secrets/registrycredentials';
  const server = 'https://registry.example.com:5000';

  async function removeFinalizers(): Promise<void> {
    const { items } = await cluster.client.list(registryCredentials, { namespace });
    for (const { metadata } of items)
      await cluster.client.patch(
        registryCredentials,
        { name: metadata.name ?? '', namespace },
        { type: 'merge', body: { metadata: { finalizers: null } } },
      );
  }

  test('add, list without the password, refuse a second, replace, remove', async () => {
    const body = { server, username: 'robot', password: 'canary-password' };
    const added = await call('POST', ns(`${path}/add`), { body });
    expect([added.status, added.json.status]).toEqual([201, 'Success']);
    const list = await call('GET', ns(path));
    expect(list.json).toEqual({
      items: [{ server, username: 'robot', allowInsecure: false, createdAt: expect.any(String) }],
    });
    const second = await call('POST', ns(`${path}/add`), { body });
    expect([second.status, second.json.reason]).toEqual([409, 'AlreadyExists']);
    const replaced = await call('POST', ns(`${path}/add`), {
      body: { ...body, username: 'other', password: 'canary-password-2', replace: true },
    });
    expect(replaced.status).toBe(200);
    expect((await call('GET', ns(path))).json.items[0].username).toBe('other');
    const secret = await cluster.client.get(
      secrets,
      `${namespace}.registry.example.com.5000`,
      'svc3-credentials',
    );
    expect([secret.type, secret.metadata.labels?.['svc3.dev/managed']]).toEqual([
      'kubernetes.io/basic-auth',
      'true',
    ]);
    expect(Buffer.from(secret.data?.['password'] ?? '', 'base64').toString()).toBe('canary-password-2');
    const removed = await call('DELETE', ns(`${path}/remove`), { body: { server } });
    expect(removed.status).toBe(200);
    await removeFinalizers();
    await expect.poll(async () => (await call('GET', ns(path))).text).toBe('{"items":[]}');
    // No operator has released the password: it is left as by an `add` that was cut off, and goes with a second removal.
    expect((await call('DELETE', ns(`${path}/remove`), { body: { server } })).status).toBe(200);
    await expect(cluster.client.get(secrets, secret.metadata.name ?? '', 'svc3-credentials')).rejects.toThrow(
      'not found',
    );
    expect((await call('DELETE', ns(`${path}/remove`), { body: { server } })).status).toBe(404);
    for (const text of [added, list, second, replaced, removed].map((answer) => JSON.stringify(answer)))
      expect(text).not.toContain('canary');
    expect(api.log.lines.join('\n')).not.toContain('canary');
  });

  test.each([
    [
      'http without allowInsecure',
      { server: 'http://r.example.com', username: 'a', password: 'b' },
      'allowInsecure',
    ],
    ['a server without a scheme', { server: 'r.example.com', username: 'a', password: 'b' }, 'server'],
    ['an empty password', { server, username: 'a', password: '' }, 'password'],
    ['no username', { server, password: 'b' }, 'username'],
  ])('%s is refused and the field named', async (_, body, field) => {
    const { status, json } = await call('POST', ns(`${path}/add`), { body });
    expect(status).toBe(422);
    expect(json.details.causes.map((cause: { field: string }) => cause.field)).toContain(field);
  });
});

describe('service accounts', () => {
  test('create, token for a year or a while, delete', async () => {
    expect((await call('POST', ns('/serviceaccounts/ci'))).status).toBe(201);
    expect((await call('POST', ns('/serviceaccounts/ci'))).status).toBe(409);
    const year = await call('POST', ns('/serviceaccounts/ci/token'), { body: {} });
    expect(year.status).toBe(200);
    const lifetime = (answer: { json: { expirationTimestamp: string } }) =>
      (Date.parse(answer.json.expirationTimestamp) - Date.now()) / 3_600_000;
    expect(lifetime(year)).toBeGreaterThan(8_700);
    const headers = { 'content-type': 'application/json' };
    expect((await call('POST', ns('/serviceaccounts/ci/token'), { raw: 'null', headers })).status).toBe(200);
    const month = await call('POST', ns('/serviceaccounts/ci/token'), { body: { duration: '720h' } });
    expect(lifetime(month)).toBeGreaterThan(719);
    expect(lifetime(month)).toBeLessThan(721);
    const hour = await call('POST', ns('/serviceaccounts/ci/token'), { body: { expirationSeconds: 3600 } });
    expect(lifetime(hour)).toBeLessThan(1.1);
    const request = await call('POST', ns('/serviceaccounts/ci/token'), {
      body: {
        apiVersion: 'authentication.k8s.io/v1',
        kind: 'TokenRequest',
        spec: { expirationSeconds: 7200 },
      },
    });
    expect(lifetime(request)).toBeLessThan(2.1);
    expect((await api.call('GET', ns('/vms'), { token: hour.json.token })).status).toBe(403);
    for (const [body, field] of [
      [{ duration: 'soon' }, 'duration'],
      [{ duration: '1m' }, 'duration'],
      [{ expirationSeconds: 10 }, 'expirationSeconds'],
    ] as const) {
      const refused = await call('POST', ns('/serviceaccounts/ci/token'), { body });
      expect([refused.status, refused.json.details.causes[0].field]).toEqual([422, field]);
    }
    expect(
      (await call('GET', ns('/serviceaccounts'))).json.items.map((item: { name: string }) => item.name),
    ).toContain('ci');
    expect((await call('DELETE', ns('/serviceaccounts/ci'))).status).toBe(200);
    expect((await call('POST', ns('/serviceaccounts/ci/token'))).status).toBe(404);
  });
});
