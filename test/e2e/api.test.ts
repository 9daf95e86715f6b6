import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { createClient } from '../../src/kube/client.ts';
import { loadKubeconfig } from '../../src/kube/connection.ts';
import type { Vm } from '../../src/api/vm.ts';
import { buildGuest } from '../../src/localcluster/images/guest.ts';
import { type E2eCluster, e2eCluster, eventually } from '../support/e2e.ts';
import { apiOf, type Curl, type UploadFile } from '../support/e2eapi.ts';

const execute = promisify(execFile);
const namespace = 'svc3-default';
const NS = `/api/v1/namespaces/${namespace}`;
/** Somebody who may work in one namespace and is no administrator. */
const user = `walker-${process.pid}`;
const slow = { timeout: 180_000, interval: 1_000 };

let cluster: E2eCluster;
let dir: string;
let baseUrl: string;
let token: string;
let curl: Curl;
let upload: UploadFile;
let count = 0;
const newName = (prefix: string): string => `${prefix}-${process.pid}-${(count += 1)}`;

beforeAll(async () => {
  cluster = await e2eCluster();
  dir = await mkdtemp(join(tmpdir(), 'svc3-e2e-api-'));
  ({ baseUrl, token, curl, upload } = await apiOf(cluster, dir, user));
});

afterAll(async () => {
  await cluster?.svc3('user', 'remove', user);
  if (dir !== undefined) await rm(dir, { recursive: true, force: true });
});

/** Until an Image is Ready; one that failed says why. */
async function untilStored(image: string): Promise<void> {
  const ended = await vi.waitFor(async () => {
    const { items } = (await curl('GET', `${NS}/images`)).body as {
      items: { name: string; state: string; errorMessage?: string }[];
    };
    const { state, errorMessage } = items.find(({ name }) => name === image) ?? {};
    // A replica of the api may not have heard of it yet.
    expect(state).not.toBeOneOf([undefined, 'Updating']);
    return { state, errorMessage };
  }, slow);
  expect(ended).toEqual({ state: 'Ready', errorMessage: undefined });
}

/** A VM as kubectl shows it now. */
async function vmNow(name: string): Promise<Vm> {
  return JSON.parse(await cluster.kubectl('get', 'vms.svc3.dev', '-n', namespace, name, '-o', 'json')) as Vm;
}

/** What replies say of where a VM is, by what kubectl shows of it. */
function placeOf({ metadata, status }: Vm): object {
  const { ssh, screenshare } = status?.ports ?? {};
  return {
    name: metadata.name,
    node: status?.node,
    ip: status?.ip,
    ssh,
    ...(screenshare === undefined ? {} : { screenshare }),
    status: status?.powerState,
  };
}

