/** Every row of the 2.4.x mapping table on real parts: what it answers, and what came of it as Kubernetes and the guest show it. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { annotations } from '../../src/api/meta.ts';
import type { Vm } from '../../src/api/vm.ts';
import type { VmConfig } from '../../src/api/vmconfig.ts';
import { rows } from '../../src/http/legacy/table.ts';
import { storeCredential } from '../../src/localcluster/cluster/install.ts';
import { readSettings } from '../../src/localcluster/shared/state.ts';
import { buildGuest } from '../../src/localcluster/images/guest.ts';
import { writeIso } from '../../src/runner/iso9660.ts';
import { type E2eCluster, e2eCluster, eventually } from '../support/e2e.ts';

const execute = promisify(execFile);
const namespace = `gateway-${process.pid}`;
const user = `${namespace}-user`;
const vm = 'walked';
const slow = { timeout: 240_000, interval: 1_000 };
const long = { timeout: 480_000 };

let cluster: E2eCluster;
let dir: string;
let disk: string;
let baseUrl: string;
let token: string;
/** `METHOD path` of the rows that were walked to their end. */
const walked = new Set<string>();

beforeAll(async () => {
  cluster = await e2eCluster();
  dir = await mkdtemp(join(tmpdir(), 'svc3-gateway-'));
  disk = (await buildGuest(cluster.places.cache)).disk;
  const settings = await readSettings(cluster.places);
  if (settings === undefined) throw new Error('the cluster has no settings');
  baseUrl = `https://127.0.0.1:${settings.ports.api}`;
  const labels = {
    'pod-security.kubernetes.io/enforce': 'privileged',
    'svc3.dev/pod-security': 'restricted',
  };
  await cluster.kubectl.apply(
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace, labels } },
    ...storeCredential(settings, namespace),
  );
  await writeFile(join(dir, 'ca.pem'), await certificate('crt'));
  const added = await cluster.svc3('user', 'add', user, '--cluster-admin');
  expect(added.code, added.stderr).toBe(0);
  token = await vi.waitFor(async () => {
    const { stdout, code } = await cluster.svc3('user', 'get-token', '--user', user);
    expect(code).toBe(0);
    return stdout.trim();
  }, eventually);
});

afterAll(async () => {
  await cluster?.svc3('user', 'remove', user);
  await cluster?.kubectl('delete', 'vms.svc3.dev,images.svc3.dev,isos.svc3.dev', '-n', namespace, '--all');
  await cluster?.kubectl('delete', 'regcred', '-n', namespace, '--all', '--timeout=60s');
  await cluster?.kubectl('delete', 'namespace', namespace, '--wait=false');
  if (dir !== undefined) await rm(dir, { recursive: true, force: true });
});

async function certificate(part: 'crt' | 'key'): Promise<Buffer> {
  const secret = ['get', 'secret', '-n', 'svc3-system', 'svc3-api-tls', '-o'] as const;
  const text = await vi.waitFor(
    () => cluster.kubectl(...secret, `jsonpath={.data.tls\\.${part}}`),
    eventually,
  );
  return Buffer.from(text, 'base64');
}

interface Reply {
  readonly code: number;
  // oxlint-disable-next-line typescript/no-explicit-any -- replies are looked into as a client would
  readonly body: any;
}

/** What a client of 2.4.x sends, with curl. */
async function curl(method: string, path: string, ...more: string[]): Promise<Reply> {
  const { stdout } = await execute('curl', [
    ...`--silent --show-error --max-time 300 --write-out \n%{http_code} --request ${method}`.split(' '),
    ...headers([`Authorization: Bearer ${token}`, `X-Svc3-Namespace: ${namespace}`]),
    '--cacert',
    join(dir, 'ca.pem'),
    ...more,
    `${baseUrl}${path}`,
  ]);
  const end = stdout.lastIndexOf('\n');
  const text = stdout.slice(0, end);
  return { code: Number(stdout.slice(end + 1)), body: text.startsWith('{') ? JSON.parse(text) : text };
}

function headers(lines: readonly string[]): string[] {
  return lines.flatMap((line) => ['--header', line]);
}

