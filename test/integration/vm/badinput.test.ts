import { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { RegistryCredential } from '../../../src/api/registrycredential.ts';
import { images, pods, registryCredentials, secrets, vmConfigs } from '../../../src/api/resources.ts';
import type { RunnerState } from '../../../src/api/runner.ts';
import type { VmSpecInput, VmStatus } from '../../../src/api/vm.ts';
import type { KubeObject, Resource } from '../../../src/api/object.ts';
import { createRegistryClient, mediaTypes, type RegistryClient } from '../../../src/registry/client.ts';
import { pushDisk } from '../../../src/registry/disk.ts';
import { createImageResolver } from '../../../src/controllers/vm/resolve/imageresolver.ts';
import type { Informer } from '../../../src/kube/types.ts';
import type { ImageResolver } from '../../../src/controllers/vm/resolve/imageresolutions.ts';
import { startVmOperator, type TestOperator } from '../../support/operator.ts';
import { startRegistry, type TestRegistry } from '../../support/registry.ts';
import { slow, type VmNamespace, type VmWorld, vmWorld } from './harness.ts';

let world: VmWorld;
let space: VmNamespace;
let registry: TestRegistry;
/** Digest of the image for ARM under a tag that has one for each architecture. */
let armOfBoth: string;
let operator: TestOperator;
/** As the operator knows them. */
let credentials: Informer<RegistryCredential>;
/** What the runner of every VM pod answers. It cannot show that a real one finds the same in an image; test/integration/runner/disk.test.ts does. */
let runnerState: Partial<RunnerState> = { powerState: 'Running' };

function anObject<T extends KubeObject>(resource: Resource<T>, name: string, content: object): Promise<T> {
  return world.client.create(resource, {
    metadata: { name, namespace: space.name },
    ...content,
  } as unknown as T);
}

async function push(client: RegistryClient, repository: string, architecture: string): Promise<string> {
  const content = Buffer.from('not a disk, and nobody looks');
  const { digest } = await pushDisk(client, {
    repository,
    tag: '1',
    architecture,
    fileName: 'disk.raw',
    size: content.length,
    content: Readable.from([content]),
  });
  return digest;
}

/** One tag for both architectures. Resolves with the digest of the image for ARM. */
async function pushForBoth(client: RegistryClient, repository: string): Promise<string> {
  const digests = {
    amd64: await push(client, repository, 'amd64'),
    arm64: await push(client, repository, 'arm64'),
  };
  const manifests = await Promise.all(
    Object.entries(digests).map(async ([architecture, digest]) => ({
      mediaType: mediaTypes.ociManifest,
      digest,
      size: (await client.manifest(repository, digest)).bytes.length,
      platform: { architecture, os: 'linux' },
    })),
  );
  const index = JSON.stringify({ schemaVersion: 2, mediaType: mediaTypes.ociIndex, manifests });
  await client.putManifest(repository, 'all', Buffer.from(index), mediaTypes.ociIndex);
  return digests.arm64;
}

beforeAll(async () => {
  [world, registry] = await Promise.all([vmWorld(), startRegistry({ auth: 'basic' })]);
  space = await world.namespace('bad');
  await world.namespace('svc3-credentials');
  await world.kubelet.addNode({ name: 'n1' });
  const { username, password, address } = registry;
  const client = createRegistryClient({
    registry: address,
    scheme: 'http',
    credentials: { username, password },
  });
  await push(client, 'vms/amd', 'amd64');
  await push(client, 'vms/arm', 'arm64');
  armOfBoth = await pushForBoth(client, 'vms/both');
  await client.close();
  await world.client.create(secrets, {
    metadata: { name: 'login', namespace: 'svc3-credentials' },
    type: 'kubernetes.io/basic-auth',
    stringData: { username, password },
  });
  operator = await startVmOperator(world.client, {}, (informers) => ({
    resolver: onlyHere(
      createImageResolver({
        credentials: (credentials = informers.get(registryCredentials)),
        basicAuth: informers.get(secrets, { namespace: 'svc3-credentials' }),
        storeUrl: '',
      }),
    ),
    openRunner: () => ({
      state: () =>
        Promise.resolve({
          version: 1,
          vmUid: '',
          powerState: 'Running',
          guestReachable: false,
          retrying: false,
          restarts: 0,
          vncConsole: false,
          iso: false,
          revision: 0,
          ...runnerState,
        }),
      power: () => Promise.reject(new Error('not asked for')),
      resize: () => Promise.reject(new Error('not asked for')),
      eject: () => Promise.reject(new Error('not asked for')),
      claim: () => Promise.reject(new Error('not asked for')),
      ports: () => Promise.reject(new Error('not asked for')),
      fingerprint: () => undefined,
    }),
  }));
});

afterAll(async () => {
  await operator?.stop();
  await world?.stop();
  await registry?.stop();
});

/** Images of other registries than the test's own are there, without asking the network. */
function onlyHere(resolver: ImageResolver): ImageResolver {
  const elsewhere = { digest: `sha256:${'1'.repeat(64)}`, architecture: 'amd64' as const };
  return {
    ...resolver,
    resolve: (namespace, reference, signal, sought) =>
      reference.startsWith(registry.address)
        ? resolver.resolve(namespace, reference, signal, sought)
        : Promise.resolve(elsewhere),
  };
}

async function addCredential(namespace: string, secret = 'login'): Promise<void> {
  const server = `http://${registry.address}`;
  const name = registry.address.replace(':', '.');
  await world.client.create(registryCredentials, {
    metadata: { name, namespace },
    spec: { server, allowInsecure: true, secretRef: { name: secret } },
  });
  // The operator may hear of a VM first that is made after it.
  await expect.poll(() => credentials.get(name, namespace), slow).toBeDefined();
}

async function saysWhy(name: string, type: string, reason: string, message: string): Promise<void> {
  await space.until(name, type, { status: type === 'Stalled' ? 'True' : 'False', reason });
  expect((await space.condition(name, type)).message).toBe(message);
  await expect.poll(() => space.events(name), slow).toContain(reason);
  expect(await space.condition(name, 'Ready')).toMatchObject({ status: 'False', message });
}

describe('a VM that cannot run', () => {
  test.each<{
    sentence: string;
    name: string;
    spec: VmSpecInput;
    reason: string;
    message: string;
    type?: string;
  }>([
    {
      sentence: 'names an Image that does not exist',
      name: 'no-image',
      spec: { image: 'debian' },
      reason: 'ImageNotFound',
      message: 'Image debian does not exist in namespace bad',
    },
    {
      sentence: 'names an ISO that does not exist',
      name: 'no-iso',
      spec: { iso: 'installer' },
      reason: 'ImageNotFound',
      message: 'ISO installer does not exist in namespace bad',
    },
    {
      sentence: 'names a VMConfig that does not exist',
      name: 'no-config',
      spec: { config: 'web' },
      reason: 'ConfigNotFound',
      message: 'VMConfig web does not exist in namespace bad',
    },
    {
      sentence: 'asks for a tag that no node has',
      name: 'no-tag',
      spec: { tag: 'gold', tagRequired: true },
      reason: 'Unschedulable',
      message: "0/1 nodes are available: 1 node(s) didn't have tag gold.",
    },
    {
      sentence: 'asks for a node that does not exist',
      name: 'no-node',
      spec: { nodeName: 'n9' },
      reason: 'Unschedulable',
      message: "0/1 nodes are available: 1 node(s) didn't match the requested node name.",
    },
    {
      sentence: 'asks for more than any node has',
      name: 'too-big',
      spec: { cpu: 9, memory: '64Gi' },
      reason: 'Unschedulable',
      message: '0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory.',
    },
    {
      sentence: 'asks for GPU passthrough while the cluster has it off',
      name: 'no-gpu',
      spec: { gpuPassthrough: 'Enabled' },
      type: 'Stalled',
      reason: 'GPUPassthroughDisabled',
      message:
        'gpuPassthrough: GPU passthrough is not enabled in this cluster (chart value gpuPassthrough.enabled)',
    },
  ])('$sentence', async ({ name, spec, reason, message, type = 'Scheduled' }) => {
    await space.deploy(name, spec.config === undefined ? spec : { ...spec });
    await saysWhy(name, type, reason, message);
    expect(await space.pod(name)).toBeUndefined();
    await space.remove(name);
  });

  test('has no right to pull, until there is a credential', async () => {
    const image = `${registry.address}/vms/amd:1`;
    await space.deploy('denied', { image });
    await space.until('denied', 'Scheduled', { status: 'True' });
    // Without a credential the registry is taken for one with TLS, which this one has not: the kubelet decides.
    expect((await space.vm('denied')).status?.warnings?.[0]).toMatch(
      `image ${image} could not be pinned to a digest`,
    );
    await space.remove('denied');
    await addCredential(space.name);
    await space.deploy('allowed', { image });
    await space.untilReady('allowed');
    const { status } = await space.vm('allowed');
    expect(status?.effective?.image).toMatch(/\/vms\/amd@sha256:[0-9a-f]{64}$/);
    expect(status?.warnings).toBeUndefined();
    await space.remove('allowed');
  });

  test('has a credential that the registry refuses, until it is corrected', async () => {
    const { client } = world;
    const key = { name: 'wrong', namespace: 'svc3-credentials' };
    const type = 'kubernetes.io/basic-auth';
    await client.create(secrets, { metadata: key, type, stringData: { username: 'alice', password: 'x' } });
    const denied = await world.namespace('denied');
    await addCredential('denied', 'wrong');
    const image = `${registry.address}/vms/amd:1`;
    await denied.deploy('refused', { image });
    await denied.until('refused', 'Scheduled', { status: 'False', reason: 'ImagePullDenied' });
    const { message } = await denied.condition('refused', 'Scheduled');
    expect(message).toMatch(`image ${image} may not be pulled: `);
    expect(message).not.toContain('alice');
    const { password } = registry;
    await client.patch(secrets, key, { type: 'merge', body: { stringData: { password } } });
    await denied.untilReady('refused');
    await denied.remove('refused');
  });

  test('names an image that the registry does not have', async () => {
    const image = `${registry.address}/vms/nothing:1`;
    await space.deploy('unknown', { image });
    await space.until('unknown', 'Scheduled', { status: 'False', reason: 'ImageNotFound' });
    expect((await space.condition('unknown', 'Scheduled')).message).toMatch(`image ${image} was not found: `);
    await space.remove('unknown');
  });

  test('names an image that no registry can have', async () => {
    const image = `${registry.address}/UPPER:1`;
    await space.deploy('malformed', { image });
    await saysWhy(
      'malformed',
      'Stalled',
      'InvalidSpec',
      `image: "${image}" is not an image reference: the repository has to be lower case, parts divided by "/"`,
    );
    await space.remove('malformed');
  });

  test('has an image of another architecture', async () => {
    await space.deploy('foreign', { image: `${registry.address}/vms/arm:1`, architecture: 'amd64' });
    await space.until('foreign', 'Prepared', { status: 'False', reason: 'ArchitectureMismatch' });
    expect((await space.condition('foreign', 'Prepared')).message).toMatch(
      /^image .*\/vms\/arm@sha256:[0-9a-f]{64} is for arm64, the VM is for amd64$/,
    );
    await space.remove('foreign');
  });

  test('is for ARM, from a tag with an image for each architecture, which is pinned to that for ARM', async () => {
    const repository = `${registry.address}/vms/both`;
    const image = `${repository}:all`;
    await space.deploy('both', { image, architecture: 'arm64' });
    await saysWhy(
      'both',
      'Scheduled',
      'Unschedulable',
      "0/1 nodes are available: 1 node(s) didn't match architecture arm64.",
    );
    await space.remove('both');
    await world.kubelet.addNode({ name: 'arm', architecture: 'arm64' });
    await space.deploy('placed', { image, architecture: 'arm64' });
    await space.untilReady('placed');
    expect((await space.vm('placed')).status?.effective?.image).toBe(`${repository}@${armOfBoth}`);
    await space.remove('placed');
    await world.kubelet.removeNode('arm');
  });

  test('is of an architecture that no node has', async () => {
    await space.deploy('arm', { image: `${registry.address}/vms/arm:1` });
    await saysWhy(
      'arm',
      'Scheduled',
      'Unschedulable',
      "0/1 nodes are available: 1 node(s) didn't match architecture arm64.",
    );
    await space.remove('arm');
  });

  test('has an image without a disk file', async () => {
    runnerState = { powerState: 'Failed', reason: 'DiskMissing', message: 'the image has no file in /disk' };
    world.kubelet.behave(() => ({ kind: 'unready' }));
    await space.deploy('empty');
    await space.until('empty', 'Prepared', {
      status: 'False',
      reason: 'DiskFileMissing',
      message: 'the image has no file in /disk',
    });
    await expect.poll(() => space.events('empty'), slow).toContain('DiskFileMissing');
    await space.remove('empty');
    runnerState = { powerState: 'Running' };
    world.kubelet.behave(() => ({ kind: 'run' }));
  });

  test('has an image that the node cannot pull', async () => {
    const message = 'failed to pull and unpack image: 403 Forbidden';
    world.kubelet.behave(() => ({ kind: 'waiting', reason: 'ImagePullBackOff', message }));
    await space.deploy('unpullable');
    await saysWhy('unpullable', 'Prepared', 'ImagePullFailed', message);
    world.kubelet.behave(() => ({ kind: 'run' }));
    await space.untilReady('unpullable');
    await space.remove('unpullable');
  });

  test('starts by itself once its Image is ready', async () => {
    await anObject(images, 'soon', { spec: { source: { upload: {} } } });
    await space.deploy('eager', { image: 'soon' });
    await saysWhy('eager', 'Scheduled', 'ImageNotReady', 'Image soon is not ready');
    const now = new Date().toISOString().replace(/\.\d+/, '');
    const ready = { type: 'Ready', status: 'True', reason: 'Stored', message: '', lastTransitionTime: now };
    const reference = `r.example.com/svc3/bad/soon@sha256:${'0'.repeat(64)}`;
    const body = { status: { reference, architecture: 'amd64', conditions: [ready] } };
    const key = { name: 'soon', namespace: space.name };
    await world.client.patch(images, key, { type: 'merge', body }, { subresource: 'status' });
    await space.untilReady('eager');
    expect((await space.vm('eager')).status?.effective?.image).toBe(reference);
    await space.remove('eager');
  });

  test('starts by itself once its VMConfig exists', async () => {
    await space.deploy('hopeful', { config: 'later' });
    await space.until('hopeful', 'Scheduled', { reason: 'ConfigNotFound' });
    await anObject(vmConfigs, 'later', { spec: {} });
    await saysWhy(
      'hopeful',
      'Stalled',
      'InvalidSpec',
      'image: neither the VM nor VMConfig later names an image',
    );
    const key = { name: 'later', namespace: space.name };
    await world.client.patch(vmConfigs, key, {
      type: 'merge',
      body: { spec: { image: 'r.example.com/a:1' } },
    });
    await space.untilReady('hopeful');
    await space.remove('hopeful');
  });
});

describe('reserved ports', () => {
  test('a port that is not allowed is left out with a warning', async () => {
    await space.deploy('forbidden', { ports: [{ nodePort: 10022, guestPort: 22 }] });
    await space.untilReady('forbidden');
    const { status } = await space.vm('forbidden');
    expect(status?.warnings).toContain(
      'ports: nodePort 10022 is not in the allowed range 20000-29999; the mapping is left out',
    );
    expect(status?.ports?.mapped).toBeUndefined();
    await space.remove('forbidden');
  });

  test('a port that is taken on every node is left out until the next start, and the VM runs', async () => {
    const ports = [
      { nodePort: 20001, guestPort: 80 },
      { nodePort: 20002, guestPort: 81 },
    ];
    const left =
      "ports: nodePort 20001/TCP is taken on every node that fits; the mapping is left out until the VM's next start";
    await space.deploy('first', { ports: ports.slice(0, 1) });
    await space.untilReady('first');
    await space.deploy('second', { ports });
    await space.untilReady('second');
    const { status } = await space.vm('second');
    expect(status?.warnings).toEqual([left]);
    expect(status?.ports?.mapped).toEqual([
      { nodePort: 20002, guestPort: 81, protocol: 'TCP' },
      { guestPort: 80, protocol: 'TCP' },
    ]);
    expect(await space.condition('second', 'PortsMapped')).toMatchObject({
      status: 'False',
      reason: 'PortTaken',
      message: left,
    });
    const old = await space.pod('second');
    expect(old?.spec.containers[0]?.ports?.map(({ hostPort }) => hostPort)).not.toContain(20001);
    await space.remove('first');
    await world.client.delete(pods, { name: 'svc3-vm-second', namespace: space.name });
    await space.untilReplaced('second', old);
    // Until the operator has heard of the other pod, the status is that of the one before.
    let next: VmStatus | undefined;
    await expect
      .poll(async () => (next = (await space.vm('second')).status)?.ports, slow)
      .toMatchObject({
        ssh: 8822,
        mapped: [
          { nodePort: 20001, guestPort: 80, protocol: 'TCP' },
          { nodePort: 20002, guestPort: 81, protocol: 'TCP' },
        ],
      });
    expect(next?.warnings).toBeUndefined();
    expect(next?.conditions?.map(({ type }) => type)).not.toContain('PortsMapped');
    await space.remove('second');
  });
});
