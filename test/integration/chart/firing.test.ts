import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { Agent, request } from 'undici';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { images, registryCredentials, secrets, vmPools, vms } from '../../../src/api/resources.ts';
import { runnerEnvironment } from '../../../src/api/runner.ts';
import { selfSigned } from '../../../src/http/server/certificate.ts';
import { createRegistryClient } from '../../../src/registry/client.ts';
import { pushDisk } from '../../../src/registry/disk.ts';
import { bindClaim } from '../../support/claims.ts';
import { dashboard, withoutData } from '../../support/dashboards.ts';
import { isWatch } from '../../support/faultproxy.ts';
import { kill } from '../../support/processes.ts';
import { faultsOfMetrics } from '../../support/prometheus.ts';
import { addCredential, basicAuth, credential } from '../credential/harness.ts';
import { anImage, aQcow2, readyOf } from '../image/harness.ts';
import { type AlertWorld, alertWorld, measured } from './alertworld.ts';

/**
 * Every alert of the chart: a fault of a real part, the metric of a real process, the rule in a real Prometheus, until it fires; the end of
 * the fault, until it does not. An alert is to come within a minute.
 */
const aMinute = { timeout: 60_000, interval: 250 };
/** Guests boot emulated, several at a time. */
const aBoot = { timeout: 150_000, interval: 250 };
vi.setConfig({ testTimeout: 600_000 });

const image = `127.0.0.1:1/debian@sha256:${'0'.repeat(64)}`;
const gpuAddress = '0000:01:00.0';
const namespaces = [
  'shutdown',
  'crashing',
  'full',
  'gpu',
  'stuck',
  'secretless',
  'denied',
  'away',
  'quiet',
  'pulling',
  'empty',
];

let world: AlertWorld;
let folder: string;
let crashing: Promise<void>;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc3-alerts-'));
  const gpuPath = await busyGpu();
  const quick = [
    'VMNotReady VMImagePullStuck VMCrashLoop VMUnschedulable VMPoolEmpty GPUUnavailable ImageWorkStuck CredentialRefused StoreUnreachable'.split(
      ' ',
    ),
    'OperatorDown APIDown VMDiskNearlyFull'.split(' '),
  ].flat();
  const times = {
    ...Object.fromEntries(quick.map((name) => [name, '1s'])),
    WatchSilent: '12s',
    // A busy machine takes its time for five changes of the leader.
    LeaderChanges: '120s',
  };
  world = await alertWorld({
    namespaces,
    values: [
      '--set=prometheusRule.keepFiringFor=2s',
      ...Object.entries(times).map(([name, time]) => `--set=prometheusRule.times.Svc3${name}=${time}`),
    ],
    runnerEnvironment: (vm) =>
      vm === 'gpu' ? { [runnerEnvironment.gpuAddresses]: gpuAddress, ...gpuPath } : {},
  });
  // The slowest: six crashes with growing pauses between.
  crashing = crashUntilItStaysDown();
  crashing.catch(() => undefined);
});

afterAll(async () => {
  await world?.stop();
  await rm(folder, { recursive: true, force: true });
});

const space = (name: string) => world.spaces[name]!;

async function untilReady(namespace: string, vm: string): Promise<void> {
  await expect.poll(() => space(namespace).condition(vm, 'Ready'), aBoot).toMatchObject({ status: 'True' });
}

const firingIn = (namespace: string) => () => world.firing({ namespace });
const heldGpu = () => join(folder, 'held');

/** QEMU as it is where another process has a card of the bundle, while file `held` is there. */
async function busyGpu(): Promise<Record<string, string>> {
  const programs = join(folder, 'programs');
  await mkdir(programs);
  await writeFile(heldGpu(), '');
  const said = `vfio ${gpuAddress}: failed to open /dev/vfio/2: Device or resource busy`;
  const script = `#!/bin/bash
while [ -n "$1" ]; do
  case "$1 $2" in '-device vfio-pci,'*) shift 2 ;; *) rest+=("$1"); shift ;; esac
done
if [ -e ${heldGpu()} ]; then echo "qemu-system-x86_64: -device vfio-pci,host=${gpuAddress}: ${said}" >&2; exit 1; fi
PATH="$REAL_PATH" exec qemu-system-x86_64 "\${rest[@]}"
`;
  const program = join(programs, 'qemu-system-x86_64');
  await writeFile(program, script);
  await chmod(program, 0o755);
  const path = process.env['PATH'] ?? '';
  return { PATH: `${programs}:${path}`, REAL_PATH: path };
}

