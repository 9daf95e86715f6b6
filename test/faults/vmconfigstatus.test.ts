/** A VMConfig that names a missing Image or ISO says so by itself, before anybody deploys from it. */
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { events, images, isos, vmConfigs, vms } from '../../src/api/resources.ts';
import type { Vm } from '../../src/api/vm.ts';
import type { VmConfig, VmConfigSpec, VmConfigStatus } from '../../src/api/vmconfig.ts';
import { createInformers } from '../../src/controller/informers.ts';
import { createVmConfigController } from '../../src/controllers/vmconfig/controller.ts';
import { isSvc3Error } from '../../src/errors.ts';
import { createRecorder } from '../../src/kube/recorder.ts';
import { createLogger, createMetrics } from '../../src/telemetry.ts';
import { inProcess } from '../integration/cli/inprocess.ts';
import {
  anImage,
  anIso,
  becomesReady,
  imageCluster,
  soon,
  startImageOperator,
  type ImageCluster,
} from '../integration/image/harness.ts';
import { startTestApi } from '../support/api.ts';
import { withFaults, type Write } from '../support/faultclient.ts';
import { startVmOperator } from '../support/operator.ts';

const { svc3 } = inProcess();
const reference = 'registry.example.com/team/debian:12';

let cluster: ImageCluster;

beforeAll(async () => {
  cluster = await imageCluster();
});

afterAll(async () => {
  await cluster?.remove();
});

interface Operator {
  readonly writes: readonly Write[];
  /** Passes since the start. */
  passes(): number;
  /** Objects that were fetched or listed since the caches were complete. */
  reads(): number;
  /** Writes that kube-apiserver has refused, since the object was newer than the cache: on a loaded machine a watch may be behind by seconds. */
  refused(): number;
}

/** The controller of VMConfigs as the operator runs it, without election. */
async function startOperator(): Promise<Operator> {
  const stopping = new AbortController();
  const { client, writes } = withFaults(cluster.client, () => 'none');
  let reads = 0;
  let refused = 0;
  const counting = {
    ...client,
    apply: (...args: Parameters<typeof client.apply>) =>
      client.apply(...args).catch((error: unknown) => {
        if (isSvc3Error(error, 'Conflict')) refused += 1;
        throw error;
      }),
    get: (...args: Parameters<typeof client.get>) => ((reads += 1), client.get(...args)),
    list: (...args: Parameters<typeof client.list>) => ((reads += 1), client.list(...args)),
  } as typeof client;
  const log = createLogger({ name: 'test', level: 'error' });
  const informers = createInformers(counting, log);
  const metrics = createMetrics();
  let passes = 0;
  const controller = createVmConfigController({
    client: counting,
    informers,
    recorder: createRecorder(cluster.client, { component: 'operator', log }),
    log,
    metrics: { controllers: { ...metrics.controllers, reconciled: () => void (passes += 1) } },
    gate: { isHeld: () => true, assertHeld: () => undefined },
  });
  const watching = informers.run(stopping.signal);
  await informers.synced();
  reads = 0;
  const working = controller.run(stopping.signal);
  onTestFinished(async () => {
    stopping.abort();
    await Promise.all([watching, working]);
  });
  return { writes, passes: () => passes, reads: () => reads, refused: () => refused };
}

function startDisks(): void {
  const operator = startImageOperator(cluster.client, cluster.settings);
  onTestFinished(() => operator.stop());
}

const aConfig = (namespace: string, name: string, spec: VmConfigSpec): Promise<VmConfig> =>
  cluster.client.create(vmConfigs, { metadata: { name, namespace }, spec });

/** Its conditions, each in a line. */
function linesOf({ conditions = [] }: VmConfigStatus = {}): string[] {
  return conditions.map(({ type, status, reason, message }) => `${type}=${status} ${reason}: ${message}`);
}

const said = async (namespace: string, name = 'web') =>
  linesOf((await cluster.client.get(vmConfigs, name, namespace)).status);

