import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { vms } from '../../../src/api/resources.ts';
import type { Vm } from '../../../src/api/vm.ts';
import { condition, reportVm, runningStatus, startTestApi, type TestApi } from '../../support/api.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../../support/cluster.ts';

let cluster: TestCluster;
let api: TestApi;
let namespace: string;
let token: string;
const image = 'registry.example.com/team/debian:12';

beforeAll(async () => {
  cluster = await testCluster();
  token = cluster.adminToken;
  namespace = await uniqueNamespace(cluster.client, 'http');
  api = await startTestApi(cluster.client);
});

afterAll(async () => {
  await api?.close();
});

const call: TestApi['call'] = (method, path, options = {}) => api.call(method, path, { token, ...options });
const ns = (path: string) => `/api/v1/namespaces/${namespace}${path}`;

/** The VM as kube-apiserver has it, once it is there. */
function vmNamed(name: string): Promise<Vm> {
  return vi.waitFor(() => cluster.client.get(vms, name, namespace), { timeout: 60_000, interval: 20 });
}

describe('cluster-info', () => {
  test('answers without a token', async () => {
    const { status, json } = await api.call('GET', '/api/v1/cluster-info');
    expect(status).toBe(200);
    expect(json).toEqual({
      apiDomain: `localhost:${api.port}`,
      apiEndpoint: 'https://cluster.example.com:6443',
      certData: Buffer.from('CA').toString('base64'),
      gpuPassthroughEnabled: false,
      version: '3.0.0',
    });
  });

  test('the OpenAPI document names every route and its page loads', async () => {
    const { json } = await api.call('GET', '/api/v1/openapi.json');
    expect(json.openapi).toBe('3.1.0');
    expect(Object.keys(json.paths)).toContain(
      '/api/v1/namespaces/{namespace}/secrets/registrycredentials/add',
    );
    for (const path of [
      '/api/v1/swagger',
      '/api/v1/pages/swagger.js',
      '/api/v1/console',
      '/api/v1/novnc/core/rfb.js',
    ]) {
      const page = await api.call('GET', path);
      expect([path, page.status]).toEqual([path, 200]);
      expect(page.headers['content-security-policy']).toContain("default-src 'none'");
    }
  });
});

describe('who calls', () => {
  test.each([
    ['no token', undefined],
    ['a token nobody issued', 'nonsense'],
    ['an expired token', 'eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4IiwiZXhwIjoxfQ.AAAA'],
  ])('%s is refused with 401', async (_, bad) => {
    const { status, json, headers } = await api.call(
      'GET',
      ns('/vms'),
      bad === undefined ? {} : { token: bad },
    );
    expect(status).toBe(401);
    expect(json).toMatchObject({
      kind: 'Status',
      apiVersion: 'v1',
      metadata: {},
      status: 'Failure',
      reason: 'Unauthorized',
      code: 401,
    });
    expect(json.message).toContain('Unauthorized');
    expect(headers['www-authenticate']).toContain('Bearer');
  });

  test('a bad token does not disturb the calls of others', async () => {
    const answers = await Promise.all(
      Array.from({ length: 40 }, (_, index) =>
        api.call('GET', ns('/vms'), { token: index % 2 === 0 ? token : `bad-${index}` }),
      ),
    );
    expect(answers.map((answer) => answer.status)).toEqual(
      Array.from({ length: 40 }, (_, index) => (index % 2 === 0 ? 200 : 401)),
    );
  });
});