/** Reference of a disk in the store's registry. */
async function pushed(repository: string): Promise<string> {
  const { address, scheme, username, password } = world.registry;
  const registry = createRegistryClient({ registry: address, scheme, credentials: { username, password } });
  const content = await aQcow2();
  await pushDisk(registry, {
    repository,
    tag: '1',
    architecture: 'amd64',
    fileName: 'disk.qcow2',
    size: content.length,
    content: Readable.from([content]),
  });
  await registry.close();
  return `${address}/${repository}:1`;
}

/** What the api answers to whoever begins an upload. */
async function uploadTo(namespace: string): Promise<number> {
  const dispatcher = new Agent({ connect: { rejectUnauthorized: false } });
  onTestFinished(() => dispatcher.destroy());
  const url = `https://${world.addressOf('api')}:8443/api/v1/namespaces/${namespace}/upload/image?name=sent`;
  const authorization = `Bearer ${world.controlPlane.adminToken}`;
  const headers = { authorization, 'upload-complete': '?0' };
  const { statusCode, body } = await request(url, { method: 'POST', headers, dispatcher });
  await body.dump();
  return statusCode;
}

async function crashUntilItStaysDown(): Promise<void> {
  await space('crashing').deploy('crashing', { image });
  const killed = new Set<number>();
  const oneMore = async () => {
    const { status } = await space('crashing').vm('crashing');
    const [pid = 0] = await world.vmPods.qemus('crashing');
    // One that dies before it has run the guest has not crashed.
    if (status?.powerState === 'Running' && pid > 0 && !killed.has(pid)) {
      killed.add(pid);
      kill(pid);
    }
    const { reason } = await space('crashing').condition('crashing', 'Stalled');
    if (reason !== 'RestartLimitExceeded') throw new Error(`it has crashed ${killed.size} times`);
  };
  await vi.waitFor(oneMore, { timeout: 500_000, interval: 250 });
}

test('Svc3VMNotReady: a guest that has shut itself down, until it is started', async () => {
  const { client, vmPods } = world;
  await space('shutdown').deploy('one', { image });
  await untilReady('shutdown', 'one');
  await expect.poll(firingIn('shutdown'), aMinute).toEqual([]);
  await vmPods.guest('one', 'poweroff').catch(() => undefined);
  await space('shutdown').until('one', 'Ready', { reason: 'GuestStopped' });
  await expect.poll(firingIn('shutdown'), aMinute).toEqual(['Svc3VMNotReady']);
  await client.patch(
    vms,
    { name: 'one', namespace: 'shutdown' },
    { type: 'merge', body: { spec: { startRequest: '1' } } },
  );
  await untilReady('shutdown', 'one');
  await expect.poll(firingIn('shutdown'), aMinute).toEqual([]);
});

test('Svc3VMUnschedulable: a VM that asks for more than a node has, until it is deleted', async () => {
  await space('quiet').deploy('huge', { image, cpu: 200 });
  await expect.poll(firingIn('quiet'), aMinute).toEqual(['Svc3VMUnschedulable']);
  await space('quiet').remove('huge');
  await expect.poll(firingIn('quiet'), aMinute).toEqual([]);
});

test('Svc3VMPoolEmpty: a pool whose guests fit no node, until none is to wait', async () => {
  const { client } = world;
  const pool = { name: 'ci', namespace: 'empty' };
  const template = { image, cpu: 200 };
  const rest = { minIdle: 1, maxSize: 4, standby: 'Suspended', serveConfig: false } as const;
  await client.create(vmPools, { metadata: pool, spec: { template, ...rest } });
  await expect.poll(firingIn('empty'), aMinute).toEqual(['Svc3VMPoolEmpty']);
  await client.patch(vmPools, pool, { type: 'merge', body: { spec: { minIdle: 0 } } });
  await expect.poll(firingIn('empty'), aMinute).toEqual([]);
  await client.delete(vmPools, pool);
});

