/** Every row of the 2.4.x mapping table on real parts: what it answers, and what came of it as Kubernetes and the guest show it. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { rows } from '../../src/http/legacy/table.ts';
import { storeCredential } from '../../src/localcluster/cluster/install.ts';
import { readSettings } from '../../src/localcluster/cluster/state.ts';
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

async function untilReady(kind: 'images.svc3.dev' | 'isos.svc3.dev', name: string): Promise<void> {
  const condition = `{.status.conditions[?(@.type=="Ready")].status}`.slice(1, -1);
  await expect.poll(() => field(kind, name, condition), slow).toBe('True');
}

async function untilGone(kind: string, name: string): Promise<void> {
  await expect.poll(() => field(kind, name, '.metadata.name'), slow).toBe('');
}

async function inGuest(command: string): Promise<string> {
  return vi.waitFor(async () => {
    const ip = await field('vms.svc3.dev', vm, '.status.ip');
    const port = Number(await field('vms.svc3.dev', vm, '.status.ports.ssh'));
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
  await row('POST /resources/image/delete', remove, said('Successfully deleted: blank.img'), () =>
    untilGone('images.svc3.dev', 'blank.img'),
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
  await row(
    'POST /resources/iso/delete',
    post('delete', { iso: 'more.iso' }),
    said('Successfully deleted ISO'),
    () => untilGone('isos.svc3.dev', 'more.iso'),
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

test(
  'a VM is configured, deployed, switched, saved, committed and deleted',
  { timeout: 900_000 },
  async () => {
    const named = json({ svc_vm_name: vm });
    const exec = (verb: string) => curl('POST', `/resources/vm/exec/${verb}`, ...named);
    const state = () => field('vms.svc3.dev', vm, '.status.powerState');
    const create = curl(
      'POST',
      '/resources/vm/create',
      ...json({ svc_vm_name: vm, svc_base_image: 'copy.img', svc_image: vm, vcpu_count: 1, memory: 1 }),
    );
    const config = { svc_vm_name: vm, svc_base_image: 'copy.img', vcpu_count: 1, memory: 1 };
    await row('POST /resources/vm/create', create, { code: 201, ...said('Successfully Created') }, async () =>
      expect(await field('vmconfigs.svc3.dev', vm, '.spec.image')).toBe('copy.img'),
    );
    const configs = { body: { configs: [config] } };
    await shown('GET /resources/vm/configs', '/resources/vm/configs', configs);
    await shown('GET /resources/vm/configs/{vmconfig}', `/resources/vm/configs/${vm}`, configs);
    const deploy = curl('POST', '/resources/vm/deploy', ...named);
    await row('POST /resources/vm/deploy', deploy, said('Successfully deployed VM'), async () =>
      expect(await inGuest('hostname')).toBe(vm),
    );
    const port = await field('vms.svc3.dev', vm, '.status.ports.ssh');
    const resources = [
      {
        virtual_machine_name: vm,
        vm_deployment_status: 'Deployed',
        status: [
          {
            virtual_machine_id: await field('vms.svc3.dev', vm, '.metadata.uid'),
            node_location: await field('vms.svc3.dev', vm, '.status.node'),
            virtual_machine_ip: await field('vms.svc3.dev', vm, '.status.ip'),
            ssh_port: port,
            cpu: 1,
            RAM: '1G',
            base_image: 'copy.img',
            vm_status: 'running',
          },
        ],
      },
    ];
    const deployed = { body: { virtual_machine_resources: resources } };
    await shown('GET /resources/vm/list', '/resources/vm/list', deployed);
    await shown('GET /resources/vm/status/{vm}', `/resources/vm/status/${vm}`, deployed);

    await row('POST /resources/vm/exec/suspend', exec('suspend'), {}, () => becomes(state, 'Suspended'));
    await row('POST /resources/vm/exec/resume', exec('resume'), {}, () => becomes(state, 'Running'));
    await inGuest('echo kept > /root/kept; sync');
    const save = curl('POST', '/resources/image/save', ...json({ svc_vm_name: vm, new_name: 'saved.img' }));
    await row('POST /resources/image/save', save, said('saved'), () =>
      untilReady('images.svc3.dev', 'saved.img'),
    );
    const before = await field('images.svc3.dev', 'copy.img', '.status.digest');
    await row(
      'POST /resources/image/commit',
      curl('POST', '/resources/image/commit', ...named),
      said('committed'),
      () =>
        becomes(
          () => field('images.svc3.dev', 'copy.img', '.status.digest'),
          expect.not.stringMatching(before),
        ),
    );
    await inGuest('echo lost > /root/lost; sync');
    await row('POST /resources/vm/exec/revert', exec('revert'), {}, () =>
      becomes(() => inGuest('ls /root/lost 2>/dev/null || echo none'), 'none'),
    );
    await row('POST /resources/vm/exec/stop', exec('stop'), {}, () => becomes(state, 'Stopped'));
    await row('POST /resources/vm/exec/start', exec('start'), {}, () => becomes(state, 'Running'));
    // A guest that takes longer to shut down than the api waits goes all the same.
    expect(await curl('DELETE', '/resources/vm/delete', ...named)).toBeOneOf([
      { code: 200, body: expect.objectContaining({ message: 'Successfully deleted VM', errors: [] }) },
      {
        code: 504,
        body: expect.objectContaining({ errors: [{ message: expect.stringContaining('has begun') }] }),
      },
    ]);
    await untilGone('vms.svc3.dev', vm);
    walked.add('DELETE /resources/vm/delete');

    // What was saved is a guest that boots, with what it wrote.
    const again = json({ svc_vm_name: 'again', svc_base_image: 'saved.img', vcpu_count: 1, memory: 1 });
    expect((await curl('POST', '/resources/vm/create', ...again)).code).toBe(201);
    const purge = curl('DELETE', '/resources/vm/purge', ...named);
    await row('DELETE /resources/vm/purge', purge, said('Successfully purged VM'), () =>
      untilGone('vmconfigs.svc3.dev', vm),
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
