/** A change of a VM's spec is carried out, or waits and is told, or is refused: never accepted and ignored. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { images, pods, vmConfigs, vms } from '../../src/api/resources.ts';
import { storageClasses } from '../support/resources.ts';
import type { VmSpecInput } from '../../src/api/vm.ts';
import { waiterOn } from '../../src/cli/service/kubernetes/wait.ts';
import { changeVm } from '../../src/usecases/change.ts';
import { vmItem } from '../../src/wire/vm.ts';
import type { VmChangeRequest } from '../../src/wire/vmchange.ts';
import { slow, type VmNamespace, type VmWorld, vmWorld } from '../integration/vm/harness.ts';
import { bindClaim } from '../support/claims.ts';
import { RunnerStandIn } from '../support/runnerstandin.ts';
import { startVmOperator, type TestOperator } from '../support/operator.ts';

let world: VmWorld;
let space: VmNamespace;
let operator: TestOperator;
const runner = new RunnerStandIn(() => world.kubelet);

beforeAll(async () => {
  world = await vmWorld();
  space = await world.namespace('changes');
  await world.client.create(storageClasses, {
    metadata: { name: 'fast' },
    provisioner: 'example.com/none',
    volumeBindingMode: 'Immediate',
  });
  for (const name of ['n1', 'n2']) await world.kubelet.addNode({ name });
  runner.become({});
  operator = await startVmOperator(world.client, {}, runner.parts);
});

afterAll(async () => {
  await operator?.stop();
  await world?.stop();
});

const patch = (name: string, spec: object) =>
  world.client.patch(vms, { name, namespace: space.name }, { type: 'merge', body: { spec } });

const persistent: VmSpecInput = { disk: { storage: 'Persistent', size: '1Gi', storageClassName: 'fast' } };

/** What only another pod has. */
const changes: readonly [keyof VmSpecInput, unknown][] = [
  ['gpuPassthrough', 'Enabled'],
  ['nodeName', 'n2'],
  ['tag', 'fast'],
  ['tagRequired', true],
  ['scheduler', 'Pack'],
  ['priorityClassName', 'batch'],
  ['ports', [{ nodePort: 8080, guestPort: 80 }]],
  ['iso', 'registry.example.com/installer:12'],
  ['userData', { secretName: 'first-boot' }],
  ['tolerations', [{ key: 'dedicated', operator: 'Exists' }]],
  ['affinity', { podAntiAffinity: {} }],
  [
    'topologySpreadConstraints',
    [{ maxSkew: 1, topologyKey: 'zone', whenUnsatisfiable: 'ScheduleAnyway', labelSelector: {} }],
  ],
  ['disks', [{ name: 'logs', size: '1Gi' }]],
];

/** What a boot has, in whatever pod. */
const atBoot = {
  vncConsole: 'Disabled',
  metadata: [{ name: 'role', value: 'web' }],
  sshAuthorizedKeys: ['ssh-ed25519 AAAA'],
  systemSerial: 'A1',
  display: { width: 1024 },
  netBoost: false,
  legacyIO: true,
  readiness: { none: {} },
} as const;

