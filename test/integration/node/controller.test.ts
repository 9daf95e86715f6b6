import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { events, namespaces, nodes, vms } from '../../../src/api/resources.ts';
import type { Vm } from '../../../src/api/vm.ts';
import { createInformers } from '../../../src/controller/informers.ts';
import { createClient, type RootClient } from '../../../src/kube/client.ts';
import { loadKubeconfig } from '../../../src/kube/connection.ts';
import { createRecorder } from '../../../src/kube/recorder.ts';
import { createNodeController } from '../../../src/controllers/node/controller.ts';
import { readSysfs } from '../../../src/nodeagent/sysfs.ts';
import { createLogger, createMetrics } from '../../../src/telemetry.ts';
import { type OwnControlPlane, ownControlPlane } from '../../support/controlplane.ts';
import { installDefinitions } from '../../support/definitions.ts';
import { withFaults, type Write } from '../../support/faultclient.ts';
import { machineRoot, machines, type Machine, writeMachine } from '../../support/machines.ts';
import { inProcess } from '../cli/inprocess.ts';

const soon = { interval: 50 };
const label = 'svc3.dev/gpu-passthrough';
const allowed = 'svc3.dev/allow-gpu-passthrough';
const notEnabled = (name: string) =>
  `the node is not enabled for GPU passthrough (svc3 node gpu enable ${name})`;

const { svc3 } = inProcess();
let controlPlane: OwnControlPlane;
let client: RootClient;
let hardware: string;
let writes: Write[];
const operators: (() => Promise<void>)[] = [];

beforeAll(async () => {
  controlPlane = await ownControlPlane({ components: [] });
  client = createClient(await loadKubeconfig(controlPlane.kubeconfigPath));
  await installDefinitions(client);
  await client.create(namespaces, { metadata: { name: 'team' } });
  hardware = await report(machines.towerTwoD500);
  writes = await startOperator(true);
});

afterAll(async () => {
  for (const stop of operators) await stop();
  await client?.close();
  await controlPlane?.remove();
});

async function report(machine: Machine): Promise<string> {
  const root = await mkdtemp(join(tmpdir(), 'svc3-controller-'));
  await writeMachine(root, machine);
  const found = await readSysfs(machineRoot(root));
  await rm(root, { recursive: true });
  return JSON.stringify(found);
}

/** The node controller as the operator runs it; returns its writes. */
async function startOperator(gpuPassthroughEnabled: boolean): Promise<Write[]> {
  const stopping = new AbortController();
  const watched = withFaults(client, () => 'none');
  const log = createLogger({ name: 'test', level: 'error' });
  const informers = createInformers(client, log);
  const controller = createNodeController({
    client: watched.client,
    informers,
    recorder: createRecorder(client, { component: 'operator', log }),
    log,
    metrics: createMetrics(),
    gate: { isHeld: () => true, assertHeld: () => undefined },
    settings: {
      gpuPassthroughEnabled,
      towerCards: ['1002:679e'],
      nodeAgentEnabled: true,
      nodeAgentSelector: {},
    },
  });
  const running = [informers.run(stopping.signal), controller.run(stopping.signal)];
  await informers.synced();
  operators.push(async () => {
    stopping.abort();
    await Promise.all(running);
  });
  return watched.writes;
}

async function addNode(labels: Record<string, string> = {}, annotation = hardware): Promise<string> {
  const node = await client.create(nodes, {
    metadata: {
      generateName: 'gpu-',
      labels: { 'kubernetes.io/arch': 'amd64', ...labels },
      annotations: { 'svc3.dev/hardware': annotation },
    },
  });
  return node.metadata.name ?? '';
}

const edit = (name: string, metadata: object) =>
  client.patch(nodes, { name }, { type: 'merge', body: { metadata } });

async function state(name: string): Promise<[string | undefined, string | undefined]> {
  const { metadata } = await client.get(nodes, name);
  return [metadata.labels?.[label], metadata.annotations?.[`${label}-reason`]];
}
async function until(name: string, expected: [string | undefined, string | undefined]): Promise<void> {
  await expect.poll(() => state(name), soon).toEqual(expected);
}

/** The Events that `kubectl describe node` shows: it asks for those with the UID of the Node. */
const told = async (name: string): Promise<string[]> => {
  const { uid } = (await client.get(nodes, name)).metadata;
  return (await client.list(events)).items
    .filter(({ regarding }) => regarding?.name === name && regarding.uid === uid)
    .map(({ reason, note }) => `${reason}: ${note}`)
    .toSorted();
};

/** The node's line of `svc3 node list -o wide`. */
async function listed(name: string): Promise<string> {
  const env = { KUBECONFIG: controlPlane.kubeconfigPath };
  const { code, stdout, stderr } = await svc3(['node', 'list', '-o', 'wide'], { env });
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return stdout.split('\n').find((line) => line.startsWith(`${name} `)) ?? '';
}

