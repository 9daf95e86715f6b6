import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { images, isos, nodes, vmConfigs, vms } from '../../../src/api/resources.ts';
import { createGateway } from '../../../src/gateway/face.ts';
import { rows } from '../../../src/gateway/table.ts';
import { isSvc3Error } from '../../../src/errors.ts';
import { Readable } from 'node:stream';
import { startTestApi, type TestApi } from '../../support/api.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../../support/cluster.ts';
import { startStandInOperator } from '../../support/standinoperator.ts';
import { selfSigned } from '../../../src/http/certificate.ts';

interface Example {
  readonly name: string;
  readonly status: number | null;
  readonly request: unknown;
  readonly response: unknown;
}
interface Contract {
  readonly method: string;
  readonly path: string;
  readonly title: string;
  readonly examples: readonly Example[];
}

const contracts = JSON.parse(
  readFileSync(new URL('../../contracts/legacy-2.4-examples.json', import.meta.url), 'utf8'),
) as Contract[];
const vm = 'legacy';
const fields = {
  vm,
  vmID: '',
  node: 'node-1',
  newNode: 'node-2',
  nodeTag: 'pool',
  baseImage: 'mojave.img',
  armBaseImage: 'arm.img',
  storageImage: 'storage.img',
  newBaseImage: 'ventura.img',
  iso: 'install.iso',
  image: 'mojave.img',
  systemSerial: 'C02XX',
  email: 'a@example.com',
  domain: '',
};
/** Fields of examples that cannot be: the specification removed what they speak of. */
const gone = new Set(['attached_disk_info']);

let cluster: TestCluster;
let api: TestApi;
let namespace: string;
let node: string;
let operator: ReturnType<typeof startStandInOperator>;

beforeAll(async () => {
  cluster = await testCluster();
  namespace = await uniqueNamespace(cluster.client, 'legacy');
  node = `node-${namespace}`;
  fields.node = node;
  api = await startTestApi(
    cluster.client,
    {
      remotes: {
        list: () =>
          Promise.resolve([
            { name: 'registry.example.com/team/mojave.img:1' },
            { name: 'registry.example.com/team/install.iso:1' },
          ]),
      },
      transfer: {
        async upload({ kind, namespace: where, name, content }) {
          for await (const _ of content) void _;
          const resource = kind === 'ISO' ? isos : images;
          return await cluster.client.create(resource, {
            metadata: { name, namespace: where },
            spec: { source: { upload: {} } },
          });
        },
        download: () => Promise.resolve({ stream: Readable.from(['disk']), size: 4, fileName: 'disk.img' }),
      },
    },
    (services) => ({
      faces: (authenticator) => [createGateway(authenticator, rows, services.settings.defaultNamespace)],
    }),
  );
  fields.domain = api.baseUrl;
  operator = startStandInOperator(cluster.client, namespace, { node });
  await cluster.client.create(nodes, {
    metadata: { name: node, labels: { 'svc3.dev/namespace': namespace } },
  });
  await cluster.client.patch(
    nodes,
    { name: node },
    {
      type: 'merge',
      body: {
        status: {
          allocatable: { cpu: '24', memory: '60Gi' },
          addresses: [{ type: 'InternalIP', address: '192.0.2.9' }],
          conditions: [{ type: 'Ready', status: 'True' }],
        },
      },
    },
    { subresource: 'status' },
  );
});

afterAll(async () => {
  await operator?.stop();
  await api?.close();
  await cluster.client.delete(nodes, { name: node }).catch(() => undefined);
});

const call = (method: string, path: string, body?: unknown, extra: Record<string, string> = {}) =>
  api.call(method, path, {
    token: cluster.adminToken,
    ...(body === undefined ? {} : { body }),
    headers: { 'x-svc3-namespace': namespace, ...extra },
  });

function filled<T>(value: T): T {
  const text = JSON.stringify(value ?? null).replaceAll(
    /\{\{(\w+)\}\}/g,
    (whole, name: keyof typeof fields) => fields[name] ?? whole,
  );
  return JSON.parse(text) as T;
}

