/**
 * A VM's life after its first day, on kubectl, on the command line and over HTTP: what one of them does all three show, with the same
 * values, and another goes on with it. Power verbs are each asked of all three; that all else can be is shown without a guest
 * (test/integration/{http,cli,vm}).
 */
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { readSettings } from '../../src/localcluster/shared/state.ts';
import { type E2eCluster, e2eCluster, eventually } from '../support/e2e.ts';
import {
  type CliSurface,
  cliSurface,
  type HttpSurface,
  httpSurface,
  type KubectlSurface,
  kubectlSurface,
  namespace,
  type Surface,
  type Verb,
} from './surfaces.ts';

const names = ['kubectl', 'svc3', 'HTTP'] as const;
const slow = { timeout: 120_000, interval: 1_000 };

let cluster: E2eCluster;
let surfaces: {
  readonly kubectl: KubectlSurface;
  readonly svc3: CliSurface;
  readonly HTTP: HttpSurface;
};
let close: () => Promise<void>;

beforeAll(async () => {
  cluster = await e2eCluster();
  const { ports } = (await readSettings(cluster.places)) ?? {};
  const secret = ['get', 'secret', '-n', 'svc3-system', 'svc3-api-tls', '-o'] as const;
  const certificate = await vi.waitFor(
    () => cluster.kubectl(...secret, String.raw`jsonpath={.data.tls\.crt}`),
    eventually,
  );
  const added = await cluster.svc3('user', 'add', 'liver', '--cluster-admin');
  expect(added.code, added.stderr).toBe(0);
  const token = await vi.waitFor(async () => {
    const { stdout, code } = await cluster.svc3('user', 'get-token', '--user', 'liver');
    expect(code).toBe(0);
    return stdout.trim();
  }, eventually);
  const ca = Buffer.from(certificate, 'base64').toString('utf8');
  const http = httpSurface(`https://127.0.0.1:${ports?.api}`, ca, token);
  close = () => http.close();
  surfaces = { kubectl: kubectlSurface(cluster), svc3: cliSurface(cluster), HTTP: http };
});

afterAll(async () => {
  await cluster?.svc3('user', 'remove', 'liver');
  await close?.();
});

/** What all three show, once it is the same and is this. HTTP alone is asked until then: a process for each look would keep a processor busy. */
async function allShow<T>(look: (surface: Surface) => Promise<T>, expected: unknown): Promise<void> {
  await expect.poll(async () => look(surfaces.HTTP), slow).toEqual(expected);
  await expect
    .poll(async () => Promise.all(names.map(async (name) => look(surfaces[name]))), slow)
    .toEqual(names.map(() => expected));
}

const vm = 'life';
const saved = 'life-saved';
const config = 'life-config';
const inTime = { timeout: 600_000 };

const shows = (status: string, more: object = {}) =>
  allShow((surface) => surface.vm(vm), expect.objectContaining({ status, ...more }));
const image = (wanted: string) => async (surface: Surface) =>
  (await surface.images()).find((one) => one.name === wanted);

async function inGuest(command: string): Promise<string> {
  return vi.waitFor(async () => {
    const { ssh } = (await surfaces.kubectl.vm(vm)) ?? {};
    const path = 'jsonpath={.status.ip}';
    const ip = await cluster.kubectl('get', 'vms.svc3.dev', '-n', namespace, vm, '-o', path);
    return (await cluster.ssh({ ip, port: ssh ?? 0, user: 'root' }, command)).trim();
  }, slow);
}

test('a VM that kubectl deploys is the same wherever one looks', inTime, async () => {
  await surfaces.kubectl.deploy(vm, { image: cluster.guest });
  await shows('Running', { cpu: 1, memory: '0.25Gi', image: cluster.guest, config: undefined });
  await allShow(async (surface) => (await surface.vms()).includes(vm), true);
});

describe.each(names)('by %s', (name) => {
  test.each<[verb: Verb, status: string]>([
    ['suspend', 'Suspended'],
    ['resume', 'Running'],
    ['stop', 'Stopped'],
    ['start', 'Running'],
    ['restart', 'Running'],
  ])('%s makes it %s', inTime, async (verb, status) => {
    const boot = () => inGuest('cat /proc/sys/kernel/random/boot_id');
    const before = verb === 'restart' ? await boot() : '';
    await surfaces[name].exec(vm, verb);
    await shows(status);
    if (verb === 'restart') await expect.poll(boot, slow).not.toBe(before);
  });

  test('a node is tagged and untagged', async () => {
    const tag = name.toLowerCase();
    await surfaces[name].tag('node1', tag);
    await allShow(async (surface) => (await surface.tags('node1')).includes(tag), true);
    await surfaces[name].untag('node1', tag);
    await allShow(async (surface) => (await surface.tags('node1')).includes(tag), false);
  });
});

test('a guest that powers itself off is Stopped, and svc3 starts it again', inTime, async () => {
  await inGuest('echo kept > /root/kept; sync; (sleep 1; poweroff) >/dev/null 2>&1 &');
  await shows('Stopped');
  await surfaces.svc3.exec(vm, 'start');
  await shows('Running');
  expect(await inGuest('cat /root/kept')).toBe('kept');
});

test('its disk is saved over HTTP, described by kubectl and copied by svc3', inTime, async () => {
  await surfaces.HTTP.save(vm, saved);
  await allShow(image(saved), expect.objectContaining({ state: 'Ready' }));
  await surfaces.kubectl.describeImage(saved, 'from the life of a VM');
  await allShow(image(saved), { name: saved, state: 'Ready', description: 'from the life of a VM' });
  await surfaces.svc3.copyImage(saved, `${saved}-copy`);
  await allShow(image(`${saved}-copy`), expect.objectContaining({ state: 'Ready' }));
  await surfaces.HTTP.removeImage(`${saved}-copy`);
  await allShow(image(`${saved}-copy`), undefined);
});

test('a revert over HTTP takes its changes back', inTime, async () => {
  await surfaces.HTTP.exec(vm, 'revert');
  await expect.poll(() => inGuest('ls /root/kept 2>/dev/null || echo none'), slow).toBe('none');
  await shows('Running');
});

test(
  'svc3 makes a configuration, and HTTP deploys from it and the image; kubectl commits',
  inTime,
  async () => {
    await surfaces.svc3.createConfig(config, { image: saved, cpu: 2, memory: 0.5 });
    const shown = async (surface: Surface) => (await surface.configs()).find((one) => one.name === config);
    await allShow(shown, { name: config, cpu: 2, memory: 0.5 });
    await surfaces.kubectl.remove(vm);
    await allShow((surface) => surface.vm(vm), undefined);
    await surfaces.HTTP.deploy(vm, { config });
    await shows('Running', { cpu: 2, memory: '0.50Gi', image: saved, config });
    expect(await inGuest('cat /root/kept; echo more > /root/more; sync')).toBe('kept');
    const path = 'jsonpath={.status.digest}';
    const digest = () => cluster.kubectl('get', 'images.svc3.dev', '-n', namespace, saved, '-o', path);
    const before = await digest();
    await surfaces.kubectl.commit(vm, saved);
    await expect.poll(digest, slow).not.toBe(before);
    await allShow(async (surface) => (await image(saved)(surface))?.state, 'Ready');
    await surfaces.HTTP.removeConfig(config);
    await allShow(shown, undefined);
  },
);

test('svc3 deletes it, and kubectl its image after it', inTime, async () => {
  await surfaces.svc3.remove(vm);
  await allShow((surface) => surface.vm(vm), undefined);
  await surfaces.kubectl.removeImage(saved);
  await allShow(image(saved), undefined);
});