describe('VMs', () => {
  test('deploy waits until the VM runs, list and get show it, delete removes it', async () => {
    const deploying = call('POST', ns('/vms'), {
      body: { name: 'demo', image, cpu: 2, memory: 2, gpuPassthrough: false },
    });
    const vm = await vmNamed('demo');
    expect(vm.spec).toMatchObject({
      image,
      cpu: 2,
      memory: '2048Mi',
      gpuPassthrough: 'Disabled',
      startDeadlineSeconds: 600,
      powerState: 'Running',
    });
    await reportVm(cluster.client, vm, runningStatus);
    const deployed = await deploying;
    expect(deployed.status).toBe(200);
    expect(deployed.json).toEqual({
      name: 'demo',
      uid: vm.metadata.uid,
      node: 'node-1',
      memory: '2.00Gi',
      ip: '192.0.2.10',
      ssh: 8822,
      vnc: 5999,
      screenshare: 5901,
      status: 'Running',
      reachable: true,
      startedFrom: 'image',
    });

    const list = await call('GET', ns('/vms'));
    expect(list.json.items).toHaveLength(1);
    const got = await call('GET', ns('/vms/demo'));
    expect(got.json).toEqual(list.json.items[0]);
    expect(got.json).toMatchObject({
      name: 'demo',
      status: 'Running',
      cpu: 2,
      memory: '2.00Gi',
      image,
      vncConsole: true,
      gpuPassthrough: false,
      architecture: 'amd64',
    });
    expect(got.json.owner).toEqual(expect.any(String));

    const deleted = await call('DELETE', ns('/vms/demo'));
    expect(deleted.json).toMatchObject({ kind: 'Status', status: 'Success' });
    expect((await call('GET', ns('/vms/demo'))).status).toBe(404);
    expect((await call('GET', ns('/vms'))).text).toBe('{"items":[]}');
  });

  test('without waiting it answers 202 and sets no deadline', async () => {
    const { status, json } = await call('POST', ns('/vms?wait=false'), { body: { image } });
    expect(status).toBe(202);
    expect(json.name).toMatch(/^vm-[a-z0-9]{5}$/);
    expect(json).toMatchObject({ status: 'Pending', ssh: 0 });
    const vm = await cluster.client.get(vms, json.name, namespace);
    expect(vm.spec.startDeadlineSeconds).toBeUndefined();
    await call('DELETE', ns(`/vms/${json.name}`));
  });

  test('shouldGenerateName takes the name as a prefix', async () => {
    const { json } = await call('POST', ns('/vms?wait=false'), {
      body: { name: 'ci', shouldGenerateName: true, image },
    });
    expect(json.name).toMatch(/^ci-[a-z0-9]{5}$/);
    await call('DELETE', ns(`/vms/${json.name}`));
  });

  test('field names match in any case and unknown ones are warned of', async () => {
    const { status, headers, json } = await call('POST', ns('/vms?wait=false'), {
      raw: JSON.stringify({ NAME: 'cased', Image: image, displayDpi: 96, colour: 'red' }),
      headers: { 'content-type': 'application/json; charset=utf-8' },
    });
    expect(status).toBe(202);
    expect(String(headers['warning'])).toContain("unknown field 'colour'");
    expect((await cluster.client.get(vms, json.name, namespace)).spec.display).toEqual({ dpi: 96 });
    await call('DELETE', ns('/vms/cased'));
  });

  test('what has no effect on this platform is a warning, also where nobody waits', async () => {
    const body = { name: 'dots', image, displayDPI: 96 };
    for (const path of ['/vmconfigs', '/vmpools', '/vms?wait=false']) {
      const { status, headers } = await call('POST', ns(path), { body });
      expect([path, status]).toEqual([path, path.startsWith('/vms') ? 202 : 201]);
      expect(headers['warning']).toContain('display.dpi has no effect');
    }
    const changed = await call('PATCH', ns('/vms/dots?wait=false'), { body: { displayDPI: 120 } });
    expect(changed.status).toBe(202);
    expect(changed.headers['warning']).toContain('display.dpi has no effect');
    for (const kind of ['/vmconfigs', '/vmpools', '/vms']) await call('DELETE', ns(`${kind}/dots`));
  });

  test('an unusable port mapping is a warning, a usable one is mapped', async () => {
    const { json } = await call('POST', ns('/vms?wait=false'), {
      body: { name: 'ports', image, reservedPorts: '22:22,20080:80,20053:53/udp' },
    });
    expect(json.portWarnings).toContain('22:22');
    expect((await cluster.client.get(vms, 'ports', namespace)).spec.ports).toEqual([
      { nodePort: 20_080, guestPort: 80, protocol: 'TCP' },
      { nodePort: 20_053, guestPort: 53, protocol: 'UDP' },
    ]);
    await call('DELETE', ns('/vms/ports'));
  });

  test("a mapping without a port of the node opens the VM's port, and the runner's own is refused by its name", async () => {
    const body = {
      image,
      reservedPorts: '80,20053:53/udp',
      sshNodePort: false,
      hostname: 'www',
      subdomain: 'vms',
      priorityClassName: 'batch',
    };
    const { status } = await call('POST', ns('/vms?wait=false'), { body: { name: 'open', ...body } });
    expect(status).toBe(202);
    expect((await cluster.client.get(vms, 'open', namespace)).spec).toMatchObject({
      ports: [
        { guestPort: 80, protocol: 'TCP' },
        { nodePort: 20_053, guestPort: 53, protocol: 'UDP' },
      ],
      nodePorts: { ssh: 'Disabled' },
      hostname: 'www',
      subdomain: 'vms',
      priorityClassName: 'batch',
    });
    await call('DELETE', ns('/vms/open'));
    const refused = await call('POST', ns('/vms?wait=false'), {
      body: { name: 'own', image, reservedPorts: '8443' },
    });
    expect([refused.status, refused.json.details.causes[0].field]).toEqual([422, 'reservedPorts']);
  });

  test('a VM that can never run is removed and its reason told', async () => {
    const deploying = call('POST', ns('/vms'), { body: { name: 'stalled', image, gpuPassthrough: true } });
    await reportVm(cluster.client, await vmNamed('stalled'), {
      conditions: [
        condition(
          'Stalled',
          'True',
          'GPUPassthroughDisabled',
          'GPU passthrough is not enabled in this cluster',
        ),
      ],
    });
    const { status, json } = await deploying;
    expect(status).toBe(422);
    expect(json.message).toBe('GPU passthrough is not enabled in this cluster');
    expect(json.details.causes[0].field).toBe('gpuPassthrough');
    // It is gone when its finalizer has been taken.
    await expect
      .poll(() => cluster.client.get(vms, 'stalled', namespace).catch(({ message }: Error) => message))
      .toMatch(/not found/);
  });

  test('when the operator has removed the VM at its deadline the answer is 504', async () => {
    const deploying = call('POST', ns('/vms'), { body: { name: 'late', image, timeout: 1 } });
    const vm = await vmNamed('late');
    expect(vm.spec.startDeadlineSeconds).toBe(60);
    await reportVm(cluster.client, vm, {
      conditions: [
        condition('Scheduled', 'False', 'Unschedulable', '0/5 nodes are available: 5 insufficient cpu'),
      ],
    });
    // Its going is seen by who waits: that is not the reason.
    const late = { name: 'late', namespace };
    await cluster.client.patch(vms, late, {
      type: 'merge',
      body: { metadata: { finalizers: ['test.svc3.dev/slow'] } },
    });
    await cluster.client.delete(vms, late);
    const seen = () => api.services.caches.vms.objects.get('late', namespace)?.metadata.deletionTimestamp;
    await expect.poll(seen).toBeDefined();
    await cluster.client.patch(vms, late, { type: 'merge', body: { metadata: { finalizers: null } } });
    const { status, json } = await deploying;
    expect(status).toBe(504);
    expect(json.message).toBe(
      'VM late did not run within its timeout and was removed: 0/5 nodes are available: 5 insufficient cpu',
    );
  });

  test.each([
    ['neither image nor config', {}, 422, 'image'],
    ['a wrong type', { image, cpu: 'two' }, 422, 'cpu'],
    ['a fraction of a cpu', { image, cpu: 1.5 }, 422, 'cpu'],
    ['a name that is none', { image, name: '../etc' }, 422, 'name'],
    ['too little memory', { image, memory: 0.001 }, 422, 'memory'],
    ['a broken port mapping', { image, reservedPorts: 'http' }, 422, 'reservedPorts'],
    ['an unknown scheduler', { image, scheduler: 'random' }, 422, 'scheduler'],
  ])('%s is refused and the field named', async (_, body, expected, field) => {
    const { status, json } = await call('POST', ns('/vms'), { body });
    expect(status).toBe(expected);
    expect(json.details.causes.map((cause: { field: string }) => cause.field)).toContain(field);
  });

  test.each([
    ['malformed JSON', '{"image":', 400],
    ['a field given twice', `{"image":"${image}","image":"${image}"}`, 422],
    ['a field given twice in two cases', `{"image":"${image}","Image":"${image}"}`, 422],
    ['__proto__', `{"__proto__":{},"image":"${image}"}`, 422],
    ['NUL', `{"image":"a/b\\u0000"}`, 422],
    ['a lone surrogate', `{"name":"\\ud800","image":"${image}"}`, 422],
    ['a number beyond all', `{"cpu":1e999,"image":"${image}"}`, 422],
    ['too deep nesting', `${'['.repeat(100)}${']'.repeat(100)}`, 400],
    ['a body that is too large', `{"name":"${'a'.repeat(1_100_000)}"}`, 413],
  ])('%s is refused', async (_, raw, expected) => {
    const { status, json } = await call('POST', ns('/vms'), {
      raw,
      headers: { 'content-type': 'application/json' },
    });
    expect([status, json?.details?.causes?.length]).toEqual([expected, 1]);
  });

  test('another content type is refused with 415', async () => {
    const { status, json } = await call('POST', ns('/vms'), {
      raw: 'image=a',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
    });
    expect([status, json.details.causes[0].field]).toEqual([415, 'Content-Type']);
  });

  test('another method is refused with 405 and Allow', async () => {
    const { status, headers } = await call('PUT', ns('/vms'));
    expect([status, headers['allow']]).toEqual([405, 'GET, POST']);
  });

  test('an existing name is refused with 409', async () => {
    await call('POST', ns('/vms?wait=false'), { body: { name: 'twice', image } });
    const { status, json } = await call('POST', ns('/vms?wait=false'), { body: { name: 'twice', image } });
    expect([status, json.reason]).toEqual([409, 'AlreadyExists']);
    await call('DELETE', ns('/vms/twice'));
  });

  test('deploying an unknown config is refused with 404', async () => {
    const { status, json } = await call('POST', ns('/vms'), { body: { vmConfig: 'nothing' } });
    expect(status).toBe(404);
    expect(json.message).toMatch(/config does not exist$/);
  });
});