async function quietly(work: Promise<unknown>): Promise<void> {
  await work.catch((error: unknown) => {
    if (!isSvc3Error(error, 'NotFound', 'AlreadyExists')) throw error;
  });
}

async function noVms(): Promise<void> {
  for (const { metadata } of (await cluster.client.list(vms, { namespace })).items)
    await quietly(cluster.client.delete(vms, { name: metadata.name!, namespace }));
  await expect.poll(() => api.services.caches.vms.objects.list(namespace).length).toBe(0);
}

async function config(memory?: number): Promise<void> {
  await noConfig();
  const body = {
    svc_vm_name: vm,
    svc_base_image: fields.baseImage,
    svc_cpu_core: 6,
    vcpu_count: 6,
    tag: 'pool',
    ...(memory === undefined ? {} : { memory }),
  };
  expect((await call('POST', '/resources/vm/create', body)).status).toBe(201);
}

async function noConfig(): Promise<void> {
  await quietly(cluster.client.delete(vmConfigs, { name: vm, namespace }));
  await expect.poll(() => api.services.caches.vmConfigs.objects.get(vm, namespace)).toBeUndefined();
}

async function image(name: string): Promise<void> {
  await quietly(
    cluster.client.create(images, {
      metadata: { name, namespace },
      spec: { source: { blank: { size: '10G' } } },
    }),
  );
  await expect.poll(() => api.services.caches.images.objects.get(name, namespace)).toBeDefined();
}

async function iso(name: string): Promise<void> {
  await quietly(
    cluster.client.create(isos, { metadata: { name, namespace }, spec: { source: { upload: {} } } }),
  );
  await expect.poll(() => api.services.caches.isos.objects.get(name, namespace)).toBeDefined();
}

async function without(kind: 'images' | 'isos', name: string): Promise<void> {
  await quietly(cluster.client.delete(kind === 'images' ? images : isos, { name, namespace }));
  await expect.poll(() => api.services.caches[kind].objects.get(name, namespace)).toBeUndefined();
}

async function deployed(): Promise<void> {
  await noVms();
  await config();
  await image(fields.baseImage);
  const { status, json } = await call('POST', '/resources/vm/deploy', { svc_vm_name: vm });
  expect([status, json.errors]).toEqual([200, []]);
  fields.vmID = json.vm_id;
}

async function inState(powerState: 'Stopped' | 'Suspended'): Promise<void> {
  await deployed();
  await cluster.client.patch(vms, { name: vm, namespace }, { type: 'merge', body: { spec: { powerState } } });
  await expect
    .poll(() => api.services.caches.vms.objects.get(vm, namespace)?.status?.powerState)
    .toBe(powerState);
}