test('a VMConfig that names a missing Image says so, is Ready when the Image is, and no more when it is deleted', async () => {
  const { client } = cluster;
  const namespace = await cluster.namespace();
  startDisks();
  await startOperator();
  const missing = `Image base does not exist in namespace ${namespace}`;
  await aConfig(namespace, 'web', { image: 'base' });
  await expect
    .poll(() => said(namespace), soon)
    .toEqual([`Ready=False ImageNotFound: ${missing}`, `Reconciling=True Progressing: ${missing}`]);

  await client.create(images, anImage(namespace, 'base', { blank: { size: '32Mi' } }));
  await becomesReady(client, namespace, 'base');
  await expect.poll(() => said(namespace), soon).toEqual(['Ready=True Resolved: Image base is ready']);
  const { metadata, status } = await client.get(vmConfigs, 'web', namespace);
  expect(status?.observedGeneration).toBe(metadata.generation);

  await client.delete(images, { name: 'base', namespace });
  await expect.poll(() => said(namespace), soon).toContain(`Ready=False ImageNotFound: ${missing}`);
});

test('a VMConfig says which ISO is missing or waits for somebody, and that a registry was not asked', async () => {
  const { client } = cluster;
  const namespace = await cluster.namespace();
  startDisks();
  await startOperator();
  await aConfig(namespace, 'web', { image: reference, iso: 'tools' });
  await expect
    .poll(() => said(namespace), soon)
    .toContain(`Ready=False ISONotFound: ISO tools does not exist in namespace ${namespace}`);

  await client.create(isos, anIso(namespace, 'tools', { upload: {} }));
  const waits = `ISO tools in namespace ${namespace} is not ready: upload it: svc3 iso upload FILE tools`;
  await expect
    .poll(() => said(namespace), soon)
    .toEqual([`Ready=False ISONotReady: ${waits}`, `Stalled=True ISONotReady: ${waits}`]);

  const body = { spec: { iso: '' } };
  await client.patch(vmConfigs, { name: 'web', namespace }, { type: 'merge', body });
  await expect
    .poll(() => said(namespace), soon)
    .toEqual([`Ready=True RegistryNotAsked: image ${reference} is not looked for before a VM is deployed`]);
});

test('what has been missing for more than a minute waits for somebody, and an Event tells of it', async () => {
  const { client } = cluster;
  const namespace = await cluster.namespace();
  const { metadata } = await aConfig(namespace, 'web', { image: 'base' });
  const lastTransitionTime = new Date(Date.now() - 120_000).toISOString();
  const ready = { type: 'Ready', status: 'False', reason: 'ImageNotFound', message: '', lastTransitionTime };
  const { name, uid } = metadata;
  await client.apply(
    vmConfigs,
    { metadata: { name, namespace, uid }, status: { conditions: [ready] } } as never,
    { subresource: 'status' },
  );
  await startOperator();
  const missing = `Image base does not exist in namespace ${namespace}`;
  await expect
    .poll(() => said(namespace), soon)
    .toEqual([`Ready=False ImageNotFound: ${missing}`, `Stalled=True ImageNotFound: ${missing}`]);
  const told = async () =>
    (await client.list(events, { namespace })).items
      .filter(({ regarding }) => regarding?.name === 'web')
      .map(({ type, reason, note }) => `${type} ${reason}: ${note}`);
  await expect.poll(told, soon).toEqual([`Warning ImageNotFound: ${missing}`]);
});

/** An Image that says this, as its controller would. */
async function sayOfImage(namespace: string, name: string, status: object): Promise<void> {
  const { metadata } = await cluster.client.get(images, name, namespace);
  await cluster.client.apply(images, { metadata: { name, namespace, uid: metadata.uid }, status } as never, {
    subresource: 'status',
  });
}

const inStore = {
  reference: `registry.example.com/vms/base@sha256:${'0'.repeat(64)}`,
  conditions: [
    {
      type: 'Ready',
      status: 'True',
      reason: 'Stored',
      message: 'stored',
      lastTransitionTime: '2026-01-01T00:00:00Z',
    },
  ],
};