describe('a VM with an Ephemeral disk', { timeout: 180_000 }, () => {
  test('takes changes while it waits for a node', async () => {
    await space.deploy('waits', { tag: 'none', tagRequired: true });
    await space.until('waits', 'Scheduled', { status: 'False', reason: 'Unschedulable' });
    await patch('waits', { tagRequired: false, cpu: 2 });
    await space.untilReady('waits');
    expect((await space.vm('waits')).status?.effective).toMatchObject({ cpu: 2 });
    await space.remove('waits');
  });

  test('has what waited for its next start in its next pod', async () => {
    await space.deploy('moved');
    await space.untilReady('moved');
    await patch('moved', { systemSerial: 'B1', cpu: 2 });
    await space.until('moved', 'RestartRequired', { status: 'True' });
    const before = await space.pod('moved');
    await world.client.delete(pods, { name: before?.metadata.name ?? '', namespace: space.name });
    await space.untilReplaced('moved', before);
    await space.untilReady('moved');
    await expect
      .poll(async () => (await space.vm('moved')).status?.effective, slow)
      .toMatchObject({ systemSerial: 'B1', cpu: 2 });
    await expect.poll(() => space.condition('moved', 'RestartRequired'), slow).toEqual({});
    expect((await space.pod('moved'))?.spec.containers[0]?.resources?.requests).toMatchObject({ cpu: '2' });
    await space.remove('moved');
  });

  test.each(changes)('refuses another %s once it has been placed', async (field, value) => {
    if (!(await space.isThere('runs'))) await space.deploy('runs');
    await space.untilReady('runs');
    await expect(patch('runs', { [field]: value })).rejects.toMatchObject({
      reason: 'Invalid',
      message: expect.stringContaining(`spec.${field}: `),
    });
  });

  test('refuses to say what becomes of its disk, which goes with its pod', async () => {
    await expect(patch('runs', { disk: { whenDeleted: 'Retain' } })).rejects.toMatchObject({
      reason: 'Invalid',
      message: expect.stringContaining('spec.disk.whenDeleted: '),
    });
  });

  test('has what a boot can change after its next start, in the same pod', async () => {
    const pod = await space.pod('runs');
    const effective = async () => (await space.vm('runs')).status?.effective;
    runner.forget();
    await patch('runs', { ...atBoot });
    await space.until('runs', 'RestartRequired', { status: 'True', reason: 'SpecChanged' });
    const { message = '' } = await space.condition('runs', 'RestartRequired');
    for (const field of Object.keys(atBoot)) expect(message).toContain(`spec.${field}`);
    expect(await effective()).not.toHaveProperty('systemSerial');

    await patch('runs', { restartRequest: 'with-settings' });
    await expect.poll(effective, slow).toMatchObject(atBoot);
    await expect.poll(() => space.condition('runs', 'RestartRequired'), slow).toEqual({});
    expect(runner.verbs).toEqual(['restart']);
    expect(runner.settings?.values).toMatchObject({
      vncConsole: false,
      metadata: atBoot.metadata,
      systemSerial: 'A1',
      display: { width: 1024 },
      readiness: { none: {} },
    });
    expect((await space.pod('runs'))?.metadata.uid).toBe(pod?.metadata.uid);
    expect((await space.vm('runs')).status?.restartRequest).toBe('with-settings');
  });

  test('says what waits with the very write that tells that the change was seen', async () => {
    const key = { namespace: space.name, name: 'runs' };
    const environment = {
      caller: world.client,
      find: () => space.vm('runs'),
      settings: () => Promise.resolve(undefined),
      wait: waiterOn(world.client, AbortSignal.timeout(60_000)),
    };
    const options = { wait: true, warn: () => undefined };
    const change = async (request: VmChangeRequest) => {
      const { vm, isSeen } = await changeVm(environment, key, request, options);
      return { isSeen, waits: vmItem(vm).restartRequired };
    };
    const waits = 'spec.systemSerial apply when the guest is started next';
    expect(await change({ systemSerial: 'A3', suspendTo: 'Memory' })).toEqual({ isSeen: true, waits });
    expect(await change({ systemSerial: 'A1' })).toEqual({ isSeen: true, waits: undefined });
  });

  test('keeps what it was started with, whatever is asked for then', async () => {
    await patch('runs', { systemSerial: 'A2' });
    await space.until('runs', 'RestartRequired', { message: expect.stringContaining('spec.systemSerial ') });
    await patch('runs', { systemSerial: 'A1' });
    await expect.poll(() => space.condition('runs', 'RestartRequired'), slow).toEqual({});
    await expect(patch('runs', { systemSerial: null })).rejects.toMatchObject({
      reason: 'Invalid',
      message: expect.stringContaining('spec.systemSerial: '),
    });
    runner.forget();
  });

  test('keeps its pod over a stop, a start and a restart', async () => {
    const pod = await space.pod('runs');
    await patch('runs', { powerState: 'Stopped' });
    await space.until('runs', 'Ready', { status: 'True', reason: 'Stopped' });
    await patch('runs', { powerState: 'Running' });
    await space.until('runs', 'Ready', { status: 'True', reason: 'Running' });
    await patch('runs', { restartRequest: 'one' });
    await expect.poll(() => runner.verbs, slow).toEqual(['stop', 'start', 'restart']);
    expect((await space.pod('runs'))?.metadata.uid).toBe(pod?.metadata.uid);
    await space.remove('runs');
  });
});