/** What has to be there before the calls of a row are replayed. */
const before: Readonly<Record<string, (example: Example) => Promise<void>>> = {
  '/resources/vm/list': deployed,
  '/resources/vm/status/{{vm}}': async ({ name, response }) => {
    if (!name.includes('Not Deployed')) return deployed();
    await noVms();
    return config(JSON.stringify(response).includes('RAM') ? 10 : undefined);
  },
  '/resources/vm/configs': () => config(10),
  '/resources/vm/configs/{{vm}}': ({ name }) => config(name.includes('with custom') ? 10 : undefined),
  '/resources/vm/create': async () => {
    await noVms();
    await noConfig();
  },
  '/resources/vm/deploy': async () => {
    await noVms();
    await config();
    await image(fields.baseImage);
  },
  '/resources/vm/delete': deployed,
  '/resources/vm/purge': deployed,
  '/resources/vm/exec/start': () => inState('Stopped'),
  '/resources/vm/exec/stop': deployed,
  '/resources/vm/exec/suspend': deployed,
  '/resources/vm/exec/resume': () => inState('Suspended'),
  '/resources/vm/exec/revert': deployed,
  '/resources/image/list': () => image(fields.baseImage),
  '/resources/image/copy': async () => {
    await image(fields.baseImage);
    await without('images', fields.newBaseImage);
  },
  '/resources/image/pull': async () => {
    await noVms();
    await without('images', fields.baseImage);
    await without('images', fields.newBaseImage);
  },
  '/resources/image/delete': async () => {
    await noVms();
    await image(fields.baseImage);
  },
  '/resources/image/commit': deployed,
  '/resources/image/save': async () => {
    await deployed();
    await without('images', fields.newBaseImage);
  },
  '/resources/image/generate': () => without('images', fields.storageImage),
  '/resources/image/download/{{baseImage}}': async ({ status }) => {
    if (status === 404) {
      await noVms();
      return without('images', fields.baseImage);
    }
    await image(fields.baseImage);
    const { metadata } = await cluster.client.get(images, fields.baseImage, namespace);
    await cluster.client.patch(
      images,
      { name: fields.baseImage, namespace },
      {
        type: 'merge',
        body: {
          status: {
            observedGeneration: metadata.generation,
            conditions: [
              {
                type: 'Ready',
                status: 'True',
                reason: 'Ready',
                message: '',
                lastTransitionTime: '2026-01-01T00:00:00Z',
              },
            ],
          },
        },
      },
      { subresource: 'status' },
    );
    await expect
      .poll(() => api.services.caches.images.objects.get(fields.baseImage, namespace)?.status?.conditions)
      .toBeDefined();
  },
  '/resources/iso/list': () => iso(fields.iso),
  '/resources/iso/pull': async () => {
    await without('isos', fields.iso);
    await without('isos', `new${fields.iso}`);
  },
  '/resources/iso/copy': async () => {
    await iso(fields.iso);
    await without('isos', `new${fields.iso}`);
  },
  '/resources/iso/delete': () => iso(fields.iso),
};

function templateOf(path: string): RegExp {
  return new RegExp(`^${path.replaceAll(/\{\w+\}/g, '[^/]+')}$`);
}

function rowOf({ method, path }: Contract) {
  const plain = path.replaceAll(/\{\{\w+\}\}/g, 'x');
  return (
    rows.find((row) => row.method === method && row.path === plain) ??
    rows.find((row) => row.method === method && templateOf(row.path).test(plain))
  );
}

/** Every field of the example is there with its type; lists are compared by their first element. */
function expectShape(actual: unknown, expected: unknown, where = ''): void {
  if (expected === null || expected === undefined) return;
  if (Array.isArray(expected)) {
    expect(Array.isArray(actual), where).toBe(true);
    const [first] = actual as unknown[];
    if (expected.length > 0 && first !== undefined) expectShape(first, expected[0], `${where}[0]`);
    return;
  }
  if (typeof expected === 'object') {
    expect(typeof actual, where).toBe('object');
    for (const [name, member] of Object.entries(expected)) {
      if (gone.has(name)) continue;
      expect(actual, where).toHaveProperty([name]);
      expectShape((actual as Record<string, unknown>)[name], member, `${where}.${name}`);
    }
    return;
  }
  expect(typeof actual, where).toBe(typeof expected);
}

function parsed(response: unknown): unknown {
  if (typeof response !== 'string') return response;
  try {
    return JSON.parse(response);
  } catch {
    // Some examples are cut off in the middle; their status still counts.
    return { message: '', help: {}, errors: [] };
  }
}

const replayed = contracts.filter((contract) => rowOf(contract)?.kind === 'mapped');
const ticks = new Map<string, boolean>();