describe('with curl and a token of svc3 user get-token', () => {
  test('without a token there is cluster-info and nothing else', async () => {
    const info = await curl('GET', '/api/v1/cluster-info', undefined, '');
    expect(info).toMatchObject({
      code: 200,
      body: { version: '3.0.0', gpuPassthroughEnabled: expect.any(Boolean) },
    });
    expect(info.body.apiEndpoint).toMatch(/^https:\/\/127\.0\.0\.1:\d+$/);
    expect(await curl('GET', `${NS}/vms`, undefined, '')).toMatchObject({
      code: 401,
      body: { kind: 'Status', reason: 'Unauthorized' },
    });
    expect((await curl('GET', '/api/v1/namespaces/kube-system/vms')).code).toBe(403);
  });

  test(
    'the whole life of a VM: upload, configuration, deploy, list, get, exec, save, delete',
    { timeout: 900_000 },
    async () => {
      const [base, config, vm, image] = [newName('base'), newName('config'), newName('vm'), newName('saved')];
      const { disk } = await buildGuest(cluster.places.cache);
      const uploaded = await upload(`${NS}/upload/image?name=${base}&description=a%20guest`, disk);
      expect(uploaded).toMatchObject({ code: 202, body: { name: base, description: 'a guest' } });
      await untilStored(base);

      const settings = { name: config, image: base, cpu: 1, memory: 0.25 };
      expect(await curl('POST', `${NS}/vmconfigs`, settings)).toMatchObject({ code: 201, body: settings });

      const deployed = await curl('POST', `${NS}/vms`, { name: vm, vmConfig: config });
      const now = await vmNow(vm);
      expect(deployed).toMatchObject({
        code: 200,
        body: { ...placeOf(now), memory: '0.25Gi', status: 'Running' },
      });
      const { ip, ssh } = deployed.body as { ip: string; ssh: number };
      const login = () => cluster.ssh({ ip, port: ssh, user: 'root' }, 'hostname');
      await expect.poll(async () => (await login().catch(String)).trim(), slow).toBe(vm);
      // Each replica of the api hears of it by itself.
      const listed = async () => ((await curl('GET', `${NS}/vms`)).body as { items: object[] }).items;
      const item = {
        ...placeOf(now),
        cpu: 1,
        memory: '0.25Gi',
        image: base,
        vmConfig: config,
        gpuPassthrough: false,
        deployDate: now.metadata.creationTimestamp,
        status: 'Running',
      };
      await expect.poll(listed, slow).toContainEqual(expect.objectContaining(item));
      await expect.poll(() => curl('GET', `${NS}/vms/${vm}`), slow).toMatchObject({ code: 200, body: item });

      for (const [command, status] of [
        ['suspend', 'Suspended'],
        ['resume', 'Running'],
      ] as const) {
        expect((await curl('POST', `${NS}/vms/${vm}/exec`, { command })).code).toBeOneOf([200, 202]);
        await expect.poll(async () => (await vmNow(vm)).status?.powerState, slow).toBe(status);
        await expect.poll(async () => (await curl('GET', `${NS}/vms/${vm}`)).body.status, slow).toBe(status);
      }

      expect(await curl('POST', `${NS}/vms/${vm}/save`, { imageName: image })).toMatchObject({
        code: 202,
        body: { name: image, state: 'Updating' },
      });
      await untilStored(image);

      expect(await curl('DELETE', `${NS}/vms/${vm}`)).toMatchObject({ body: { status: 'Success' } });
      await expect.poll(async () => (await curl('GET', `${NS}/vms/${vm}`)).code, slow).toBe(404);
      // Until a replica of the api knows that the VM is gone the image is in use there.
      for (const name of [image, base])
        await expect
          .poll(async () => (await curl('DELETE', `${NS}/images/${name}`)).code, slow)
          .toBeOneOf([200, 202]);
      expect((await curl('DELETE', `${NS}/vmconfigs/${config}`)).body.status).toBe('Success');
    },
  );

  test(
    'with the paths of 2.4.x: create, deploy, list, suspend, resume, delete, from an image that was pulled',
    { timeout: 900_000 },
    async () => {
      const [vm, image] = [newName('legacy'), newName('base')];
      // 2.4.x knows images of the store only.
      const reference = encodeURIComponent(cluster.guest);
      const pulled = await curl('POST', `${NS}/remoteimages/${reference}/pull`, { name: image });
      expect(pulled).toMatchObject({ code: 202, body: { name: image } });
      await untilStored(image);

      const created = await curl('POST', '/resources/vm/create', {
        svc_vm_name: vm,
        svc_base_image: image,
        svc_image: vm,
        svc_cpu_core: 1,
        ram: '1',
      });
      expect(created).toMatchObject({ code: 201, body: { message: 'Successfully Created', errors: [] } });
      const named = { svc_vm_name: vm };
      expect(await curl('POST', '/resources/vm/deploy', named)).toMatchObject({
        code: 200,
        body: { message: 'Successfully deployed VM' },
      });
      const shown = [{ virtual_machine_name: vm, vm_deployment_status: 'Deployed' }];
      // Each replica of the api hears of it by itself.
      await expect
        .poll(async () => (await curl('GET', '/resources/vm/list')).body.virtual_machine_resources, slow)
        .toEqual(expect.arrayContaining(shown.map((one) => expect.objectContaining(one))));
      await expect
        .poll(() => curl('GET', `/resources/vm/status/${vm}`), slow)
        .toMatchObject({ code: 200, body: { virtual_machine_resources: shown } });
      for (const verb of ['suspend', 'resume'])
        expect((await curl('POST', `/resources/vm/exec/${verb}`, named)).code).toBe(200);
      // A guest that takes longer to shut down than the api waits goes all the same.
      expect(await curl('DELETE', '/resources/vm/delete', named)).toBeOneOf([
        { code: 200, body: expect.objectContaining({ message: 'Successfully deleted VM' }) },
        {
          code: 504,
          body: expect.objectContaining({ errors: [{ message: expect.stringContaining('has begun') }] }),
        },
      ]);
      await expect.poll(async () => (await curl('GET', `${NS}/vms/${vm}`)).code, slow).toBe(404);
      expect((await curl('DELETE', '/resources/vm/purge', named)).code).toBe(200);
      expect((await curl('GET', '/users')).code).toBe(410);
      // Until the VM is gone the image is in use.
      await expect
        .poll(async () => (await curl('DELETE', `${NS}/images/${image}`)).code, slow)
        .toBeOneOf([200, 202]);
    },
  );
});