test('Svc3VMImagePullStuck: a node that pulls the image of a VM, until it has it', async () => {
  const release = world.keepPulling('pulling');
  onTestFinished(release);
  await space('pulling').deploy('large', { image });
  await expect.poll(firingIn('pulling'), aMinute).toEqual(['Svc3VMImagePullStuck']);
  release();
  await untilReady('pulling', 'large');
  await expect.poll(firingIn('pulling'), aMinute).toEqual([]);
});

test('Svc3GPUUnavailable: a card that another process has, until it is free', async () => {
  const ofNode = () => world.firing({ kind: 'Node' });
  await space('gpu').deploy('gpu', { image, gpuPassthrough: 'Enabled', vncConsole: 'Disabled' });
  await expect.poll(ofNode, aMinute).toEqual(['Svc3GPUUnavailable']);
  await rm(heldGpu());
  await untilReady('gpu', 'gpu');
  await expect.poll(ofNode, aMinute).toEqual([]);
  await space('gpu').remove('gpu');
});

const diskAlertsOfFull = () => world.firing({ namespace: measured, vm: 'full' });

test('Svc3VMDiskNearlyFull: a guest that fills its root file system, until it has deleted something', async () => {
  await space(measured).deploy('full', { image, disks: [{ name: 'data', size: '16Mi' }] });
  await vi.waitFor(() => bindClaim(world.client, measured, 'svc3-vm-full.data'), aMinute);
  await untilReady(measured, 'full');
  const used = () => world.prometheus.query('svc3_vm_filesystem_used_bytes{vm="full"}');
  await expect.poll(used, aMinute).toHaveLength(1);
  expect(await diskAlertsOfFull()).toEqual([]);
  await world.vmPods.guest('full', 'dd if=/dev/zero of=/filler bs=64k || sync');
  await expect.poll(diskAlertsOfFull, aMinute).toEqual(['Svc3VMDiskNearlyFull']);
  await world.vmPods.guest('full', 'rm /filler && sync');
  await expect.poll(diskAlertsOfFull, aMinute).toEqual([]);
});

test('Svc3VMDiskNearlyFull: a guest that fills the file system of its data disk, until it has deleted something', async () => {
  const device = '/dev/$(cd /sys/block && grep -lx data */serial | cut -d/ -f1)';
  await world.vmPods.guest('full', `mkdir -p /mnt/data && mount -t ext4 ${device} /mnt/data`);
  const used = () => world.prometheus.query('svc3_vm_data_filesystem_used_bytes{vm="full"}');
  await expect.poll(used, aMinute).toHaveLength(1);
  expect(await diskAlertsOfFull()).toEqual([]);
  await world.vmPods.guest('full', 'dd if=/dev/zero of=/mnt/data/filler bs=64k || sync');
  await expect.poll(diskAlertsOfFull, aMinute).toEqual(['Svc3VMDiskNearlyFull']);
  await world.vmPods.guest('full', 'rm /mnt/data/filler && sync');
  await expect.poll(diskAlertsOfFull, aMinute).toEqual([]);
});

test('Svc3ImageWorkStuck: a worker that a quota refuses, until there is room for it', async () => {
  const { client } = world;
  const path = '/api/v1/namespaces/stuck/resourcequotas';
  const quota = {
    apiVersion: 'v1',
    kind: 'ResourceQuota',
    metadata: { name: 'none' },
    spec: { hard: { pods: '0' } },
  };
  await client.request({ method: 'POST', path, body: quota });
  const counted = async () =>
    (await client.request<{ status?: { hard?: object } }>({ method: 'GET', path: `${path}/none` })).body
      .status?.hard;
  await expect.poll(counted, aMinute).toEqual({ pods: '0' });
  await client.create(images, anImage('stuck', 'disk', { remote: { reference: await pushed('stuck') } }));
  await expect.poll(firingIn('stuck'), aMinute).toEqual(['Svc3ImageWorkStuck']);
  await client.request({ method: 'DELETE', path: `${path}/none` });
  await expect.poll(() => readyOf(client, 'stuck', 'disk'), aMinute).toBe('Ready');
  await expect.poll(firingIn('stuck'), aMinute).toEqual([]);
});