describe('a VM of whose Ephemeral disk is said what only one on a claim has', { timeout: 180_000 }, () => {
  const disk = { storageClassName: 'fast', whenDeleted: 'Retain' } as const;
  const why =
    'the disk is Ephemeral and goes with its pod; only one with disk.storage Persistent is on a claim';
  const ofClass = `disk.storageClassName has no effect: ${why}`;
  const ofDeletion = `disk.whenDeleted has no effect: ${why}`;
  const ofSuspension = expect.stringMatching(/^suspendTo: Disk keeps the VM from being suspended: /);
  const warnings = async (name: string) => (await space.vm(name)).status?.warnings ?? [];
  const refusal = {
    reason: 'Invalid',
    message: expect.stringContaining('disk.whenDeleted cannot change once the VM has been placed'),
  };

  test('is told so, and refuses another word until that is taken out', async () => {
    await space.deploy('told', { disk });
    await space.untilReady('told');
    expect(await warnings('told')).toEqual([ofClass, ofDeletion]);
    await expect(patch('told', { disk: { whenDeleted: 'Delete' } })).rejects.toMatchObject(refusal);
    await patch('told', { suspendTo: 'Disk' });
    await expect.poll(() => warnings('told'), slow).toEqual([ofClass, ofDeletion, ofSuspension]);
    await patch('told', { disk: { whenDeleted: null }, suspendTo: 'Memory' });
    await expect.poll(() => warnings('told'), slow).toEqual([ofClass]);
    await space.remove('told');
  });

  test('is told so of what its config says, and refuses each change with the same words', async () => {
    const spec = { image: 'registry.example.com/debian:12', disk: { whenDeleted: 'Delete' } } as const;
    await world.client.create(vmConfigs, { metadata: { name: 'says', namespace: space.name }, spec });
    await space.deploy('inherits', { config: 'says', disk: { whenDeleted: 'Retain' } });
    await space.untilReady('inherits');
    expect(await warnings('inherits')).toEqual([ofDeletion]);
    for (const whenDeleted of ['Delete', null])
      await expect(patch('inherits', { disk: { whenDeleted } })).rejects.toMatchObject(refusal);
    await patch('inherits', { disk: { whenDeleted: 'Retain' }, systemSerial: 'A1' });
    await space.remove('inherits');
  });
});

describe('a VM with a config', { timeout: 180_000 }, () => {
  const said = {
    disk: { whenDeleted: 'Delete' },
    suspendTo: 'Disk',
    startDeadlineSeconds: 600,
  } as const;

  test('is placed with what it says over its config', async () => {
    const spec = { image: 'registry.example.com/debian:12', disk: persistent.disk };
    await world.client.create(vmConfigs, { metadata: { name: 'small', namespace: space.name }, spec });
    await space.deploy('configured', { config: 'small', ...said });
    await space.until('configured', 'Scheduled', { status: 'False', reason: 'Unschedulable' });
    await bindClaim(world.client, space.name, 'svc3-vm-configured');
    await expect
      .poll(async () => (await space.vm('configured')).status?.effective, slow)
      .toMatchObject({ ...said, disk: { ...persistent.disk, ...said.disk } });
  });

  test.each<[field: string, spec: object]>([
    ['disk.whenDeleted', { disk: { whenDeleted: null } }],
    ['disk.whenDeleted', { disk: null }],
    ['suspendTo', { suspendTo: null }],
    ['startDeadlineSeconds', { startDeadlineSeconds: null }],
  ])('refuses to unset %s, of which nobody knows any more what the config said: %j', async (field, spec) => {
    await expect(patch('configured', spec)).rejects.toMatchObject({
      reason: 'Invalid',
      message: expect.stringContaining(`spec.${field}: `),
    });
  });

  test('takes what it is advised to say instead', async () => {
    const spec = { disk: { whenDeleted: 'Retain' }, suspendTo: 'Memory', startDeadlineSeconds: 604_800 };
    expect((await patch('configured', spec)).spec).toMatchObject(spec);
    await space.remove('configured');
  });
});

