import { describe, expect, test } from 'vitest';
import { finalizer } from '../../../src/api/meta.ts';
import { images, isos, vmConfigs, vms } from '../../../src/api/resources.ts';
import { rows } from '../../../src/http/legacy/table.ts';
import { messageOf } from '../../../src/errors.ts';
import { selfSigned } from '../../../src/http/server/certificate.ts';
import { condition } from '../../support/api.ts';
import {
  api,
  before,
  call,
  cluster,
  config,
  contracts,
  deployed,
  fields,
  filled,
  gone,
  image,
  legacyWorld,
  namespace,
  noVms,
  vm,
  type Contract,
} from './world.ts';

legacyWorld();

/** A sector. */
const disk = 'disk'.padEnd(512);

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
    if (expected.length === 0) return;
    expect(first, where).toBeDefined();
    expectShape(first, expected[0], `${where}[0]`);
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

function keyOf(row: ReturnType<typeof rowOf>): string {
  return row === undefined ? '' : `${row.method} ${row.path}`;
}

const replayed = contracts.filter((contract) => rowOf(contract)?.kind === 'mapped');
/** `METHOD path` of the rows whose calls were answered as expected. */
const called = new Set<string>();

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
    called.add(keyOf(rowOf(contract)));
  });

  async function uploaded(path: string) {
    const field = path.includes('/iso/') ? 'iso' : 'image';
    const fileName = `uploaded-${field}.${field === 'iso' ? 'iso' : 'img'}`;
    const boundary = 'xxxxxxxx';
    const raw = `--${boundary}\r\nContent-Disposition: form-data; name="${field}"; filename="${fileName}"\r\nContent-Type: application/octet-stream\r\n\r\n${disk}\r\n--${boundary}--\r\n`;
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
    called.add('POST /resources/cert/set');
  });
});