test('Svc3CredentialRefused: a Secret that is missing, until it is there', async () => {
  const { client } = world;
  const named = credential('secretless', 'https://registry.example.com');
  await client.create(registryCredentials, named);
  await expect.poll(firingIn('secretless'), aMinute).toEqual(['Svc3CredentialRefused']);
  await client.create(secrets, basicAuth(named.spec.secretRef.name, 'alice', 'secret'));
  await expect.poll(firingIn('secretless'), aMinute).toEqual([]);
});

test('Svc3CredentialRefused: a password that the registry refuses, until it is the right one', async () => {
  const { client, registry } = world;
  const server = `${registry.scheme}://${registry.address}`;
  await addCredential(client, 'denied', server, 'wrong');
  await client.create(images, anImage('denied', 'disk', { remote: { reference: await pushed('denied') } }));
  await expect.poll(firingIn('denied'), aMinute).toEqual(['Svc3CredentialRefused']);
  await addCredential(client, 'denied', server, registry.password);
  await expect.poll(() => readyOf(client, 'denied', 'disk'), aMinute).toBe('Ready');
  await expect.poll(firingIn('denied'), aMinute).toEqual([]);
});

test('Svc3StoreUnreachable: a store that is down, until it is up', async () => {
  const { client, prometheus, registry } = world;
  const reference = await pushed('away');
  const isCounted = async (pods: string) => {
    const selector = `registry="${registry.address}", reason="Unreachable", pod=~"${pods}"`;
    const query = `sum by (registry) (svc3_registry_errors_total{${selector}}) > 0`;
    return (await prometheus.query(query)).length > 0;
  };
  expect([await isCounted('a|b'), await isCounted('api')]).toEqual([false, false]);
  await registry.kill();
  await client.create(images, anImage('away', 'disk', { remote: { reference } }));
  await expect.poll(firingIn('away'), aMinute).toEqual(['Svc3StoreUnreachable']);
  // The runbook asks which registry it is: the worker's requests, and those of the api.
  await expect.poll(() => isCounted('a|b'), aMinute).toBe(true);
  expect(await uploadTo('away')).toBe(502);
  await expect.poll(() => isCounted('api'), aMinute).toBe(true);
  await registry.restart();
  await expect.poll(() => readyOf(client, 'away', 'disk'), aMinute).toBe('Ready');
  await expect.poll(firingIn('away'), aMinute).toEqual([]);
});

test('Svc3CertificateEnding: a certificate for five days, until it is another', async () => {
  const days = 86_400_000;
  const ofServing = () => world.firing({ use: 'serving' });
  const give = async (notBefore: Date) => {
    const { cert, key } = await selfSigned(['localhost'], notBefore);
    const stringData = { 'tls.crt': cert, 'tls.key': key };
    const tls = { name: 'svc3-api-tls', namespace: 'svc3-system' };
    await world.client.patch(secrets, tls, { type: 'merge', body: { stringData } });
  };
  const tenYears = 3_652 * days;
  await give(new Date(Date.now() - tenYears + 7 * days));
  await expect.poll(ofServing, aMinute).toEqual(['Svc3CertificateEnding']);
  await give(new Date());
  await expect.poll(ofServing, aMinute).toEqual([]);
});

