/** svc3 in a running local cluster: what `up` does once nodes are ready. The chart is the one that users install. */
import { existsSync, readFileSync } from 'node:fs';
import { readFile, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { namespaces } from '../../api/meta.ts';
import { pushArtifact } from '../../registry/artifact.ts';
import { controlPlaneAddress, registryHost, registryPort } from '../shared/addresses.ts';
import { type GuestImage, buildGuest } from '../images/guest.ts';
import { type BuiltImage, type ImageBuild, buildImage, bundle, pushBuilt } from '../images/images.ts';
import { hostLinkRange } from './hostlink.ts';
import { upgradeRelease } from './helmrelease.ts';
import type { Kubectl } from '../shared/kubectl.ts';
import { createImage } from '../images/oci.ts';
import { type StoreEndpoint, hasTags, withStore } from '../images/store.ts';
import { preload } from '../node/preload.ts';
import type { Step } from '../host/progress.ts';
import { pruneFolders } from '../host/prune.ts';
import { type Workload, untilRolledOut } from '../shared/rollout.ts';
import { type Places, type Settings, readReport, registryUser, writeSecret } from '../shared/state.ts';
import type { Tools } from '../host/tools.ts';

/** The chart that users install. */
export const chartFolder = fileURLToPath(new URL('../../../charts/svc3', import.meta.url));

/** What goes into a cluster, built on the host. */
export interface Software {
  readonly svc3: BuiltImage;
  readonly runner: BuiltImage;
  readonly guest: GuestImage;
}

/** Builds images and guest, or finds them in the cache. Needs root. */
export async function buildSoftware(build: ImageBuild, step: Step): Promise<Software> {
  step.at('bundling');
  const bundles = await bundle(build);
  try {
    step.at('the image svc3');
    const svc3 = await buildImage('svc3', bundles, build);
    step.at('the image svc3-runner');
    const runner = await buildImage('runner', bundles, build);
    step.at('the guest');
    const guest = await buildGuest(build.cache, build.signal);
    await pruneFolders(build.cache, basename(dirname(guest.disk)));
    return { svc3, runner, guest };
  } finally {
    await rm(bundles, { recursive: true, force: true });
  }
}

export interface Installation {
  readonly places: Places;
  readonly settings: Settings;
  readonly tools: Tools;
  readonly kubectl: Kubectl;
  readonly build: ImageBuild;
}

/** The registry as the host reaches it. */
export function registryOf(settings: Settings): StoreEndpoint {
  const credentials = { username: registryUser, password: settings.registryPassword };
  return { registry: `127.0.0.1:${settings.ports.registry}`, scheme: 'http', credentials };
}

/** Reference of the demo guest. */
export function guestReference(guest: GuestImage): string {
  return `${registryHost}/svc3/guest:${guest.hash}`;
}

/** Puts images and guest into the registry and the images onto the nodes. */
export async function deliver(installation: Installation, software: Software): Promise<void> {
  const { places, settings, tools, build } = installation;
  const registry = registryOf(settings);
  const authFile = join(places.state, 'run', 'registry-auth.json');
  for (const image of [software.svc3, software.runner]) await pushBuilt(image, registry, authFile, build);
  const guestTags = [software.guest.hash, 'latest'];
  if (!(await withStore(registry, (client) => hasTags(client, 'svc3/guest', guestTags))))
    await pushGuest(registry, 'svc3/guest', guestTags, software.guest);
  const report = await readReport(places);
  if (report === undefined) throw new Error('the cluster ended');
  const references = [software.svc3, software.runner].map(({ repository, tag }) => `${repository}:${tag}`);
  await preload(places, settings, report, tools, references);
}

/** Puts a guest's disk into a registry, as VMs boot from it. */
export async function pushGuest(
  registry: StoreEndpoint,
  repository: string,
  tags: readonly string[],
  guest: GuestImage,
): Promise<void> {
  const content = await readFile(guest.disk);
  const files = [{ name: 'disk/disk.qcow2', content, mode: 0o440, uid: 107, gid: 107 }];
  const image = await createImage({ files, architecture: 'amd64' });
  await withStore(registry, async (client) => {
    for (const tag of tags) await pushArtifact(client, repository, image, tag);
  });
}

/** Installs or upgrades the chart and waits until everything of it runs. */
export async function installChart(installation: Installation, software: Software): Promise<void> {
  const { places, tools, kubectl, build } = installation;
  await kubectl.apply(systemNamespace, storageClass, pullSecret(installation.settings, namespaces.system));
  const values = join(places.state, 'run', 'values.json');
  await writeSecret(values, JSON.stringify(chartValues(installation, software)));
  build.progress('installing the chart');
  await upgradeRelease(
    { tools, kubeconfig: places.kubeconfig, kubectl, signal: build.signal },
    { name: 'svc3', namespace: namespaces.system, chart: chartFolder, values },
  );
  // The chart makes the other namespaces; a kubelet that came too early asks again.
  await kubectl.apply(
    pullSecret(installation.settings, namespaces.node),
    ...storeCredential(installation.settings, namespaces.default),
  );
  build.progress('waiting for operator, api and node agent');
  const workloads: Workload[] = [
    { kind: 'deployment', namespace: namespaces.system, name: 'svc3-operator' },
    { kind: 'deployment', namespace: namespaces.system, name: 'svc3-api' },
    { kind: 'daemonset', namespace: namespaces.node, name: 'svc3-node-agent' },
  ];
  await untilRolledOut(kubectl, workloads, build.signal);
}

function chartValues(installation: Installation, software: Software): object {
  const { settings } = installation;
  return {
    image: { ...software.svc3, pullSecrets: [{ name: pullSecretName }] },
    runner: { image: software.runner },
    gpuPassthrough: { enabled: installation.settings.gpuPassthrough },
    store: { url: `http://${registryHost}` },
    remoteRegistries: [`http://${registryHost}`],
    insecureRegistries: { enabled: true, allowed: ['*'] },
    cpuOvercommit: 8,
    accelerator: hasHardwareVirtualization() ? 'auto' : 'tcg',
    api: {
      baseUrl: `https://127.0.0.1:${settings.ports.api}`,
      clusterEndpoint: `https://127.0.0.1:${settings.ports.kubernetes}`,
    },
    aggregatedApi: { enabled: true },
    // The host and the nodes, whose addresses `svc3 vm list` shows.
    networkPolicies: { guestsFrom: [{ ipBlock: { cidr: hostLinkRange } }] },
    test: { image: guestReference(software.guest) },
  };
}

function hasHardwareVirtualization(): boolean {
  return existsSync('/dev/kvm') && cpuFlags().some((flag) => flag === 'vmx' || flag === 'svm');
}

function cpuFlags(): string[] {
  return /^flags\s*:(.*)$/m.exec(readFileSync('/proc/cpuinfo', 'utf8'))?.[1]?.split(' ') ?? [];
}

const systemNamespace = {
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name: namespaces.system, labels: { 'pod-security.kubernetes.io/enforce': 'restricted' } },
};