function json(body: object): string[] {
  return [...headers(['Content-Type: application/json']), '--data', JSON.stringify(body)];
}

/** A row is walked when its answer is the expected one and what it did can be seen. */
async function row(
  key: string,
  reply: Promise<Reply>,
  expected: object,
  look: () => Promise<void> = () => Promise.resolve(),
): Promise<void> {
  expect(await reply, key).toMatchObject({ code: 200, ...expected });
  await look();
  walked.add(key);
}

/**
 * The same of a row that docs/gateway.md says answers when it is done: one look right after the answer has to show it. kubectl asks
 * kube-apiserver, so there is no cache that could be late.
 */
async function doneRow<T>(
  key: string,
  reply: Promise<Reply>,
  expected: object,
  look: () => Promise<T>,
  done: unknown,
): Promise<{ readonly answer: Reply; readonly seen: T }> {
  const answer = await reply;
  const seen = await look();
  expect(answer, key).toMatchObject({ code: 200, ...expected });
  expect(seen, key).toEqual(done);
  walked.add(key);
  return { answer, seen };
}

/** The same of what is only read: each replica of the api hears by itself of what was done. */
async function shown(key: string, path: string, expected: object, ...more: string[]): Promise<void> {
  const look = () => curl('GET', path, ...more);
  await expect.poll(look, { ...slow, message: key }).toMatchObject({ code: 200, ...expected });
  walked.add(key);
}

const said = (message: string) => ({ body: { message, errors: [] } });

async function becomes(look: () => Promise<unknown>, expected: unknown): Promise<void> {
  await expect.poll(look, slow).toEqual(expected);
}

/** A field of an object as kubectl prints it; '' where there is none. */
async function field(kind: string, name: string, path: string): Promise<string> {
  const from = kind === 'nodes' ? [] : ['-n', namespace];
  return cluster.kubectl('get', kind, ...from, name, '--ignore-not-found', '-o', `jsonpath={${path}}`);
}

/** Status of the condition Ready; '' where there is none. */
function readyOf(kind: 'images.svc3.dev' | 'isos.svc3.dev', name: string): Promise<string> {
  return field(kind, name, '.status.conditions[?(@.type=="Ready")].status');
}

async function untilReady(kind: 'images.svc3.dev' | 'isos.svc3.dev', name: string): Promise<void> {
  await expect.poll(() => readyOf(kind, name), slow).toBe('True');
}

async function untilGone(kind: string, name: string): Promise<void> {
  await expect.poll(() => field(kind, name, '.metadata.name'), slow).toBe('');
}

/** A VM as kubectl shows it now. */
async function vmNow(name: string): Promise<Vm> {
  return JSON.parse(await cluster.kubectl('get', 'vms.svc3.dev', '-n', namespace, name, '-o', 'json')) as Vm;
}

/** A VM that runs: QEMU has started its guest. */
const running = expect.objectContaining({
  status: expect.objectContaining({
    powerState: 'Running',
    ip: expect.stringMatching(/^[\d.]+$/),
    ports: expect.objectContaining({ ssh: expect.any(Number), screenshare: expect.any(Number) }),
    conditions: expect.arrayContaining([expect.objectContaining({ type: 'Booted', status: 'True' })]),
  }),
});

/** A port as 2.4.x clients read it. */
const portText = (port: number | undefined) => (port === undefined ? 'N/A' : String(port));

async function inGuest(command: string, name = vm): Promise<string> {
  return vi.waitFor(async () => {
    const ip = await field('vms.svc3.dev', name, '.status.ip');
    const port = Number(await field('vms.svc3.dev', name, '.status.ports.ssh'));
    return (await cluster.ssh({ ip, port, user: 'root' }, command)).trim();
  }, slow);
}

const sha256 = (content: Buffer) => createHash('sha256').update(content).digest('hex');