describe('where nothing changes for a VMConfig', () => {
  test('it is not written, whatever its own Image and others say', async () => {
    const { client } = cluster;
    const namespace = await cluster.namespace();
    for (const name of ['base', 'other', 'next'])
      await client.create(images, anImage(namespace, name, { upload: {} }));
    await sayOfImage(namespace, 'base', inStore);
    const operator = await startOperator();
    await aConfig(namespace, 'web', { image: 'base' });
    await expect.poll(() => said(namespace), soon).toEqual(['Ready=True Resolved: Image base is ready']);
    const { resourceVersion } = (await client.get(vmConfigs, 'web', namespace)).metadata;

    await sayOfImage(namespace, 'base', { ...inStore, size: '1Gi', commitRequest: 'one' });
    await sayOfImage(namespace, 'other', { progress: 10 });
    await sayOfImage(namespace, 'other', inStore);
    await client.delete(images, { name: 'other', namespace });
    // Changes come in order: when the last one has been seen, so have those before.
    await sayOfImage(namespace, 'next', inStore);
    await aConfig(namespace, 'last', { image: 'next' });
    await expect
      .poll(() => said(namespace, 'last'), soon)
      .toEqual(['Ready=True Resolved: Image next is ready']);
    expect((await client.get(vmConfigs, 'web', namespace)).metadata.resourceVersion).toBe(resourceVersion);
    const written = operator.writes.filter(({ name }) => name === 'web');
    const write = { verb: 'apply', plural: 'vmconfigs', subresource: 'status', name: 'web', namespace };
    expect(written).toEqual([write]);
  });

  test('an operator that starts anew has nothing to write', async () => {
    const namespace = await cluster.namespace();
    await cluster.client.create(images, anImage(namespace, 'base', { upload: {} }));
    await sayOfImage(namespace, 'base', inStore);
    await startOperator();
    await aConfig(namespace, 'web', { image: 'base' });
    await expect.poll(() => said(namespace), soon).toEqual(['Ready=True Resolved: Image base is ready']);
    const again = await startOperator();
    await expect.poll(() => again.passes(), soon).toBeGreaterThan(0);
    await aConfig(namespace, 'last', {});
    await expect
      .poll(() => said(namespace, 'last'), soon)
      .toEqual(['Ready=True Resolved: names no Image and no ISO']);
    expect(again.writes.filter(({ name }) => name === 'web')).toEqual([]);
  });
});

test('a thousand VMConfigs of one Image are one write each when it becomes Ready, and not looked at while it is being made', async () => {
  const { client } = cluster;
  const namespace = await cluster.namespace();
  const count = 1_000;
  await client.create(images, anImage(namespace, 'base', { upload: {} }));
  const names = Array.from({ length: count }, (_, index) => `web-${index}`);
  while (names.length > 0)
    await Promise.all(names.splice(0, 50).map((name) => aConfig(namespace, name, { image: 'base' })));
  const operator = await startOperator();
  const reasons = async () => {
    const { items } = await client.list(vmConfigs, { namespace });
    return [...new Set(items.map(({ status }) => status?.conditions?.[0]?.reason))];
  };
  const slow = { timeout: 240_000, interval: 500 };
  await expect.poll(reasons, slow).toEqual(['ImageNotReady']);
  /** Changes come in order: when one that comes after them has been seen, so have those before. */
  const untilSeen = async (name: string) => {
    await aConfig(namespace, name, {});
    await expect.poll(() => said(namespace, name), slow).toHaveLength(1);
  };
  const now = () => ({
    passes: operator.passes(),
    // Those of other tests become Stalled a minute after they were made.
    writes: operator.writes.filter((one) => one.namespace === namespace).length - operator.refused(),
  });
  await untilSeen('first');

  const made = now();
  for (const progress of [10, 20, 30]) await sayOfImage(namespace, 'base', { progress });
  await untilSeen('second');
  expect(now().writes - made.writes).toBe(1);
  // A pass of its own, and one more where the cache shows a write before its answer has come.
  expect(now().passes - made.passes).toBeLessThan(5);

  for (const name of ['first', 'second']) await client.delete(vmConfigs, { name, namespace });
  const ready = now();
  await sayOfImage(namespace, 'base', inStore);
  await expect.poll(reasons, slow).toEqual(['Resolved']);
  expect(now().writes - ready.writes).toBe(count);
  // What was refused is read, and looked at again when its turn comes.
  expect(now().passes - ready.passes).toBeLessThanOrEqual(2 * (count + operator.refused()));
  expect(operator.reads()).toBe(operator.refused());
}, 600_000);

