/** docs/install.md, command by command, on a local cluster without svc3 in it: what it installs is what `npm run release` published. */
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { finalizer } from '../../src/api/meta.ts';
import { registryHost } from '../../src/localcluster/shared/addresses.ts';
import { down, fullClusterTools, up } from '../../src/localcluster/cluster/cluster.ts';
import { pushGuest, registryOf } from '../../src/localcluster/cluster/install.ts';
import { createKubectl, type Kubectl } from '../../src/localcluster/shared/kubectl.ts';
import { placesOf, readSettings } from '../../src/localcluster/shared/state.ts';
import { buildTools } from '../../src/localcluster/host/tools.ts';
import { buildGuest } from '../../src/localcluster/images/guest.ts';
import { type Block, type Walk, blocksOf, spelled, walk } from '../support/page.ts';
import { removeInterruptedClusters } from '../support/interruptedclusters.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const signal = new AbortController().signal;
const progress = (line: string): void => console.error(line);
const places = placesOf(`install-${process.pid}`, process.env, homedir());

/** What the page calls it, and where people would put their own. */
const documented = 'registry.example.com';

/** What this cluster needs beside the values of the page: its registry speaks plain HTTP, its machine may have no KVM. */
const values = {
  accelerator: 'tcg',
  insecureRegistries: { enabled: true, allowed: ['*'] },
};

let home: string;
let kubectl: Kubectl;
let blocks: Block[];
let here: Walk;

beforeAll(async () => {
  await removeInterruptedClusters();
  await up({ places, nodes: 1, bare: true, bound: true, hostLink: false, signal, progress });
  const settings = await readSettings(places);
  if (settings === undefined) throw new Error('the cluster has no settings');
  const registry = registryOf(settings);
  await pushGuest(registry, 'images/debian', ['12'], await buildGuest(places.cache, signal));

  home = await mkdtemp(join(tmpdir(), 'svc3-install-'));
  const tools = await buildTools(fullClusterTools, { cacheDir: places.cache });
  kubectl = createKubectl(tools, places.kubeconfig, signal);
  const svc3 = join(home, 'svc3');
  await writeFile(svc3, `#!/bin/sh\nexec node ${join(root, 'src/bin/svc3.mjs')} "$@"\n`);
  await chmod(svc3, 0o755);
  await mkdir(join(home, '.docker'));
  await writeFile(join(home, 'password.txt'), registry.credentials.password);
  await writeFile(join(home, 'here.yaml'), JSON.stringify(values));
  const programs = ['kubectl', 'helm'].map((name) => dirname(tools.path(name)));
  const env = {
    ...process.env,
    HOME: home,
    XDG_CACHE_HOME: dirname(places.cache),
    KUBECONFIG: places.kubeconfig,
    PATH: [home, join(root, 'node_modules/.bin'), ...programs, process.env['PATH']].join(':'),
  };

  const fromHere = registry.registry;
  const spelling: Walk['spelling'] = [
    [`helm registry login ${documented}`, `helm registry login ${fromHere} --plain-http`],
    [
      `npm run release -- ${documented}`,
      `npm run --silent --prefix ${root} release -- ${fromHere} --insecure --dirty --pull-from ${registryHost}`,
    ],
    [`oci://${documented}/charts/svc3`, `oci://${fromHere}/charts/svc3 --plain-http -f here.yaml`],
    [`regcred add https://${documented}`, `regcred add http://${registryHost} --allow-insecure`],
    [`https://${documented}`, `http://${registryHost}`],
    [documented, registryHost],
    ['robot', registry.credentials.username],
  ];
  const look = () =>
    kubectl('get', 'pods,events,vms.svc3.dev', '-A', '--sort-by=.metadata.creationTimestamp').catch(String);
  here = { spelling, cwd: home, env, look };
  blocks = await blocksOf('docs/install.md');
});

afterAll(async () => {
  await down(places, { purge: true });
  if (home !== undefined) await rm(home, { recursive: true, force: true });
});

async function run({ language, text }: Block): Promise<void> {
  const { spelling } = here;
  if (language === 'yaml') await writeFile(join(home, 'values.yaml'), spelled(text, spelling));
  else await walk(text, here);
}

const under = (heading: string) => blocks.filter((block) => block.heading === heading);

test('every command of the page is in one of the sections that are walked', () => {
  const walked = ['Images and chart', 'Installing', 'Namespaces for VMs', 'People', 'Taking it away'];
  expect([...new Set(blocks.map(({ heading }) => heading))]).toEqual(walked);
});