test('images come in, are listed, copied, described by others, and go', long, async () => {
  const post = (path: string, body: object) => curl('POST', `/resources/image/${path}`, ...json(body));
  const upload = curl('POST', '/resources/image/upload', '--form', `image=@${disk};filename=Base.img`);
  await row('POST /resources/image/upload', upload, said('Successfully uploaded base.img'), () =>
    untilReady('images.svc3.dev', 'base.img'),
  );
  const attributes = [expect.objectContaining({ image: 'base.img', owner: 'all' })];
  await shown('GET /resources/image/list', '/resources/image/list', {
    body: { images: ['base.img'], image_attributes: attributes },
  });
  const file = join(dir, 'download');
  const download = '/resources/image/download/base.img';
  await shown('GET /resources/image/download/{image}', download, {}, '--output', file);
  expect(sha256(await readFile(file))).toBe(sha256(await readFile(disk)));
  const copy = post('copy', { image: 'base.img', new_name: 'copy.img' });
  await row('POST /resources/image/copy', copy, said('Successfully copied'), async () => {
    await untilReady('images.svc3.dev', 'copy.img');
    expect(await field('images.svc3.dev', 'copy.img', '.status.digest')).toBe(
      await field('images.svc3.dev', 'base.img', '.status.digest'),
    );
  });
  const generate = post('generate', { file_name: 'blank.img', file_size: '2G' });
  await row('POST /resources/image/generate', generate, said('Successfully generated image'), async () => {
    await untilReady('images.svc3.dev', 'blank.img');
    expect(await field('images.svc3.dev', 'blank.img', '.status.size')).toMatch(/^2G/);
  });
  const remote = await curl('GET', '/resources/image/list-remote');
  const reference = remote.body.images.find((name: string) => name.endsWith('/base.img:latest'));
  await row('GET /resources/image/list-remote', Promise.resolve(remote), {
    body: { images: expect.arrayContaining([expect.stringContaining(`${namespace}/copy.img:latest`)]) },
  });
  const pull = post('pull', { image: reference, new_name: 'pulled.img' });
  await row('POST /resources/image/pull', pull, said('Successfully copied image.'), () =>
    untilReady('images.svc3.dev', 'pulled.img'),
  );
  const remove = post('delete', { image: 'blank.img' });
  await doneRow(
    'POST /resources/image/delete',
    remove,
    said('Successfully deleted: blank.img'),
    () => field('images.svc3.dev', 'blank.img', '.metadata.name'),
    '',
  );
});

test('ISOs come in, are listed, copied, and go', long, async () => {
  const iso = join(dir, 'Tools.iso');
  await writeFile(iso, writeIso('TOOLS', [{ name: 'hello.txt', content: Buffer.from('hello') }]));
  const post = (path: string, body: object) => curl('POST', `/resources/iso/${path}`, ...json(body));
  const upload = curl('POST', '/resources/iso/upload', '--form', `iso=@${iso}`);
  await row('POST /resources/iso/upload', upload, said('Successfully uploaded tools.iso'), () =>
    untilReady('isos.svc3.dev', 'tools.iso'),
  );
  await shown('GET /resources/iso/list', '/resources/iso/list', {
    body: { isos: ['tools.iso'], iso_attributes: [expect.objectContaining({ iso: 'tools.iso' })] },
  });
  const copy = post('copy', { iso: 'tools.iso', new_name: 'more.iso' });
  await row('POST /resources/iso/copy', copy, said('Successfully copied.'), () =>
    untilReady('isos.svc3.dev', 'more.iso'),
  );
  // What registries have is looked up again after a while, by each replica of the api for itself.
  const remote = await vi.waitFor(async () => {
    const listed = await curl('GET', '/resources/iso/list-remote');
    expect(listed.body.isos).toEqual(expect.arrayContaining([expect.stringContaining('tools.iso')]));
    return listed;
  }, slow);
  const reference = remote.body.isos.find((name: string) => name.includes('tools.iso'));
  await row('GET /resources/iso/list-remote', Promise.resolve(remote), {
    body: { isos: expect.arrayContaining([expect.stringContaining('tools.iso')]) },
  });
  const pull = post('pull', { iso: reference, new_name: 'pulled.iso' });
  await row('POST /resources/iso/pull', pull, said('Successfully copied iso.'), () =>
    untilReady('isos.svc3.dev', 'pulled.iso'),
  );
  await doneRow(
    'POST /resources/iso/delete',
    post('delete', { iso: 'more.iso' }),
    said('Successfully deleted ISO'),
    () => field('isos.svc3.dev', 'more.iso', '.metadata.name'),
    '',
  );
});