test('a VM that waits is not looked at for what its VMConfig says, but for what it asks', async () => {
  const { client } = cluster;
  const namespace = await cluster.namespace();
  const { metadata } = await aConfig(namespace, 'web', { image: 'base' });
  const operator = await startVmOperator(client);
  onTestFinished(() => operator.stop());
  await client.create(vms, { metadata: { name: 'vm', namespace }, spec: { config: 'web' } as Vm['spec'] });
  const message = async () =>
    (await client.get(vms, 'vm', namespace)).status?.conditions?.find(({ type }) => type === 'Ready')
      ?.message;
  await expect.poll(message, soon).toContain('Image base does not exist');

  const passes = operator.passes();
  const key = { name: 'web', namespace };
  for (let observedGeneration = 2; observedGeneration < 22; observedGeneration += 1)
    await client.apply(
      vmConfigs,
      { metadata: { ...key, uid: metadata.uid }, status: { observedGeneration } } as never,
      { subresource: 'status' },
    );
  await client.patch(vmConfigs, key, { type: 'merge', body: { spec: { image: 'other' } } });
  await expect.poll(message, soon).toContain('Image other does not exist');
  expect(operator.passes() - passes).toBeLessThan(5);
});

test('/api/v1 and the CLI show what the VMConfig says', async () => {
  const { client, controlPlane } = cluster;
  const namespace = await cluster.namespace();
  await startOperator();
  const api = await startTestApi(client);
  onTestFinished(() => api.close());
  await aConfig(namespace, 'good', { image: reference });
  await aConfig(namespace, 'web', { image: 'base' });
  const errorMessage = `Image base does not exist in namespace ${namespace}`;
  const token = controlPlane.adminToken;
  const items = async () =>
    (await api.call('GET', `/api/v1/namespaces/${namespace}/vmconfigs`, { token })).json.items;
  await expect.poll(items, soon).toMatchObject([
    { name: 'good', image: reference, state: 'Ready' },
    { name: 'web', image: 'base', state: 'Updating', errorMessage },
  ]);
  expect((await items())[0]).not.toHaveProperty('errorMessage');
  const env = { KUBECONFIG: controlPlane.kubeconfigPath, SVC3_DEFAULT_NAMESPACE: namespace };
  const { stdout } = await svc3(['vmc', 'list'], { env });
  expect(stdout.split('\n')[0]).toMatch(/^NAME +STATE +IMAGE .*MESSAGE/);
  expect(stdout).toMatch(/^good +Ready /m);
  expect(stdout).toMatch(/^web +Updating +base .*Image base does not exist/m);
  expect((await svc3(['vmc', 'get', 'web', '-o', 'json'], { env })).stdout).toContain(errorMessage);
});

test('/api/v1 and the CLI show what the Image of a VMConfig is for, as soon as that is known', async () => {
  const { client, controlPlane } = cluster;
  const namespace = await cluster.namespace();
  await startOperator();
  const api = await startTestApi(client);
  onTestFinished(() => api.close());
  await client.create(images, anImage(namespace, 'base', { upload: {} }));
  await sayOfImage(namespace, 'base', inStore);
  await aConfig(namespace, 'web', { image: 'base' });
  const token = controlPlane.adminToken;
  const item = async () =>
    (await api.call('GET', `/api/v1/namespaces/${namespace}/vmconfigs/web`, { token })).json;
  await expect.poll(item, soon).toMatchObject({ state: 'Ready' });
  expect(await item()).not.toHaveProperty('type');
  await sayOfImage(namespace, 'base', { ...inStore, architecture: 'arm64' });
  await expect.poll(item, soon).toMatchObject({ state: 'Ready', type: 'arm64' });
  const env = { KUBECONFIG: controlPlane.kubeconfigPath, SVC3_DEFAULT_NAMESPACE: namespace };
  expect(JSON.parse((await svc3(['vmc', 'get', 'web', '-o', 'json'], { env })).stdout)).toMatchObject({
    type: 'arm64',
  });
});