describe('with the command line through the HTTP API', () => {
  test(
    'a VM is deployed, explained, logged in to through the tunnel, typed to on its serial console and deleted',
    { timeout: 480_000 },
    async () => {
      const vm = newName('cli');
      const folder = join(dir, 'config', 'svc3');
      await mkdir(folder, { recursive: true });
      const config = { baseUrl, caFile: join(dir, 'ca.pem'), namespace, token };
      await writeFile(join(folder, 'config.json'), JSON.stringify(config), { mode: 0o600 });
      const program = fileURLToPath(new URL('../../src/bin/svc3.mjs', import.meta.url));
      const env = {
        ...process.env,
        KUBECONFIG: cluster.places.kubeconfig,
        XDG_CONFIG_HOME: join(dir, 'config'),
        SSHPASS: 'admin',
      };
      const svc3 = async (...words: string[]) =>
        (await execute('sshpass', ['-e', process.execPath, program, ...words], { env, timeout: 280_000 }))
          .stdout;

      expect(await svc3('vm', 'deploy', vm, '-i', cluster.guest, '-c', '1', '-m', '0.25')).toContain(vm);
      const ssh = ['vm', 'ssh', `admin@${vm}`, '--', '-o', 'UserKnownHostsFile=/dev/null', 'hostname'];
      await vi.waitFor(async () => expect((await svc3(...ssh)).trim()).toBe(vm), slow);
      const typed = async (text: string) => {
        const session = execute(process.execPath, [program, 'vm', 'serial', vm], { env, timeout: 60_000 });
        session.child.stdin?.end(text);
        return (await session).stdout;
      };
      await vi.waitFor(async () => expect(await typed('\n')).toContain(`${vm} login: `), slow);
      const explained = await svc3('vm', 'explain', vm);
      expect(explained).toMatch(new RegExp(`^vm ${vm} is Running on node`));
      // Verdicts of nodes are for those who may see nodes.
      expect(explained).not.toMatch(/^node1 /m);
      const { stdout } = await cluster.svc3('-n', namespace, 'vm', 'explain', vm);
      expect(stdout).toMatch(/^node1 +yes/m);
      // A guest that takes longer to shut down than the api waits goes all the same.
      expect((await svc3('vm', 'delete', vm)).trim()).toBeOneOf([
        `Successfully deleted vm ${vm}`,
        expect.stringMatching(`^deletion of VM ${vm} has begun`),
      ]);
      await expect.poll(async () => (await curl('GET', `${NS}/vms/${vm}`)).code, slow).toBe(404);
    },
  );
});