test('nodes are listed and tagged', long, async () => {
  const nodes = await curl('GET', '/resources/node/list');
  const ip = await field('nodes', 'node1', '.status.addresses[?(@.type=="InternalIP")].address');
  await row('GET /resources/node/list', Promise.resolve(nodes), {
    body: { nodes: expect.arrayContaining([expect.objectContaining({ name: 'node1', address: ip })]) },
  });
  const node = json({ svc_node_name: 'node2' });
  const tags = async () =>
    (await curl('GET', '/resources/node/list')).body.nodes.find(
      ({ name }: { name: string }) => name === 'node2',
    ).svc_tags;
  const on = curl('POST', '/resources/node/tag/walk', ...node);
  await row(
    'POST /resources/node/tag/{tag}',
    on,
    said("Successfully tagged node 'node2' with a tag 'walk'"),
    () => becomes(tags, expect.arrayContaining(['walk'])),
  );
  const off = curl('DELETE', '/resources/node/tag/walk', ...node);
  await row('DELETE /resources/node/tag/{tag}', off, said("Successfully untagged node 'node2'"), () =>
    becomes(tags, expect.not.arrayContaining(['walk'])),
  );
});

/** A configuration with every field of the contract, as it is sent, shown and stored. */
const full = {
  sent: {
    svc_vm_name: 'full',
    svc_base_image: 'copy.img',
    svc_image: 'full',
    svc_cpu_core: 2,
    vcpu_count: 2,
    memory: 2.5,
    iso_image: 'tools.iso',
    system_serial: 'C02XX',
    vnc_console: false,
    gpu_passthrough: true,
    tag: 'walk',
    tag_required: true,
    scheduler: 'most-allocated',
  },
  // What is gone: accepted, and without effect.
  gone: { attached_disk: 'base.img', io_boost: true, use_saved_state: true },
  shown: { attached_disk: 'None', io_boost: false, use_saved_state: false },
  /** Where it has no VM, among VMs. */
  listed: {
    virtual_machine_name: 'full',
    vm_deployment_status: 'Not Deployed',
    cpu: 2,
    vcpu: 2,
    RAM: '2.50G',
    base_image: 'copy.img',
    gpu_passthrough: true,
    tag: 'walk',
    tag_required: true,
  },
  stored: {
    image: 'copy.img',
    cpu: 2,
    memory: '2560Mi',
    iso: 'tools.iso',
    systemSerial: 'C02XX',
    vncConsole: 'Disabled',
    gpuPassthrough: 'Enabled',
    tag: 'walk',
    tagRequired: true,
    scheduler: 'Pack',
  },
} as const;

test('a configuration keeps every field', long, async () => {
  const { sent } = full;
  const create = curl('POST', '/resources/vm/create', ...json({ ...sent, ...full.gone }));
  expect(await create).toMatchObject({ code: 201, ...said('Successfully Created') });
  const get = ['get', 'vmconfigs.svc3.dev', '-n', namespace, sent.svc_vm_name, '-o', 'json'] as const;
  const { metadata, spec } = JSON.parse(await cluster.kubectl(...get)) as VmConfig;
  expect(spec).toEqual(full.stored);
  const owner = metadata.annotations?.[annotations.owner];
  expect(owner).toContain(user);
  const { svc_image: _, ...fields } = sent;
  await expect
    .poll(async () => (await curl('GET', '/resources/vm/configs/full')).body.configs, slow)
    .toEqual([{ ...fields, ...full.shown, owner }]);
});

/** What a deploy answers of a VM, by what kubectl shows of it. */
function deployReply({ metadata, status }: Vm): object {
  return {
    vm_id: metadata.uid,
    ip: status?.ip,
    ssh_port: portText(status?.ports?.ssh),
    screen_share_port: portText(status?.ports?.screenshare),
    vnc_port: portText(status?.ports?.vnc),
    vcpu: String(status?.effective?.cpu),
  };
}