test('a release is published, installed, and a VM of the helm test boots', async () => {
  for (const block of [...under('Images and chart'), ...under('Installing')]) await run(block);
  const images = await kubectl(
    'get',
    'pods',
    '-A',
    '-l',
    'app.kubernetes.io/name=svc3',
    '-o',
    String.raw`jsonpath={range .items[*]}{.spec.containers[0].image}{"\n"}{end}`,
  );
  expect(
    new Set(
      images
        .trim()
        .split('\n')
        .map((image) => image.replace(/@sha256:.*$/, '@')),
    ),
  ).toEqual(new Set([`${registryHost}/svc3:3.0.0@`, `${registryHost}/svc3-runner:3.0.0@`]));
});

test('a namespace for VMs holds the pods of others to restricted', async () => {
  await kubectl('create', 'namespace', 'team-a');
  for (const block of under('Namespaces for VMs')) await run(block);
  // kube-controller-manager makes it a moment later, and no pod is admitted without it.
  await vi.waitFor(() => kubectl('get', 'serviceaccount', '-n', 'team-a', 'default'), { timeout: 60_000 });
  const pod = (securityContext: object) => ({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'theirs', namespace: 'team-a' },
    spec: { containers: [{ name: 'main', image: 'any', securityContext }] },
  });
  await expect(kubectl.apply(pod({ privileged: true }))).rejects.toThrow(/privileged/);
});

test('people get rights by the names that kube-apiserver gives them', async () => {
  await kubectl('create', 'namespace', 'team');
  for (const block of under('People').filter(({ language }) => language === 'sh')) await run(block);
  const asAlice = ['--as=oidc:alice@example.com', '-n', 'team'] as const;
  expect((await kubectl('auth', 'can-i', 'create', 'vms.svc3.dev', ...asAlice)).trim()).toBe('yes');
  const asBuilder = ['--as=oidc:bob', '--as-group=oidc:builders', '-n', 'team'] as const;
  expect((await kubectl('auth', 'can-i', 'delete', 'vms.svc3.dev', ...asBuilder)).trim()).toBe('yes');
});

test('it is taken away, what it left by hand, and what Helm kept', async () => {
  const [uninstall, byHand, forGood] = under('Taking it away');
  const object = (kind: string, name: string, spec: object, more: object = {}) =>
    kubectl.apply({
      apiVersion: 'svc3.dev/v1',
      kind,
      metadata: { name, namespace: 'svc3-default', ...more },
      spec,
    });
  const until = (name: string, condition: string) =>
    kubectl('wait', '-n', 'svc3-default', name, `--for=condition=${condition}`, '--timeout=120s');
  const size = { cpu: 1, memory: '256Mi' };
  // An Image waits in its deletion until no pool is made from it.
  await object('Image', 'empty', { source: { blank: { size: '64Mi' } } });
  await until('images.svc3.dev/empty', 'Ready');
  await object('VMPool', 'last', { minIdle: 1, maxSize: 1, template: { image: 'empty', ...size } });
  // And until there is no claim with the disk of a deleted VM that was made on it.
  const where = [
    'images.svc3.dev/empty',
    '-n',
    'svc3-default',
    '-o',
    'jsonpath={.status.reference}',
  ] as const;
  await kubectl.apply({
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: {
      name: 'svc3-vm-left',
      namespace: 'svc3-default',
      labels: { 'svc3.dev/disk': 'true' },
      annotations: { 'svc3.dev/disk-image': (await kubectl('get', ...where)).trim() },
    },
    spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
  });
  const pod = ['get', 'pods', '-n', 'svc3-default', '-l', 'svc3.dev/pool=last', '-o', 'name'] as const;
  await expect.poll(() => kubectl(...pod), { timeout: 120_000 }).not.toBe('');
  // With two processors it waits for room, and goes like any other.
  await object('VM', 'last', { image: `${registryHost}/images/debian:12`, ...size });
  const credentials = ['get', 'registrycredentials.svc3.dev', '-A', '-o', 'name'] as const;
  expect((await kubectl(...credentials)).trim()).not.toBe('');
  await run(uninstall as Block);
  const objects = 'vms.svc3.dev,vmpools.svc3.dev,images.svc3.dev,isos.svc3.dev,registrycredentials.svc3.dev';
  expect(await kubectl('get', objects, '-A', '-o', 'name')).toBe('');
  await expect.poll(() => kubectl(...pod), { timeout: 120_000 }).toBe('');
  await object('Image', 'left', { source: { blank: { size: '64Mi' } } }, { finalizers: [finalizer] });
  await kubectl('delete', 'images.svc3.dev/left', '-n', 'svc3-default', '--wait=false');
  expect((await kubectl('get', objects, '-A', '-o', 'name')).trim()).toBe('image.svc3.dev/left');
  await run(byHand as Block);
  await expect.poll(() => kubectl('get', objects, '-A', '-o', 'name'), { timeout: 60_000 }).toBe('');
  await run(forGood as Block);
  const kept = 'crd,namespaces,validatingadmissionpolicies,validatingadmissionpolicybindings';
  expect(await kubectl('get', kept, '-l', 'app.kubernetes.io/part-of=svc3', '-o', 'name')).toBe('');
});