describe('through the aggregated API of kube-apiserver', () => {
  test('kubectl shows nodes', async () => {
    const available = () =>
      cluster.kubectl(
        'get',
        'apiservice',
        'v1.api.svc3.dev',
        '-o',
        'jsonpath={.status.conditions[?(@.type=="Available")].status}',
      );
    await expect.poll(available, eventually).toBe('True');
    // kube-apiserver asks the api for its kinds a little after it has found it available.
    const kinds = () => cluster.kubectl('api-resources', '--api-group=api.svc3.dev');
    await expect.poll(kinds, eventually).toMatch(/^nodes\s/m);
    expect(await cluster.kubectl('get', 'nodes.api.svc3.dev')).toMatch(/^node1\s+READY/m);
  });

  test('a disk goes up in parts and comes down by Range, for somebody with the right in one namespace', async () => {
    const name = newName('parts');
    const { apiEndpoint, certData } = (await curl('GET', '/api/v1/cluster-info', undefined, '')).body;
    await writeFile(join(dir, 'kubernetes.pem'), Buffer.from(certData, 'base64'));
    /** Bytes and headers, through kube-apiserver. */
    const call = async (method: string, path: string, headers: Record<string, string>, content?: Buffer) => {
      if (content !== undefined) await writeFile(join(dir, 'content'), content);
      const given = Object.entries({ Authorization: `Bearer ${token}`, 'Content-Type': '', ...headers });
      const fixed = `--silent --show-error --max-time 60 --request ${method} --write-out %{http_code}`.split(
        ' ',
      );
      const options = given.flatMap(([key, value]) => [
        '--header',
        value === '' ? `${key}:` : `${key}: ${value}`,
      ]);
      const files = { '--cacert': 'kubernetes.pem', '--dump-header': 'headers', '--output': 'reply' };
      for (const [option, file] of Object.entries(files)) options.push(option, join(dir, file));
      if (content !== undefined) options.push('--data-binary', `@${join(dir, 'content')}`);
      const { stdout } = await execute('curl', [...fixed, ...options, `${apiEndpoint}${path}`]);
      const location = /^location: (\S+)/im.exec(await readFile(join(dir, 'headers'), 'utf8'))?.[1];
      return { code: Number(stdout), location, bytes: await readFile(join(dir, 'reply')) };
    };
    const disk = Buffer.alloc(3 * 2 ** 20, 'svc3');
    disk.writeUInt16LE(0xaa55, 510);
    const half = disk.length / 2;
    const path = `/apis/api.svc3.dev/v1/namespaces/${namespace}/images/${name}`;
    const length = { 'Upload-Length': String(disk.length) };
    const begin = () =>
      call('POST', `${path}/upload`, { ...length, 'Upload-Complete': '?0' }, disk.subarray(0, half));
    // kube-apiserver asks the api for its kinds a little after it has found it available.
    const { location, bytes } = await vi.waitFor(async () => {
      const reply = await begin();
      expect(reply.code).toBe(201);
      return reply;
    }, eventually);
    // kube-apiserver makes of it an address that nobody outside of the cluster reaches.
    expect(location).toBeUndefined();
    const { upload } = JSON.parse(bytes.toString('utf8')) as { upload: string };
    const on = `${path}/upload/${upload}`;
    const far = await call('GET', on, {});
    expect(JSON.parse(far.bytes.toString('utf8'))).toMatchObject({
      kind: 'ImageUpload',
      offset: half,
      complete: false,
    });
    const last = { 'Upload-Offset': String(half), 'Upload-Complete': '?1' };
    expect(await call('PATCH', on, last, disk.subarray(half))).toMatchObject({ code: 202 });
    await untilStored(name);
    /** Each replica of the api hears by itself that it is stored. */
    const download = (code: number, headers: Record<string, string>) =>
      vi.waitFor(async () => {
        const reply = await call('GET', `${path}/download`, headers);
        expect(reply.code).toBe(code);
        return reply.bytes;
      }, eventually);
    const down = [];
    for (const range of ['bytes=0-999', 'bytes=1000-1999']) down.push(await download(206, { Range: range }));
    const whole = await download(200, {});
    expect(Buffer.concat(down)).toEqual(whole.subarray(0, 2000));
    const remotes = () => cluster.kubectl('get', 'remoteimages', '-n', namespace);
    await expect
      .poll(remotes, eventually)
      .toMatch(new RegExp(`^NAME +TYPE\n(.*\n)*\\S+/${name}:latest +image`));
    await cluster.svc3('-n', namespace, 'image', 'delete', name);
    // kubectl says no length.
    const file = join(dir, 'raw.img');
    await writeFile(file, disk);
    const raw = `/apis/api.svc3.dev/v1/namespaces/${namespace}/images/raw-${name}`;
    await cluster.kubectl('create', '--raw', `${raw}/upload`, '-f', file);
    await untilStored(`raw-${name}`);
    const size = async () => (await cluster.kubectl('get', '--raw', `${raw}/download`)).length;
    await expect.poll(size, eventually).toBeGreaterThan(1_000);
    await cluster.svc3('-n', namespace, 'image', 'delete', `raw-${name}`);
    const info = await call('GET', '/apis/api.svc3.dev/v1/clusterinfos/cluster', {});
    expect(JSON.parse(info.bytes.toString('utf8'))).toMatchObject({ kind: 'ClusterInfo', version: '3.0.0' });
  }, 900_000);

  test('a VM is suspended and resumed', { timeout: 480_000 }, async () => {
    const vm = newName('aggregated');
    const words = ['-n', namespace, 'vm', 'deploy', vm, '-i', cluster.guest, '-c', '1', '-m', '0.25'];
    const deployed = await cluster.svc3(...words);
    expect(deployed).toMatchObject({ code: 0, stderr: '' });
    const state = () =>
      cluster.kubectl('get', 'vms.svc3.dev', '-n', namespace, vm, '-o', 'jsonpath={.status.powerState}');
    const client = createClient(await loadKubeconfig(cluster.places.kubeconfig));
    try {
      for (const [command, requested] of [
        ['suspend', 'Suspended'],
        ['resume', 'Running'],
      ] as const) {
        const body = { apiVersion: 'api.svc3.dev/v1', kind: 'VMExec', command };
        const path = `/apis/api.svc3.dev/v1/namespaces/${namespace}/vms/${vm}/exec?wait=false`;
        await client.request({ method: 'POST', path, body });
        await expect.poll(state, eventually).toBe(requested);
      }
    } finally {
      await client.close();
      expect(await cluster.svc3('-n', namespace, 'vm', 'delete', vm)).toMatchObject({ code: 0 });
    }
  });
});