/** What the list says of a VM, by what kubectl shows of it. */
function listedVm({ metadata, status }: Vm): object {
  const { ssh, screenshare, mapped = [] } = status?.ports ?? {};
  const own = [
    { host_port: screenshare, guest_port: 5900, protocol: 'TCP' },
    { host_port: ssh, guest_port: 22, protocol: 'TCP' },
  ];
  const others = mapped.map(({ nodePort, guestPort, protocol }) => ({
    host_port: nodePort,
    guest_port: guestPort,
    protocol,
  }));
  return {
    virtual_machine_id: metadata.uid,
    node_location: status?.node,
    virtual_machine_ip: status?.ip,
    ssh_port: portText(ssh),
    screen_sharing_port: portText(screenshare),
    vnc_port: portText(status?.ports?.vnc),
    reserved_ports: expect.arrayContaining([...own, ...others]),
    creation_timestamp: metadata.creationTimestamp,
    cpu: status?.effective?.cpu,
    vcpu: status?.effective?.cpu,
  };
}

test(
  'a VM is configured, deployed, switched, saved, committed and deleted',
  { timeout: 1_200_000 },
  async () => {
    const named = json({ svc_vm_name: vm });
    const post = (path: string, body: object) => curl('POST', `/resources/${path}`, ...json(body));
    const config = { svc_vm_name: vm, svc_base_image: 'copy.img', vcpu_count: 1, memory: 1 };
    const create = post('vm/create', { ...config, svc_image: vm });
    await row('POST /resources/vm/create', create, { code: 201, ...said('Successfully Created') }, async () =>
      expect(await field('vmconfigs.svc3.dev', vm, '.spec.image')).toBe('copy.img'),
    );
    await shown('GET /resources/vm/configs', '/resources/vm/configs', {
      body: { configs: [{ svc_vm_name: 'full' }, config] },
    });
    await shown('GET /resources/vm/configs/{vmconfig}', `/resources/vm/configs/${vm}`, {
      body: { configs: [config] },
    });
    // One that is in the installation's range, and one that nobody gets.
    const ports = ['20291:8080', '22:8081'];
    const { answer, seen: deployed } = await doneRow(
      'POST /resources/vm/deploy',
      post('vm/deploy', { svc_vm_name: vm, reserved_ports: ports }),
      said('Successfully deployed VM'),
      () => vmNow(vm),
      running,
    );
    expect(answer.body).toMatchObject({
      ...deployReply(deployed),
      ram: '1G',
      port_warnings: ['Port mapping 22:8081 was left out: usable node ports are 20000-29999.'],
    });
    expect(deployed.status?.ports?.mapped).toEqual([{ nodePort: 20291, guestPort: 8080, protocol: 'TCP' }]);
    expect(await inGuest('hostname')).toBe(vm);
    expect(await inGuest('grep -c ^processor /proc/cpuinfo')).toBe(answer.body.vcpu);
    const status = [
      { ...listedVm(deployed), RAM: '1G', gpu: 'N/A', base_image: 'copy.img', vm_status: 'running' },
    ];
    const walkedVm = { virtual_machine_name: vm, vm_deployment_status: 'Deployed', status };
    await shown('GET /resources/vm/list', '/resources/vm/list', {
      body: { virtual_machine_resources: [walkedVm, full.listed] },
    });
    await shown('GET /resources/vm/status/{vm}', `/resources/vm/status/${vm}`, {
      body: { virtual_machine_resources: [walkedVm] },
    });

    const exec = (verb: string, message: string, powerState: string) =>
      doneRow(
        `POST /resources/vm/exec/${verb}`,
        post(`vm/exec/${verb}`, { svc_vm_name: vm }),
        said(message),
        () => vmNow(vm),
        expect.objectContaining({ status: expect.objectContaining({ powerState }) }),
      );
    await exec('suspend', `${vm} has been suspended on node`, 'Suspended');
    await exec('resume', `${vm} has resumed on node`, 'Running');
    await inGuest('echo kept > /root/kept; sync');
    await doneRow(
      'POST /resources/image/save',
      post('image/save', { svc_vm_name: vm, new_name: 'saved.img' }),
      said('saved'),
      () => readyOf('images.svc3.dev', 'saved.img'),
      'True',
    );
    const before = await field('images.svc3.dev', 'copy.img', '.status.digest');
    await doneRow(
      'POST /resources/image/commit',
      post('image/commit', { svc_vm_name: vm }),
      said('committed'),
      () => field('images.svc3.dev', 'copy.img', '.status.digest'),
      expect.not.stringMatching(before),
    );
    await inGuest('echo lost > /root/lost; sync');
    const { seen: reverted } = await exec('revert', `Successfully reverted ${vm} on node`, 'Running');
    expect(reverted.status?.revertRequest).toBeTypeOf('string');
    expect(reverted.status?.revertRequest).toBe(reverted.spec.revertRequest);
    // The first guest that lets one in is the new one.
    expect(await inGuest('ls /root/lost 2>/dev/null || echo none')).toBe('none');
    await exec('stop', `${vm} has stopped on node`, 'Stopped');
    await exec('start', `${vm} has started on node`, 'Running');
    const deleted = await curl('DELETE', '/resources/vm/delete', ...named);
    const left = await field('vms.svc3.dev', vm, '.metadata.name');
    // A guest that takes longer to shut down than the api waits goes all the same.
    expect(deleted).toBeOneOf([
      { code: 200, body: expect.objectContaining({ message: 'Successfully deleted VM', errors: [] }) },
      {
        code: 504,
        body: expect.objectContaining({ errors: [{ message: expect.stringContaining('has begun') }] }),
      },
    ]);
    expect(deleted.code === 200 ? left : '').toBe('');
    await untilGone('vms.svc3.dev', vm);
    walked.add('DELETE /resources/vm/delete');

    // What was saved is a guest that boots, with what it wrote.
    const again = { svc_vm_name: 'again', svc_base_image: 'saved.img', vcpu_count: 1, memory: 1 };
    expect((await post('vm/create', again)).code).toBe(201);
    const second = await post('vm/deploy', { svc_vm_name: 'again' });
    const seen = await vmNow('again');
    expect(seen).toEqual(running);
    expect(second).toMatchObject({ code: 200, body: { ...deployReply(seen), port_warnings: [] } });
    expect(await inGuest('cat /root/kept', 'again')).toBe('kept');
    await doneRow(
      'DELETE /resources/vm/purge',
      curl('DELETE', '/resources/vm/purge', ...named),
      said('Successfully purged VM'),
      () => field('vmconfigs.svc3.dev', vm, '.metadata.name'),
      '',
    );
  },
);

