import { afterAll, beforeAll, expect, test } from 'vitest';
import { vms } from '../../../src/api/resources.ts';
import type { RunnerPort, RunnerState } from '../../../src/api/runner.ts';
import { RunnerSpec } from '../../../src/api/runner.ts';
import { startVmOperator, type TestOperator } from '../../support/operator.ts';
import { slow, type VmNamespace, type VmWorld, vmWorld } from './harness.ts';

let world: VmWorld;
let space: VmNamespace;
let operator: TestOperator;

/**
 * The runners by the UID of their VM: the ports that they have open, how often these were asked for, and what they cannot open. They cannot show
 * that a port leads to a guest or a disk grows; test/integration/runner/ports.test.ts, disk.test.ts beside it and test/life/network.test.ts do.
 */
const runners = new Map<string, { open: readonly RunnerPort[]; calls: number }>();
/** Bytes of the disks that have grown. */
const disks = new Map<string, number>();
let refused: number | undefined;

const text = (ports: readonly RunnerPort[]) => ports.map(({ podPort, protocol }) => `${podPort}/${protocol}`);

function stateOf(vmUid: string, message?: string): RunnerState {
  return {
    version: 1,
    vmUid,
    powerState: 'Running',
    guestReachable: true,
    guestReady: true,
    retrying: false,
    restarts: 0,
    vncConsole: true,
    iso: false,
    revision: 0,
    diskSize: disks.get(vmUid) ?? 2 ** 30,
    ports: [...(runners.get(vmUid)?.open ?? [])],
    ...(message === undefined ? {} : { portsMessage: message }),
  };
}

const start = (): Promise<TestOperator> =>
  startVmOperator(world.client, { nodePorts: { ssh: false, screenshare: false } }, () => ({
    openRunner: ({ vmUid }) => ({
      state: async () => stateOf(vmUid),
      power: () => Promise.reject(new Error('not asked for')),
      eject: () => Promise.reject(new Error('not asked for')),
      claim: () => Promise.reject(new Error('not asked for')),
      async resize(bytes) {
        disks.set(vmUid, bytes);
        return { diskSize: bytes, message: 'the disk has grown' };
      },
      ports: async ({ ports }) => {
        const open = ports.filter(({ podPort }) => podPort !== refused);
        runners.set(vmUid, { open, calls: (runners.get(vmUid)?.calls ?? 0) + 1 });
        return stateOf(vmUid, open.length === ports.length ? undefined : `port ${refused} is in use`);
      },
      fingerprint: () => 'print',
    }),
  }));

beforeAll(async () => {
  world = await vmWorld();
  space = await world.namespace('ports', { 'pod-security.kubernetes.io/enforce': 'restricted' });
  await world.kubelet.addNode({ name: 'n1' });
  operator = await start();
});

afterAll(async () => {
  await operator?.stop();
  await world?.stop();
});

async function request(name: string, spec: object): Promise<void> {
  await world.client.patch(vms, { name, namespace: space.name }, { type: 'merge', body: { spec } });
}

/** The VM runs, and its runner has what its pod was made with. */
async function runs(name: string): Promise<string> {
  const pod = await expect
    .poll(() => space.pod(name), slow)
    .toBeDefined()
    .then(() => space.pod(name));
  const { ports } = RunnerSpec.parse(JSON.parse(pod?.metadata.annotations?.['svc3.dev/runner-spec'] ?? ''));
  const { uid } = (await space.vm(name)).metadata;
  runners.set(uid, { open: ports, calls: 0 });
  await space.untilReady(name);
  return uid;
}

const mapped = async (name: string) => (await space.vm(name)).status?.ports?.mapped ?? [];
const openOf = (uid: string) => text(runners.get(uid)?.open ?? []);

test("a port of the guest is open under its own number on the pod's IP, where host ports are forbidden", async () => {
  await space.deploy('web', { ports: [{ guestPort: 80 }] });
  const uid = await runs('web');
  const pod = await space.pod('web');
  expect(pod?.spec.containers[0]?.ports?.some(({ hostPort }) => hostPort !== undefined)).toBe(false);
  expect(pod?.spec.securityContext?.sysctls).toEqual([
    { name: 'net.ipv4.ip_unprivileged_port_start', value: '0' },
  ]);
  expect(openOf(uid)).toEqual(['22/TCP', '5900/TCP', '80/TCP']);
  await expect.poll(() => mapped('web'), slow).toEqual([{ guestPort: 80, protocol: 'TCP' }]);
});

