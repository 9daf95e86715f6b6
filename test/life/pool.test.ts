import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { createVm, type E2eCluster, e2eCluster, eventually, type TestVm, vmOf } from '../support/e2e.ts';
import { apiOf, type Curl } from '../support/e2eapi.ts';

// A boot, a save, three guests that wait and the VMs that get them, one after the other.
vi.setConfig({ testTimeout: 480_000 });

const namespace = 'svc3-default';
const ci = `ci-${process.pid}`;
const user = `pool-${process.pid}`;
const vms: TestVm[] = [];
let cluster: E2eCluster;
let dir: string;
let curl: Curl;

beforeAll(async () => {
  cluster = await e2eCluster();
  dir = await mkdtemp(join(tmpdir(), 'svc3-e2e-pool-'));
  ({ curl } = await apiOf(cluster, dir, user));
});

afterAll(async () => {
  if (dir !== undefined) await rm(dir, { recursive: true, force: true });
  if (cluster === undefined) return;
  await cluster.svc3('user', 'remove', user);
  await cluster.kubectl('delete', 'vmpools.svc3.dev', '-n', namespace, ci, '--ignore-not-found');
  await Promise.all(vms.map((vm) => vm.delete()));
  await svc3('vm-config', 'delete', ci);
  await vi.waitFor(
    async () => expect((await svc3('image', 'delete', ci)).code).toBeOneOf([0, 6]),
    eventually,
  );
});

const svc3 = (...words: string[]) => cluster.svc3(...words, '--namespace', namespace);

const idle = () =>
  cluster.kubectl('get', 'vmpools.svc3.dev', '-n', namespace, ci, '-o', 'jsonpath={.status.idle}');

/** What a job finds in its guest: the server that ran when the image was saved, and under which name. */
const look = 'wget -q -O - http://127.0.0.1:8080/job; hostname';

test('clients that know of no pool get guests that went on from a memory, each under its own name, and the pool fills up again', async () => {
  const original = await createVm(cluster, 'pool-original');
  vms.push(original);
  await original.untilReady();
  await original.ssh('mkdir -p /tmp/www; echo served > /tmp/www/job; httpd -p 127.0.0.1:8080 -h /tmp/www');
  expect(await svc3('vm', 'save', original.name, ci, '--memory')).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/was stopped for \d/),
  });
  const config = { name: ci, image: ci, cpu: 1, memory: 0.25 };
  expect((await curl('POST', `/api/v1/namespaces/${namespace}/vmconfigs`, config)).code).toBe(201);
  const pool = ['--config', ci, '--min-idle', '3', '--max-size', '6', '--serve-config'];
  expect(await svc3('pool', 'create', ci, ...pool)).toMatchObject({ code: 0 });
  await expect.poll(idle, eventually).toBe('3');

  const byCommand = await svc3('vm', 'deploy', 'pool-one', '--config', ci);
  expect(byCommand).toMatchObject({ code: 0 });
  // Clients say their defaults, in their own words.
  const byHttp = { name: 'pool-two', vmConfig: ci, cpu: 1, memory: 0.25, diskStorage: 'ephemeral' };
  expect(await curl('POST', `/api/v1/namespaces/${namespace}/vms`, byHttp)).toMatchObject({
    code: 200,
    body: { name: 'pool-two', status: 'Running' },
  });
  // One of 2.4.x names its VM by the configuration.
  const legacy = {
    svc_vm_name: ci,
    vnc_console: true,
    gpu_passthrough: false,
    tag: '',
    tag_required: false,
    scheduler: 'default',
    iso_image: 'None',
  };
  expect(await curl('POST', '/resources/vm/deploy', legacy)).toMatchObject({
    code: 200,
    body: { message: 'Successfully deployed VM', errors: [] },
  });
  const random: string[] = [];
  for (const name of ['pool-one', 'pool-two', ci]) {
    const vm = vmOf(cluster, name);
    vms.push(vm);
    expect((await vm.get())?.status?.podName).toMatch(/^svc3-pool-/);
    // It runs before it has heard its name.
    await expect.poll(() => vm.ssh(look), eventually).toBe(`served\n${name}`);
    random.push(await vm.ssh('head -c 16 /dev/urandom | od -An -tx1'));
  }
  expect(new Set(random).size).toBe(random.length);
  await expect.poll(idle, eventually).toBe('3');

  await cluster.kubectl('delete', 'vmpools.svc3.dev', '-n', namespace, ci, '--timeout=60s');
  for (const vm of vms.filter(({ name }) => name !== original.name))
    expect(await vm.ssh('hostname')).toBe(vm.name);
});