describe('the node controller (spec: GPU passthrough rule 3)', () => {
  test('labels a node when the administrator enables it and takes the label back when he disables it', async () => {
    const name = await addNode();
    await until(name, [undefined, notEnabled(name)]);
    await edit(name, { labels: { [allowed]: 'true' } });
    await until(name, ['enabled', undefined]);
    await edit(name, { labels: { [allowed]: null } });
    await until(name, [undefined, notEnabled(name)]);
    await expect
      .poll(() => told(name), soon)
      .toEqual([
        `GPUPassthroughDisabled: no new VM gets the GPUs of this node, a VM that has them goes on: ${notEnabled(name)}`,
        'GPUPassthroughEnabled: VMs may use the GPUs of this node, one at a time',
      ]);
  });

  test('is what svc3 node list -o wide shows', async () => {
    const name = await addNode({ [allowed]: 'yes' });
    const why = `label ${allowed} is "yes" and only "true" enables the node (svc3 node gpu enable ${name})`;
    await until(name, [undefined, why]);
    expect(await listed(name)).toContain(why);
  });

  test('names labels of ours that have a value without meaning, once', async () => {
    const wrong = { 'svc3.dev/accelerator': 'xen', 'tag.svc3.dev/ci': 'false', 'tag.svc3.dev/gpu': 'true' };
    const name = await addNode({ [allowed]: 'true', ...wrong });
    const sentences = [
      'LabelIgnored: label svc3.dev/accelerator is "xen" and counts as absent: it has to be "kvm" or "tcg"',
      'LabelIgnored: label tag.svc3.dev/ci is "false" and counts as absent: it has to be "true"',
    ];
    const ignored = async () => (await told(name)).filter((text) => text.startsWith('LabelIgnored'));
    await expect.poll(ignored, soon).toEqual(sentences);
    await edit(name, { annotations: { other: 'x' } });
    await edit(name, { labels: { 'svc3.dev/accelerator': 'tcg', 'tag.svc3.dev/ci': 'yes' } });
    const again = 'LabelIgnored: label tag.svc3.dev/ci is "yes" and counts as absent: it has to be "true"';
    await expect.poll(ignored, soon).toEqual([...sentences, again]);
    expect(await listed(name)).toMatch(/ gpu /);
    expect(await listed(name)).not.toMatch(/ ci[, ]/);
  });

  test('puts right what hands change, both ways', async () => {
    const on = await addNode({ [allowed]: 'true' });
    const off = await addNode();
    await until(on, ['enabled', undefined]);
    await until(off, [undefined, notEnabled(off)]);
    await edit(on, { labels: { [label]: null } });
    await edit(off, { labels: { [label]: 'enabled' } });
    await until(on, ['enabled', undefined]);
    await until(off, [undefined, notEnabled(off)]);
    await edit(on, { labels: { [label]: 'true' }, annotations: { [`${label}-reason`]: 'because' } });
    await edit(off, { annotations: { [`${label}-reason`]: null } });
    await until(on, ['enabled', undefined]);
    await until(off, [undefined, notEnabled(off)]);
  });

  test('takes the label back when the hardware no longer qualifies', async () => {
    const name = await addNode({ [allowed]: 'true' });
    await until(name, ['enabled', undefined]);
    const one = await report(machines.towerOneD500);
    await edit(name, { annotations: { 'svc3.dev/hardware': one } });
    await until(name, [
      undefined,
      'the hardware does not qualify: this tower model needs exactly 2 D500-class cards and has 1',
    ]);
    await edit(name, { annotations: { 'svc3.dev/hardware': hardware } });
    await until(name, ['enabled', undefined]);
  });

  test('does not carry the label over to a node made anew under the same name', async () => {
    const name = await addNode({ [allowed]: 'true' });
    await until(name, ['enabled', undefined]);
    await client.delete(nodes, { name });
    await client.create(nodes, {
      metadata: { name, labels: { [allowed]: 'true', [label]: 'enabled' } },
    });
    await until(name, [undefined, 'the node agent has not reported its hardware yet']);
  });

  test('writes nothing once all is true, whatever else changes on the node', async () => {
    const name = await addNode({ [allowed]: 'true' });
    await until(name, ['enabled', undefined]);
    const before = writes.filter((write) => write.name === name).length;
    for (let i = 0; i < 5; i++) await edit(name, { annotations: { other: String(i) } });
    const marker = await addNode();
    await until(marker, [undefined, notEnabled(marker)]);
    expect(writes.filter((write) => write.name === name)).toHaveLength(before);
    expect(before).toBe(1);
  });
});