test('SSH and screen sharing are ports of the node where the VM says so, and then Pod Security has its say', async () => {
  await space.deploy('shared', { nodePorts: { ssh: 'Enabled' } });
  await space.until('shared', 'Scheduled', {
    status: 'False',
    reason: 'PodRefused',
    message: expect.stringContaining('hostPort'),
  });
  const free = await world.namespace('free');
  await free.deploy('shared', { nodePorts: { ssh: 'Enabled' } });
  await free.untilReady('shared');
  const { ports, effective } = (await free.vm('shared')).status ?? {};
  expect(ports).toEqual({ ssh: 8822 });
  expect(effective?.nodePorts).toEqual({ ssh: 'Enabled', screenshare: 'Disabled' });
  await expect(
    world.client.patch(
      vms,
      { name: 'shared', namespace: free.name },
      { type: 'merge', body: { spec: { nodePorts: { ssh: 'Disabled' } } } },
    ),
  ).rejects.toMatchObject({ message: expect.stringContaining('nodePorts cannot change after creation') });
});

test('ports come and go with the spec, and the pod stays', async () => {
  const before = await space.pod('web');
  const { uid } = (await space.vm('web')).metadata;
  await request('web', { ports: [{ guestPort: 443 }, { guestPort: 53, protocol: 'UDP' }] });
  await expect.poll(() => openOf(uid), slow).toEqual(['22/TCP', '5900/TCP', '443/TCP', '53/UDP']);
  await expect
    .poll(() => mapped('web'), slow)
    .toEqual([
      { guestPort: 443, protocol: 'TCP' },
      { guestPort: 53, protocol: 'UDP' },
    ]);
  await request('web', { ports: null });
  await expect.poll(() => openOf(uid), slow).toEqual(['22/TCP', '5900/TCP']);
  await expect.poll(() => mapped('web'), slow).toEqual([]);
  expect((await space.vm('web')).status?.effective).not.toHaveProperty('ports');
  expect((await space.pod('web'))?.metadata.uid).toBe(before?.metadata.uid);
});

/** Asks for a change of an operator that writes its status, and ends before it has asked the runner; then there is another. */
async function requestOfOneThatEnds(spec: object): Promise<void> {
  await operator.stop();
  await request('web', spec);
  const { metadata, status } = await space.vm('web');
  const conditions = status?.conditions?.map((one) => ({ ...one, observedGeneration: metadata.generation }));
  const told = { ...status, observedGeneration: metadata.generation, conditions };
  const target = { name: 'web', namespace: space.name };
  await world.client.patch(vms, target, { type: 'merge', body: { status: told } }, { subresource: 'status' });
  operator = await start();
}

test('a disk that nobody had grown before the operator ended is grown by the next one', async () => {
  const { uid } = (await space.vm('web')).metadata;
  await requestOfOneThatEnds({ disk: { size: '2Gi' } });
  await expect.poll(() => disks.get(uid), slow).toBe(2 ** 31);
  await expect.poll(async () => (await space.vm('web')).status?.diskSize, slow).toBe('2Gi');
});

test('a change that nobody carried out before the operator ended is carried out by the next one', async () => {
  const { uid } = (await space.vm('web')).metadata;
  await requestOfOneThatEnds({ ports: [{ guestPort: 8080 }] });
  await expect.poll(() => openOf(uid), slow).toEqual(['22/TCP', '5900/TCP', '8080/TCP']);
  await expect.poll(() => mapped('web'), slow).toEqual([{ guestPort: 8080, protocol: 'TCP' }]);
  const { calls } = runners.get(uid) ?? {};
  const { resourceVersion } = (await space.vm('web')).metadata;
  await operator.stop();
  operator = await start();
  // The next VM's life shows that the operator has had its passes.
  await space.deploy('other');
  await runs('other');
  expect(runners.get(uid)?.calls).toBe(calls);
  expect((await space.vm('web')).metadata.resourceVersion).toBe(resourceVersion);
});

test('a port that the runner cannot open is a warning until it can', async () => {
  refused = 9000;
  await request('web', { ports: [{ guestPort: 8080 }, { guestPort: 9000 }] });
  const warnings = async () => (await space.vm('web')).status?.warnings ?? [];
  await expect
    .poll(warnings, slow)
    .toEqual(['ports without a nodePort that are not open on the pod: 9000/TCP: port 9000 is in use']);
  expect(await mapped('web')).toEqual([{ guestPort: 8080, protocol: 'TCP' }]);
  refused = undefined;
  await expect.poll(warnings, slow).toEqual([]);
  expect(await mapped('web')).toContainEqual({ guestPort: 9000, protocol: 'TCP' });
});