test('Svc3WatchSilent: watches that bring nothing, until they do', async () => {
  const { client, proxy } = world;
  await space('quiet').deploy('busy', { image, powerState: 'Stopped' });
  // Where nothing changes, half a minute of silence is as it should be.
  let round = 0;
  const changing = setInterval(() => {
    const body = { metadata: { annotations: { round: `${(round += 1)}` } } };
    client.patch(vms, { name: 'busy', namespace: 'quiet' }, { type: 'merge', body }).catch(() => undefined);
  }, 1_000);
  onTestFinished(() => clearInterval(changing));
  const ofVms = () => world.firing({ resource: 'vms' });
  await expect.poll(ofVms, aMinute).toEqual([]);
  const heal = proxy.inject(isWatch, { kind: 'silence' });
  proxy.cutAll();
  await expect.poll(ofVms, aMinute).toEqual(['Svc3WatchSilent']);
  heal();
  proxy.cutAll();
  await expect.poll(ofVms, aMinute).toEqual([]);
});

test('Svc3VMCrashLoop: a QEMU that dies for the sixth time, until the VM is started', async () => {
  await crashing;
  await expect.poll(firingIn('crashing'), aMinute).toContain('Svc3VMCrashLoop');
  const started = { type: 'merge', body: { spec: { startRequest: '1' } } } as const;
  await world.client.patch(vms, { name: 'crashing', namespace: 'crashing' }, started);
  await untilReady('crashing', 'crashing');
  await expect.poll(firingIn('crashing'), aMinute).toEqual([]);
});

test('nothing fires for VMs that are as somebody wanted: stopped, suspended, waiting for an upload or a save, deleted', async () => {
  const { client, workers, prometheus } = world;
  const quiet = space('quiet');
  await Promise.all([
    quiet.deploy('asleep', { image }),
    quiet.deploy('saved', { image }),
    quiet.deploy('off', { image, powerState: 'Stopped' }),
  ]);
  await Promise.all(['asleep', 'saved', 'off'].map((vm) => untilReady('quiet', vm)));
  workers.pause();
  onTestFinished(() => workers.resume());
  const suspended = { type: 'merge', body: { spec: { powerState: 'Suspended' } } } as const;
  await client.patch(vms, { name: 'asleep', namespace: 'quiet' }, suspended);
  await client.create(images, anImage('quiet', 'kept', { vm: { name: 'saved', mode: 'Save' } }));
  await quiet.until('asleep', 'Ready', { status: 'True', reason: 'Suspended' });
  // No node takes them: one that is not to run, and one that is being deleted and kept by the finalizer of somebody.
  await quiet.deploy('large', { image, cpu: 200, powerState: 'Stopped' });
  await quiet.deploy('kept', { image, cpu: 200 });
  const kept = { name: 'kept', namespace: 'quiet' };
  const finalizers = async (...others: string[]) => {
    const body = { metadata: { finalizers: others } };
    await client.patch(vms, kept, { type: 'merge', body });
  };
  await finalizers('example.com/kept');
  onTestFinished(() => finalizers());
  await quiet.until('kept', 'Scheduled', { reason: 'Unschedulable' });
  await quiet.delete('kept');
  await client.create(images, anImage('quiet', 'uploaded', { upload: {} }));
  await quiet.deploy('early', { image: 'uploaded' });
  await quiet.delete('saved');
  await quiet.until('saved', 'Ready', { status: 'False', reason: 'Terminating' });
  const ofVms = async () =>
    (await world.firing({ namespace: 'quiet' })).filter((name) => name.startsWith('Svc3VM'));
  const ages = (reason: string, requested: string) =>
    prometheus.query(
      `svc3_object_condition_oldest_seconds{namespace="quiet", type="Ready", reason="${reason}", requested="${requested}"} > 5`,
    );
  for (const [reason, requested] of [
    ['Suspended', 'Suspended'],
    ['Terminating', 'Deleted'],
    ['Stopped', 'Stopped'],
    ['Unschedulable', 'Stopped'],
    ['Unschedulable', 'Deleted'],
    ['ImageNotReady', 'Running'],
  ] as const)
    await expect.poll(() => ages(reason, requested), aMinute).not.toEqual([]);
  await expect.poll(ofVms, aMinute).toEqual([]);
});