describe('the calls of mapped rows', () => {
  test.each(
    replayed.flatMap((contract) =>
      contract.examples.map(
        (example) => [`${contract.method} ${contract.path}: ${example.name}`, contract, example] as const,
      ),
    ),
  )('%s', async (_, contract, example) => {
    await before[contract.path]?.(example);
    const isUpload = contract.path.endsWith('/upload');
    const answer = isUpload
      ? await uploaded(contract.path)
      : await call(
          contract.method,
          filled(contract.path),
          example.request === null ? undefined : filled(example.request),
        );
    expect([answer.status, answer.text.slice(0, 300)]).toEqual([example.status ?? 200, expect.any(String)]);
    expect(answer.headers['deprecation']).toMatch(/^@\d+$/);
    expect(answer.headers['link']).toMatch(/^<\/api\/v1\/.*>; rel="successor-version"$/);
    const expected = filled(parsed(example.response)) as { message?: string } | null;
    if (expected === null) return;
    expectShape(answer.json, expected);
    if (!isUpload && typeof expected.message === 'string' && !expected.message.includes('irtual machine'))
      expect(answer.json.message).toBe(expected.message);
    ticks.set(rowOf(contract)!.path, true);
  });

  async function uploaded(path: string) {
    const field = path.includes('/iso/') ? 'iso' : 'image';
    const fileName = `uploaded-${field}.${field === 'iso' ? 'iso' : 'img'}`;
    const boundary = 'xxxxxxxx';
    const raw = `--${boundary}\r\nContent-Disposition: form-data; name="${field}"; filename="${fileName}"\r\nContent-Type: application/octet-stream\r\n\r\ndisk\r\n--${boundary}--\r\n`;
    return api.call('POST', path, {
      token: cluster.adminToken,
      raw,
      headers: { 'x-svc3-namespace': namespace, 'content-type': `multipart/form-data; boundary=${boundary}` },
    });
  }
});

describe('rows of the mapping table', () => {
  const removed = rows.filter((row) => row.kind === 'removed');

  test.each(removed.map((row) => [`${row.method} ${row.path}`, row] as const))(
    '%s answers 410 and says what replaces it',
    async (_, row) => {
      const path = row.path.replaceAll(/\{\w+\}/g, 'x');
      const { status, json } = await api.call(row.method, path, row.method === 'GET' ? {} : { body: {} });
      expect(status).toBe(410);
      expect(json).toEqual({
        message: '',
        help: { replacement: json.errors[0].message },
        errors: [{ message: expect.stringMatching(/^(Removed|No endpoint)/) }],
      });
    },
  );

  test.each([
    ['/version/?all=true', 410],
    ['/users/groups/$ungrouped', 410],
    ['/resources/vm/migrate', 404],
    ['/resources/vm/clone', 404],
  ])('%s answers %i in the envelope', async (path, expected) => {
    const { status, json } = await call(
      path.startsWith('/version') ? 'GET' : 'POST',
      path,
      path.startsWith('/version') ? undefined : {},
    );
    expect([status, json.message, json.help !== undefined, json.errors.length]).toEqual([
      expected,
      '',
      true,
      1,
    ]);
  });

  test('the certificate is set through its row', async () => {
    const pair = await selfSigned(['legacy.example.com']);
    const boundary = 'yyyyyyyy';
    const part = (name: string, value: string) =>
      `--${boundary}\r\nContent-Disposition: form-data; name="${name}"; filename="${name}.pem"\r\n\r\n${value}\r\n`;
    const raw = `${part('certPath', pair.cert)}${part('keyPath', pair.key)}--${boundary}--\r\n`;
    const { status, json } = await api.call('POST', '/resources/cert/set', {
      token: cluster.adminToken,
      raw,
      headers: { 'content-type': `multipart/form-data; boundary=${boundary}` },
    });
    expect([status, json.message]).toEqual([200, 'Successfully set certificate']);
    ticks.set('/resources/cert/set', true);
  });
});