/** Volumes come from kube-controller-manager's hostpath provisioner: one folder that all nodes share. */
const storageClass = {
  apiVersion: 'storage.k8s.io/v1',
  kind: 'StorageClass',
  metadata: { name: 'standard', annotations: { 'storageclass.kubernetes.io/is-default-class': 'true' } },
  provisioner: 'kubernetes.io/host-path',
  reclaimPolicy: 'Delete',
};

const pullSecretName = 'local-registry';

/** With which svc3's own pods pull on a node that images are not brought to: the GPU node, a machine of its own. */
function pullSecret(settings: Settings, namespace: string): object {
  const auth = Buffer.from(`${registryUser}:${settings.registryPassword}`).toString('base64');
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: pullSecretName, namespace },
    type: 'kubernetes.io/dockerconfigjson',
    stringData: { '.dockerconfigjson': JSON.stringify({ auths: { [registryHost]: { auth } } }) },
  };
}

/** What lets a namespace pull from the cluster's registry: a Secret that tenants cannot read and its RegistryCredential. */
export function storeCredential(settings: Settings, namespace: string): object[] {
  const name = `${controlPlaneAddress}.${registryPort}`;
  const secret = `${namespace}.${name}`;
  return [
    {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: secret, namespace: namespaces.credentials, labels: { 'svc3.dev/managed': 'true' } },
      type: 'kubernetes.io/basic-auth',
      stringData: { username: registryUser, password: settings.registryPassword },
    },
    {
      apiVersion: 'svc3.dev/v1',
      kind: 'RegistryCredential',
      metadata: { name, namespace },
      spec: { server: `http://${registryHost}`, allowInsecure: true, secretRef: { name: secret } },
    },
  ];
}

/** Where Services of type ClusterIP are reached: written for the forward of the api's loopback port. */
export async function publishApi({
  places,
  kubectl,
}: Pick<Installation, 'places' | 'kubectl'>): Promise<void> {
  const ip = await kubectl(
    'get',
    'service',
    '-n',
    namespaces.system,
    'svc3-api',
    '-o',
    'jsonpath={.spec.clusterIP}',
  );
  await writeSecret(join(places.state, 'run', 'api.address'), `${ip}:443`);
}