describe('changes of a VM', () => {
  const placed = { ...runningStatus, effective: { ...runningStatus.effective!, tag: 'fast' } };
  const waits = 'spec.cpu, spec.memory apply when the guest is started next';

  beforeAll(async () => {
    await call('POST', ns('/vms?wait=false'), {
      body: { name: 'changed', image, tag: 'fast', readiness: { http: { port: 80, path: '/up' } } },
    });
    await reportVm(cluster.client, await vmNamed('changed'), placed);
    const { changes } = api.services.caches.vms;
    const runs = (vm: Vm | undefined) => vm?.status?.effective !== undefined;
    await changes.until({ name: 'changed', namespace }, runs, AbortSignal.timeout(60_000));
  });

  afterAll(() => call('DELETE', ns('/vms/changed?wait=false')));

  const change = (body: object, query = '') => call('PATCH', ns(`/vms/changed${query}`), { body });

  test('are answered with what waits, once the operator has looked at them', async () => {
    const { generation } = (await vmNamed('changed')).metadata;
    const changing = change({ cpu: 4, memory: 8, readiness: { tcp: { port: 22 } } });
    await expect.poll(async () => (await vmNamed('changed')).metadata.generation).not.toBe(generation);
    const vm = await vmNamed('changed');
    expect(vm.spec).toMatchObject({ cpu: 4, memory: '8192Mi', tag: 'fast' });
    expect(vm.spec.readiness).toEqual({ tcp: { port: 22 } });
    const { conditions = [] } = placed;
    await reportVm(cluster.client, vm, {
      ...placed,
      conditions: [...conditions, condition('RestartRequired', 'True', 'SpecChanged', waits)],
      warnings: ['the screen has no dots'],
    });
    const { status, json, headers } = await changing;
    expect([status, json.name, json.cpu, json.restartRequired]).toEqual([200, 'changed', 2, waits]);
    expect(headers['warning']).toContain('the screen has no dots');
    expect((await call('GET', ns('/vms/changed'))).json).toEqual(json);
  });

  test('are answered at once where nobody waits, and unknown fields are warned of', async () => {
    const { status, json, headers } = await change(
      { SuspendTo: 'Disk', reservedPorts: '80', name: 'other' },
      '?wait=false',
    );
    expect([status, json.name]).toEqual([202, 'changed']);
    expect(headers['warning']).toContain("unknown field 'name'");
    const { spec } = await vmNamed('changed');
    expect(spec).toMatchObject({ suspendTo: 'Disk', ports: [{ guestPort: 80, protocol: 'TCP' }] });
  });

  test.each([
    ['what never changes', { image: 'registry.example.com/team/other:1' }, 'image'],
    ['another configuration', { vmConfig: 'other' }, 'vmConfig'],
    ['another host name', { hostname: 'other' }, 'hostname'],
    ['ports of the node for SSH', { sshNodePort: false }, 'sshNodePort'],
    ['another place of the disk', { diskStorage: 'persistent' }, 'diskStorage'],
    ['another tag, with a disk that goes with the pod', { tag: 'slow' }, 'tag'],
    ['no tag', { tag: '' }, 'tag'],
    ['another node', { node: 'n2' }, 'node'],
    ['a GPU', { gpuPassthrough: true }, 'gpuPassthrough'],
    ['a fraction of a cpu', { cpu: 1.5 }, 'cpu'],
    ['a broken port mapping', { reservedPorts: 'http' }, 'reservedPorts'],
    ['a port that cannot be had', { reservedPorts: '8080,22:22' }, 'reservedPorts'],
    ['a configuration of another namespace', { vmConfigNamespace: 'other' }, 'vmConfigNamespace'],
  ])('to %s are refused, and the field is named', async (_, body, field) => {
    const { status, json } = await change(body);
    expect(status).toBe(422);
    expect(json.details.causes.map((cause: { field: string }) => cause.field)).toContain(field);
    expect(json.message).toMatch(new RegExp(`(^|; )${field}: `));
  });

  test('of nothing, and of a VM that is not there, are refused', async () => {
    expect((await change({})).status).toBe(422);
    expect((await call('PATCH', ns('/vms/nothing'), { body: { cpu: 4 } })).status).toBe(404);
    // What it says already is no change.
    expect((await change({ image, tag: 'fast', vmConfigNamespace: namespace }, '?wait=false')).status).toBe(
      202,
    );
  });
});