describe('texts and refusals', () => {
  test('the texts that clients match', async () => {
    await noVms();
    // Clients of 2.4.x take 500 with this text for "nothing to do", and 404 for a failure.
    const nothing = await call('DELETE', '/resources/vm/delete', { svc_vm_name: 'nothing' });
    expect([nothing.status, nothing.json.errors]).toEqual([
      500,
      [{ message: 'No VMs with that name are currently deployed' }],
    ]);
    expect((await call('POST', '/resources/vm/exec/stop', { svc_vm_name: 'nothing' })).json.errors).toEqual([
      { message: 'No deployments exists for this VM name' },
    ]);
    const unknown = await call('GET', '/resources/vm/status/nothing');
    expect([unknown.status, unknown.json.errors, unknown.json.virtual_machine_resources]).toEqual([
      200,
      [],
      [],
    ]);
    expect(
      (await call('POST', '/resources/vm/deploy', { svc_vm_name: 'nothing' })).json.errors[0].message,
    ).toMatch(/config does not exist$/);
  });

  test('the text that clients match where the only node lacks CPU, and no VM stays', async () => {
    await noVms();
    await image(fields.baseImage);
    const large = {
      svc_vm_name: 'large',
      svc_base_image: fields.baseImage,
      svc_cpu_core: 25,
      vcpu_count: 25,
    };
    expect((await call('POST', '/resources/vm/create', large)).status).toBe(201);
    const { status, json } = await call('POST', '/resources/vm/deploy', { svc_vm_name: 'large' });
    expect([status, json.errors]).toEqual([400, [{ message: 'No available nodes with sufficient CPU.' }]]);
    const { items } = await cluster.client.list(vms, { namespace });
    expect(items.filter(({ metadata }) => metadata.deletionTimestamp === undefined)).toEqual([]);
    await cluster.client.delete(vmConfigs, { name: 'large', namespace });
  });

  test('a mapping without a port of the node is refused, as before there was one', async () => {
    const body = { svc_vm_name: 'nothing', reserved_ports: ['20080:80', '80'] };
    const { status, json } = await call('POST', '/resources/vm/deploy', body);
    expect(status).not.toBe(200);
    expect(json.errors[0].message).toContain('"80" is not NODE_PORT:VM_PORT[/tcp|/udp]');
  });

  test.each([
    ['image', 'My Disk 90G.img', 'my-disk-90g.img'],
    ['iso', 'Install.iso', 'install.iso'],
  ])('an upload of an %s has the name that the other rows know it by', async (word, fileName, name) => {
    const raw = `--x\r\nContent-Disposition: form-data; name="${word}"; filename="${fileName}"\r\n\r\n${disk}\r\n--x--\r\n`;
    const { status, json } = await api.call('POST', `/resources/${word}/upload`, {
      token: cluster.adminToken,
      raw,
      headers: { 'x-svc3-namespace': namespace, 'content-type': 'multipart/form-data; boundary=x' },
    });
    expect([status, json.message]).toEqual([200, `Successfully uploaded ${name}`]);
    const list = async () => (await call('GET', `/resources/${word}/list`)).json[`${word}s`];
    await expect.poll(list).toContain(name);
    const deleted = await call('POST', `/resources/${word}/delete`, { [word]: fileName });
    expect(deleted.status).toBe(200);
  });

  test.each([
    ['image', images],
    ['iso', isos],
  ] as const)('an %s that is kept is not said to be gone, and the list tells why', async (word, kind) => {
    const { client } = cluster;
    const key = { name: 'kept', namespace };
    const metadata = { ...key, finalizers: [finalizer] };
    await client.create(kind, { metadata, spec: { source: { upload: {} } } });
    const conditions = [condition('Ready', 'False', 'InUse', 'in use by VM of namespace ci')];
    await client.patch(
      kind,
      key,
      { type: 'merge', body: { status: { conditions } } },
      { subresource: 'status' },
    );
    const attributes = async () => {
      const { json } = await call('GET', `/resources/${word}/list`);
      return json[`${word}_attributes`].find((each: Record<string, string>) => each[word] === 'kept');
    };
    await expect
      .poll(attributes)
      .toMatchObject({ state: 'Updating', error_message: 'in use by VM of namespace ci' });
    const { status, json } = await call('POST', `/resources/${word}/delete`, { [word]: 'kept' });
    expect([status, json.errors[0].message]).toEqual([
      504,
      `deletion of ${word} kept has begun: in use by VM of namespace ci; GET /resources/${word}/list tells when it is gone`,
    ]);
    await client.patch(kind, key, { type: 'merge', body: { metadata: { finalizers: null } } });
    await expect.poll(attributes).toBeUndefined();
  });

  test('a configuration says what of it has no effect', async () => {
    const made = { svc_vm_name: 'warned', svc_base_image: 'mojave.img', vcpu_count: 4 };
    const { status, headers } = await call('POST', '/resources/vm/create', {
      ...made,
      svc_image: 'other.img',
      svc_cpu_core: 2,
    });
    expect(status).toBe(201);
    expect(String(headers['warning'])).toContain('svc_image has no effect');
    expect(String(headers['warning'])).toContain('svc_cpu_core has no effect beside vcpu_count');
    const { json } = await call('GET', '/resources/vm/configs/warned');
    expect(json.configs[0]).toMatchObject({ vcpu_count: 4 });
    const cores = { svc_vm_name: 'cores', svc_base_image: 'mojave.img', svc_image: 'cores', svc_cpu_core: 2 };
    expect((await call('POST', '/resources/vm/create', cores)).headers['warning']).toBeUndefined();
    expect((await call('GET', '/resources/vm/configs/cores')).json.configs[0].vcpu_count).toBe(2);
  });

  test('an empty iso_image is none, as an empty tag is', async () => {
    const made = { svc_vm_name: 'plain', svc_base_image: 'mojave.img', iso_image: '', tag: '' };
    expect((await call('POST', '/resources/vm/create', made)).status).toBe(201);
    const { json } = await call('GET', '/resources/vm/configs/plain');
    expect(json.configs[0]).toMatchObject({ iso_image: 'None', tag: '' });
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

  test('where only some of several VMs can be had, a Warning says why', async () => {
    await noVms();
    await config();
    await image(fields.baseImage);
    const quotas = `/api/v1/namespaces/${namespace}/resourcequotas`;
    const hard = { 'count/vms.svc3.dev': '1', 'count/configmaps': '0' };
    const quota = { metadata: { name: 'one' }, spec: { hard } };
    await cluster.client.request({ method: 'POST', path: quotas, body: quota });
    // What kube-controller-manager says after a while: it looks for kinds that are new to it every half minute.
    const status = { hard, used: { 'count/vms.svc3.dev': '0', 'count/configmaps': '0' } };
    await cluster.client.request({ method: 'PUT', path: `${quotas}/one/status`, body: { ...quota, status } });
    // Admission hears of the quota a moment later.
    const tried = () =>
      cluster.client
        .request({
          method: 'POST',
          path: `/api/v1/namespaces/${namespace}/configmaps?dryRun=All`,
          body: { metadata: { name: 'tried' } },
        })
        .then(() => 'allowed', messageOf);
    await expect.poll(tried).toContain('exceeded quota');
    const body = { svc_vm_name: vm, replicas: 2 };
    const reply = await call('POST', '/resources/vm/deploy', body);
    await cluster.client.request({ method: 'DELETE', path: `${quotas}/one` });
    const { json, headers } = reply;
    expect([reply.status, json.message, json.errors]).toEqual([200, '1 of 2 VMs deployed successfully.', []]);
    expect(String(headers['warning'])).toContain('exceeded quota');
    await noVms();
  });
});

test('every mapped row was called, by each of its methods', () => {
  const mapped = rows.filter(({ kind }) => kind === 'mapped').map(({ method, path }) => `${method} ${path}`);
  expect([...called].toSorted()).toEqual(mapped.toSorted());
});