describe('a VM with a Persistent disk', { timeout: 180_000 }, () => {
  const requests = async () => (await space.pod('kept'))?.spec.containers[0]?.resources?.requests;

  test('tells which changes wait for its next start, and goes on as it is', async () => {
    runner.forget();
    await space.deploy('kept', { ...persistent, nodeName: 'n1' });
    await space.until('kept', 'Scheduled', { status: 'False', reason: 'Unschedulable' });
    await bindClaim(world.client, space.name, 'svc3-vm-kept');
    await space.untilReady('kept');
    const before = await space.pod('kept');
    await patch('kept', {
      cpu: 2,
      memory: '512Mi',
      nodeName: 'n2',
      metadata: [{ name: 'role', value: 'web' }],
    });
    await space.until('kept', 'RestartRequired', {
      status: 'True',
      reason: 'SpecChanged',
      message: 'spec.cpu, spec.memory, spec.nodeName, spec.metadata apply when the guest is started next',
    });
    await expect.poll(() => space.events('kept'), slow).toContain('SpecChanged');
    expect((await space.pod('kept'))?.metadata.uid).toBe(before?.metadata.uid);
    expect((await space.vm('kept')).status).toMatchObject({
      node: 'n1',
      effective: { cpu: 1, memory: '256Mi' },
    });
    await space.untilReady('kept');
  });

  test('refuses to lose a setting that it has', async () => {
    await expect(patch('kept', { cpu: null })).rejects.toMatchObject({
      reason: 'Invalid',
      message: expect.stringContaining('spec.cpu: '),
    });
  });

  test('has them after a restart, in another pod with the same disk', async () => {
    const [before, memory] = [await space.pod('kept'), (await requests())?.['memory']];
    await patch('kept', { restartRequest: 'two' });
    await space.untilReplaced('kept', before);
    await expect.poll(async () => (await space.vm('kept')).status?.restartRequest, slow).toBe('two');
    await space.untilReady('kept');
    expect(await space.condition('kept', 'RestartRequired')).toEqual({});
    expect((await space.vm('kept')).status).toMatchObject({
      node: 'n2',
      effective: { cpu: 2, memory: '512Mi' },
    });
    expect((await requests())?.['memory']).not.toBe(memory);
    const claims = (await space.pod('kept'))?.spec.volumes?.flatMap(
      ({ persistentVolumeClaim: one }) => one ?? [],
    );
    expect(claims).toEqual([{ claimName: before?.metadata.name }]);
    expect(runner.verbs).toEqual([]);
  });

  test('has them, too, when it is stopped and started', async () => {
    await patch('kept', { powerState: 'Stopped' });
    await space.until('kept', 'Ready', { status: 'True', reason: 'Stopped' });
    const before = await space.pod('kept');
    await patch('kept', { tag: 'fast' });
    await space.until('kept', 'RestartRequired', { status: 'True' });
    await patch('kept', { powerState: 'Running' });
    runner.become({});
    await space.untilReplaced('kept', before);
    await space.untilReady('kept');
    expect((await space.vm('kept')).status?.effective?.tag).toBe('fast');
  });

  test('is started in another pod only when the image that is being made of its disk is in the store', async () => {
    const before = await space.pod('kept');
    const { uid } = (await space.vm('kept')).metadata;
    const saved = { name: 'saved', namespace: space.name };
    await world.client.create(images, {
      metadata: saved,
      spec: { source: { vm: { name: 'kept', mode: 'Save' } } },
    });
    const working = { type: 'Ready', status: 'Unknown', reason: 'Working', message: '' };
    const conditions = [{ ...working, lastTransitionTime: new Date().toISOString() }];
    await world.client.patch(
      images,
      saved,
      { type: 'merge', body: { status: { vmUid: uid, conditions } } },
      { subresource: 'status' },
    );
    await patch('kept', { tag: 'slow', restartRequest: 'while-saved' });
    await space.until('kept', 'Ready', {
      status: 'False',
      reason: 'Restarting',
      message: 'an image is being made of its disk: the guest is started after that',
    });
    expect(await space.pod('kept')).toMatchObject({ metadata: { uid: before?.metadata.uid } });
    expect((await space.pod('kept'))?.metadata.deletionTimestamp).toBeUndefined();
    await world.client.delete(images, saved);
    await space.untilReplaced('kept', before);
    await space.untilReady('kept');
    expect((await space.vm('kept')).status?.effective?.tag).toBe('slow');
  });

  test('keeps its pod for what a boot can change', async () => {
    const pod = await space.pod('kept');
    await patch('kept', { display: { width: 1024 }, restartRequest: 'three' });
    await expect
      .poll(async () => (await space.vm('kept')).status?.effective?.display, slow)
      .toEqual({ width: 1024 });
    expect((await space.pod('kept'))?.metadata.uid).toBe(pod?.metadata.uid);
  });

  test('has another medium after its next start, and none at once', async () => {
    const reference = `registry.example.com/installer@sha256:${'a'.repeat(64)}`;
    const medium = async () =>
      (await space.pod('kept'))?.spec.volumes?.flatMap(({ image }) => image?.reference ?? []).slice(1);
    const effective = async () => (await space.vm('kept')).status?.effective;
    const before = await space.pod('kept');
    await patch('kept', { iso: reference });
    await space.until('kept', 'RestartRequired', {
      message: 'spec.iso apply when the guest is started next',
    });
    expect(await medium()).toEqual([]);
    await patch('kept', { restartRequest: 'with-medium' });
    await space.untilReplaced('kept', before);
    await space.untilReady('kept');
    expect(await medium()).toEqual([reference]);
    await expect.poll(() => space.condition('kept', 'RestartRequired'), slow).toEqual({});
    expect(await effective()).toMatchObject({ iso: reference, isoName: reference });

    await patch('kept', { iso: '' });
    await expect.poll(effective, slow).not.toHaveProperty('iso');
    expect(await space.condition('kept', 'RestartRequired')).toEqual({});
    // What was taken out is another medium again.
    await patch('kept', { iso: reference });
    await space.until('kept', 'RestartRequired', { status: 'True' });
    await patch('kept', { iso: '' });
    await expect.poll(() => space.condition('kept', 'RestartRequired'), slow).toEqual({});
  });

  test('has another data disk and other neighbours after its next start', async () => {
    const claims = async () =>
      (await space.pod('kept'))?.spec.volumes?.flatMap(
        ({ persistentVolumeClaim: one }) => one?.claimName ?? [],
      );
    const before = await space.pod('kept');
    const term = { labelSelector: { matchLabels: { app: 'db' } }, topologyKey: 'kubernetes.io/hostname' };
    const affinity = { podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [term] } };
    await patch('kept', { disks: [{ name: 'logs', size: '1Gi', storageClassName: 'fast' }], affinity });
    await space.until('kept', 'RestartRequired', {
      message: 'spec.disks, spec.affinity apply when the guest is started next',
    });
    await patch('kept', { restartRequest: 'with-disk' });
    await space.until('kept', 'Scheduled', { status: 'False', reason: 'Unschedulable' });
    await bindClaim(world.client, space.name, 'svc3-vm-kept.logs');
    await space.untilReplaced('kept', before);
    await space.untilReady('kept');
    expect(await claims()).toEqual(['svc3-vm-kept', 'svc3-vm-kept.logs']);
    expect((await space.pod('kept'))?.spec.affinity).toMatchObject(affinity);
    await expect.poll(() => space.condition('kept', 'RestartRequired'), slow).toEqual({});

    // What becomes of it in the end is no matter of the pod; its claim never changes.
    await patch('kept', {
      disks: [{ name: 'logs', size: '1Gi', storageClassName: 'fast', whenDeleted: 'Delete' }],
    });
    expect(await space.condition('kept', 'RestartRequired')).toEqual({});
    for (const disk of [{ size: '512Mi', storageClassName: 'fast' }, { size: '1Gi' }, { claimName: 'other' }])
      await expect(patch('kept', { disks: [{ name: 'logs', ...disk }] })).rejects.toMatchObject({
        reason: 'Invalid',
        message: expect.stringContaining('spec.disks[0]'),
      });
  });

  test('waits for a medium that is not there, and says so', async () => {
    const before = await space.pod('kept');
    await patch('kept', { iso: 'rescue', restartRequest: 'with-rescue' });
    await space.until('kept', 'Scheduled', {
      status: 'False',
      reason: 'ImageNotFound',
      message: 'ISO rescue does not exist in namespace changes',
    });
    await patch('kept', { iso: '' });
    await space.untilReplaced('kept', before);
    await space.untilReady('kept');
    await space.remove('kept');
  });
});