describe('exec, save and commit', () => {
  test('stop writes the request and answers when it is so; a command that does not fit is refused with the state', async () => {
    await call('POST', ns('/vms?wait=false'), { body: { name: 'power', image } });
    expect((await call('POST', ns('/vms/power/exec'), { body: { command: 'stop' } })).json.message).toContain(
      'is Pending',
    );
    await reportVm(cluster.client, await vmNamed('power'), runningStatus);
    await expect.poll(async () => (await call('GET', ns('/vms/power'))).json.status).toBe('Running');

    const conflict = await call('POST', ns('/vms/power/exec'), { body: { command: 'resume' } });
    expect(conflict.status).toBe(409);
    expect(conflict.json.message).toContain('is Running');

    const stopping = call('POST', ns('/vms/power/exec'), { body: { command: 'stop' } });
    await expect
      .poll(async () => (await cluster.client.get(vms, 'power', namespace)).spec.powerState)
      .toBe('Stopped');
    await reportVm(cluster.client, await vmNamed('power'), { ...runningStatus, powerState: 'Stopped' });
    expect((await stopping).status).toBe(200);

    const reverting = call('POST', ns('/vms/power/exec'), { body: { command: 'revert' } });
    await expect
      .poll(async () => (await cluster.client.get(vms, 'power', namespace)).spec.revertRequest)
      .toEqual(expect.any(String));
    const requested = await vmNamed('power');
    await reportVm(cluster.client, requested, {
      ...runningStatus,
      revertRequest: requested.spec.revertRequest!,
    });
    expect((await reverting).json.message).toBe('VM power was reverted');

    const saved = await call('POST', ns('/vms/power/save'), {
      body: { imageName: 'saved', description: 'with tools' },
    });
    expect([saved.status, saved.json.state, saved.json.description]).toEqual([202, 'Updating', 'with tools']);
    expect((await call('POST', ns('/vms/power/save'), { body: { imageName: 'saved' } })).status).toBe(409);
    expect((await call('POST', ns('/vms/power/commit'))).status).toBe(409);
    await call('DELETE', ns('/images/saved'));
    await call('DELETE', ns('/vms/power'));
  });

  test('exec of a VM that does not exist is 404', async () => {
    expect((await call('POST', ns('/vms/nothing/exec'), { body: { command: 'stop' } })).status).toBe(404);
  });
});