test('the certificate is set', long, async () => {
  // The one that it has: others of this run trust it.
  const parts = await Promise.all(
    (['crt', 'key'] as const).map(async (part) => {
      const file = join(dir, `tls.${part}`);
      await writeFile(file, await certificate(part), { mode: 0o600 });
      return ['--form', `${part === 'crt' ? 'certPath' : 'keyPath'}=@${file}`];
    }),
  );
  const set = curl('POST', '/resources/cert/set', ...parts.flat());
  await row('POST /resources/cert/set', set, said('Successfully set certificate'), async () =>
    expect(await certificate('crt')).toEqual(await readFile(join(dir, 'ca.pem'))),
  );
});

describe('docs/gateway.md', () => {
  test('has a tick for every row', async () => {
    const lines = rows.map(({ kind, method, path, successor }) => {
      const done = kind === 'removed' || walked.has(`${method} ${path}`);
      return `| ${method} ${path} | ${successor} | ${kind === 'removed' ? '410' : done ? '✓' : ' '} |`;
    });
    expect(lines.filter((line) => line.endsWith('|   |'))).toEqual([]);
    const mapped = rows
      .filter(({ kind }) => kind === 'mapped')
      .map(({ method, path }) => `${method} ${path}`);
    expect([...walked].toSorted()).toEqual(mapped.toSorted());
    const page = await readFile(new URL('../../docs/gateway.md', import.meta.url), 'utf8');
    expect(page).toContain(`\n${lines.join('\n')}\n`);
  });
});