test('every query of both dashboards has data, with values of their variables that Prometheus knows', async () => {
  const { client, addressOf } = world;
  // Something that is not Ready, something that waits for somebody, and somebody who asks the api.
  await space('quiet').deploy('huge', { image, cpu: 200 });
  await client.create(images, anImage('quiet', 'awaited', { upload: {} }));
  const dispatcher = new Agent({ connect: { rejectUnauthorized: false } });
  onTestFinished(() => dispatcher.destroy());
  const empty = async (queries: readonly string[]) => {
    // The time of a read or write is known where there was one.
    await world.vmPods.guest(
      'full',
      'sync; echo 3 > /proc/sys/vm/drop_caches; cat /bin/busybox > /work; sync',
    );
    const { body } = await request(`https://${addressOf('api')}:8443/api/v1/cluster-info`, { dispatcher });
    await body.dump();
    return withoutData(world.prometheus, queries);
  };
  for (const [name, values] of [
    ['fleet', { namespace: '.*' }],
    ['vm', { namespace: measured, vm: 'full' }],
  ] as const) {
    const { queries, variables } = dashboard(name, values);
    for (const { query, label, value } of variables) {
      const found = await world.prometheus.query(`group by (${label}) (${query})`);
      expect(found.map(({ metric }) => metric[label])).toContainEqual(
        expect.stringMatching(new RegExp(`^${value}$`)),
      );
    }
    await expect.poll(() => empty(queries), aMinute).toEqual([]);
  }
});

test.each(['a', 'b', 'api', 'agent'] as const)(
  'promtool finds no fault with the metrics of process %s',
  async (name) => {
    const reply = await fetch(`http://${world.addressOf(name)}:8081/metrics`);
    expect(await faultsOfMetrics(await reply.text())).toBe('');
  },
);

test('a VM has its node, the accelerator that is in force, and how its last start went, to join on', async () => {
  const ofFull = async (name: string) => {
    const [found] = await world.prometheus.query(`${name}{vm="full"}`);
    return found?.metric;
  };
  expect(await ofFull('svc3_vm_info')).toMatchObject({
    node: 'n1',
    accelerator: 'tcg',
    architecture: 'amd64',
  });
  expect(await ofFull('svc3_vm_start_info')).toMatchObject({ node: 'n1', start: 'cold' });
  const phases = await world.prometheus.query(
    'group by (phase) (svc3_vm_start_phase_seconds{vm="full"} >= 0)',
  );
  expect(new Set(phases.map(({ metric }) => metric['phase']))).toEqual(
    new Set(['placed', 'pulled', 'disk', 'machine', 'guest']),
  );
});

test('Svc3APIDown: no api, until there is one', async () => {
  const down = async () => (await world.firing()).filter((name) => name === 'Svc3APIDown');
  await expect.poll(down, aMinute).toEqual([]);
  await Promise.all([world.end('api'), world.end('deaf')]);
  await expect.poll(down, aMinute).toEqual(['Svc3APIDown']);
  world.start('api');
  await expect.poll(down, aMinute).toEqual([]);
});

test('Svc3LeaderChanges: replicas that end one after the other, until they stay', async () => {
  const changes = async () => (await world.firing()).filter((name) => name === 'Svc3LeaderChanges');
  expect(await changes()).toEqual([]);
  for (let change = 0; change < 5; change += 1) {
    await expect.poll(() => world.leader(), aMinute).toBeDefined();
    const leader = (await world.leader()) ?? 'a';
    await world.end(leader);
    await expect.poll(() => world.leader(), aMinute).toBe(leader === 'a' ? 'b' : 'a');
    world.start(leader);
  }
  await expect.poll(changes, aMinute).toEqual(['Svc3LeaderChanges']);
  // Until the time in which they are counted is over.
  await expect.poll(changes, { ...aMinute, timeout: 180_000 }).toEqual([]);
});

test('Svc3OperatorDown: no operator, until there is one', async () => {
  const down = async () => (await world.firing()).filter((name) => name === 'Svc3OperatorDown');
  expect(await down()).toEqual([]);
  await Promise.all([world.end('a'), world.end('b')]);
  await expect.poll(down, aMinute).toEqual(['Svc3OperatorDown']);
  world.start('a');
  await expect.poll(down, aMinute).toEqual([]);
});