describe('texts and refusals', () => {
  test('the texts that clients match', async () => {
    await noVms();
    expect((await call('DELETE', '/resources/vm/delete', { svc_vm_name: 'nothing' })).json.errors).toEqual([
      { message: 'No VMs with that name are currently deployed' },
    ]);
    expect((await call('POST', '/resources/vm/exec/stop', { svc_vm_name: 'nothing' })).json.errors).toEqual([
      { message: 'No deployments exists for this VM name' },
    ]);
    expect((await call('GET', '/resources/vm/status/nothing')).json.errors).toEqual([
      { message: 'No deployments exists for this VM name' },
    ]);
    expect(
      (await call('POST', '/resources/vm/deploy', { svc_vm_name: 'nothing' })).json.errors[0].message,
    ).toMatch(/config does not exist$/);
  });

  test('no token is 401 in the envelope', async () => {
    const { status, json } = await api.call('GET', '/resources/vm/list');
    expect([status, json]).toEqual([
      401,
      { message: '', help: {}, errors: [{ message: expect.stringContaining('Unauthorized') }] },
    ]);
  });

  test('a refused field has the name that the client wrote', async () => {
    const { status, json } = await call('POST', '/resources/vm/create', {
      svc_vm_name: 'No_Name',
      svc_base_image: 'x',
      vcpu_count: 6,
    });
    expect(status).toBe(422);
    expect(json.errors[0].message).toMatch(/^svc_vm_name: /);
  });

  test('a second deploy of a configuration gets a name of its own, and its 2.4.x name is ambiguous then', async () => {
    await deployed();
    const second = await call('POST', '/resources/vm/deploy', { svc_vm_name: vm, vnc_console: false });
    expect([second.status, second.json.vnc_port, second.json.help.virtual_machine_vnc]).toEqual([
      200,
      'N/A',
      'VNC console not enabled',
    ]);
    const list = await call('GET', '/resources/vm/list?expand');
    expect(
      list.json.virtual_machine_resources[0].status.map(
        (item: { virtual_machine_name: string }) => item.virtual_machine_name,
      ),
    ).toEqual([vm, vm]);
    expect(list.json.virtual_machine_resources[0].status[0]).toMatchObject({
      ssh_port: '8822',
      creation_timestamp: expect.any(String),
      creationTimestamp: expect.any(String),
    });
    const ambiguous = await call('DELETE', '/resources/vm/delete', { svc_vm_name: vm });
    expect([ambiguous.status, ambiguous.json.errors[0].message]).toEqual([
      400,
      expect.stringContaining('svc_node_name'),
    ]);
    expect((await call('DELETE', '/resources/vm/delete', { svc_vm_name: second.json.vm_id })).status).toBe(
      200,
    );
    await noVms();
  });
});

test('docs/gateway.md has a tick for every row', async () => {
  const lines = rows.map((row) => {
    const done = row.kind === 'removed' || ticks.get(row.path) === true;
    return `| ${row.method} ${row.path} | ${row.successor} | ${done ? '✓' : ' '} |`;
  });
  expect(lines.filter((line) => line.endsWith('|   |'))).toEqual([]);
  const page = `# The 2.4.x gateway

Clients of the 2.4.x API keep their paths. Mapped rows run on the handlers of \`/api/v1\` and answer in the envelope
\`{"message","help","errors"}\` with \`Deprecation\` and \`Link: rel="successor-version"\`; removed rows answer 410 and say what
replaces them, with or without a token. The namespace is that of the header \`X-Svc3-Namespace\`, else the default namespace. A
VM's id is its UID. A second deploy of a configuration gets a generated suffix and keeps its \`virtual_machine_name\`; a name that
then fits several VMs is refused with 400, and \`svc_node_name\` or the id narrows it. Names of images are taken in lower case, other
characters than letters, digits, \`-\` and \`.\` as \`-\`. Work on images goes on after the answer: \`GET /resources/image/list\` shows it.

\`NS\` is \`/api/v1/namespaces/{namespace}\`. A tick means: replayed with the requests that 2.4.x clients send, status, fields and
types compared, in the last test run (\`test/integration/gateway/replay.test.ts\` writes this table).

| 2.4.x | 3.0.0 | replayed |
|---|---|---|
${lines.join('\n')}
`;
  await expect(page).toMatchFileSnapshot('../../../docs/gateway.md');
});