describe('a VM that cannot use the GPUs it was given', { timeout: 180_000 }, () => {
  const type = 'svc3.dev/GPUUnavailable';
  const busy = 'a GPU of the node is in use: failed to open /dev/vfio/2: Device or resource busy';
  const fault = `VM team/gamer cannot use the GPUs: ${busy}`;
  const reason = `not usable now: a VM cannot use the GPUs (condition ${type})`;
  const effective = {
    image: `r.example.com/a@sha256:${'a'.repeat(64)}`,
    architecture: 'amd64',
    cpu: 1,
    memory: '256Mi',
    gpuPassthrough: 'Enabled',
    vncConsole: 'Disabled',
  };

  /** As the operator reports it. */
  async function report(node: string, booted: 'True' | 'False', message: string): Promise<void> {
    const condition = {
      type: 'Booted',
      status: booted,
      reason: booted === 'True' ? 'Booted' : 'GPUUnavailable',
      message,
      lastTransitionTime: '2026-01-01T00:00:00Z',
    };
    await client.patch(
      vms,
      { name: 'gamer', namespace: 'team' },
      { type: 'merge', body: { status: { node, effective, conditions: [condition] } } },
      { subresource: 'status' },
    );
  }

  const condition = async (name: string) =>
    (await client.get(nodes, name)).status?.conditions?.find((one) => one.type === type);

  test('is a condition of the Node and its reason, until the VM runs', async () => {
    const name = await addNode({ [allowed]: 'true' });
    await until(name, ['enabled', undefined]);
    await client.patch(
      nodes,
      { name },
      {
        type: 'merge',
        body: { status: { conditions: [{ type: 'Ready', status: 'True', reason: 'KubeletReady' }] } },
      },
      { subresource: 'status' },
    );
    const spec = { image: 'r.example.com/a:1', gpuPassthrough: 'Enabled' };
    await client.create(vms, {
      apiVersion: 'svc3.dev/v1',
      kind: 'VM',
      metadata: { name: 'gamer', namespace: 'team' },
      spec,
    } as Vm);
    await report(name, 'False', `${busy}; starting again in 1 s`);
    await until(name, ['enabled', reason]);
    expect(await listed(name)).toContain(reason);
    expect(await listed(name)).not.toContain('gamer');
    await expect
      .poll(() => condition(name), soon)
      .toMatchObject({ status: 'True', reason: 'GPUUnavailable', message: fault });
    // The next attempt of the runner is no news of the node.
    const { resourceVersion } = (await client.get(nodes, name)).metadata;
    await report(name, 'False', `${busy}; starting again in 2 s`);
    const marker = await addNode();
    await until(marker, [undefined, notEnabled(marker)]);
    expect((await client.get(nodes, name)).metadata.resourceVersion).toBe(resourceVersion);

    await report(name, 'True', 'QEMU runs the guest');
    await until(name, ['enabled', undefined]);
    await expect.poll(() => condition(name), soon).toBeUndefined();
    expect((await client.get(nodes, name)).status?.conditions).toMatchObject([{ type: 'Ready' }]);
    await expect
      .poll(() => told(name), soon)
      .toEqual([
        'GPUAvailable: no VM is kept from the GPUs of this node any more',
        'GPUPassthroughEnabled: VMs may use the GPUs of this node, one at a time',
        `GPUUnavailable: ${fault}`,
      ]);
  });

  test('goes with the VM, and is put back where somebody takes it away', async () => {
    const name = await addNode({ [allowed]: 'true' });
    await report(name, 'False', busy);
    await expect.poll(() => condition(name), soon).toMatchObject({ message: fault });
    const body = { status: { conditions: [{ type, $patch: 'delete' }] } };
    await client.patch(nodes, { name }, { type: 'strategic', body }, { subresource: 'status' });
    await expect.poll(() => condition(name), soon).toMatchObject({ message: fault });
    await client.delete(vms, { name: 'gamer', namespace: 'team' });
    await expect.poll(() => condition(name), soon).toBeUndefined();
    await until(name, ['enabled', undefined]);
  });
});

describe('the node controller of a cluster without GPU passthrough', () => {
  test('takes every label away and says where it is turned on', async () => {
    for (const stop of operators.splice(0)) await stop();
    const name = await addNode({ [allowed]: 'true', [label]: 'enabled' });
    const own = await startOperator(false);
    await until(name, [
      undefined,
      'GPU passthrough is off in this cluster (chart value gpuPassthrough.enabled)',
    ]);
    const marker = await addNode();
    await expect.poll(async () => (await state(marker))[1], soon).toContain('is off in this cluster');
    expect(own.filter((write) => write.name === name)).toHaveLength(1);
  });
});
