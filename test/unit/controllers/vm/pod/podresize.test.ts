import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { Pod } from '../../../../../src/api/core.ts';
import type { EffectiveSettings } from '../../../../../src/api/vm.ts';
import {
  bootableSettings,
  fieldsWithoutRoom,
  PodResize,
  roomPollMs,
} from '../../../../../src/controllers/vm/pod/podresize.ts';
import type { Resolved } from '../../../../../src/controllers/vm/resolve/resolve.ts';
import { Svc3Error } from '../../../../../src/errors.ts';
import { Inventory } from '../../../../../src/placement/inventory.ts';
import { nodeFacts } from '../../../../../src/placement/nodefacts.ts';
import { podFacts } from '../../../../../src/placement/podfacts.ts';
import { vmSettings } from '../../../../support/operator.ts';
import { aPod, aVm, effective, runningStatus } from '../builders.ts';

const Gi = 2 ** 30;
const settings = vmSettings({ cpuOvercommit: 1 });
const vm = aVm();
const patch = vi.fn();
let now = 0;
let inventory: Inventory;
let resize: PodResize;

const free = () => inventory.node('n1')?.free.slice(0, 2) ?? [];

beforeEach(() => {
  patch.mockReset();
  now = 0;
  inventory = new Inventory(settings.portRanges);
  const allocatable = { cpu: '8', memory: '16Gi', pods: '110', 'ephemeral-storage': '100Gi' };
  const conditions = [{ type: 'Ready', status: 'True' as const }];
  inventory.setNode(nodeFacts({ metadata: { name: 'n1' }, status: { allocatable, conditions } } as never));
  resize = new PodResize({ client: { patch } as never, inventory, settings, now: () => now });
});

/** The pod on its node; `requests` of its runner where somebody has resized it. */
function running(requests?: Record<string, string>, actual = requests): Pod {
  const pod = aPod({ nodeName: 'n1', metadata: { generation: requests === undefined ? 1 : 2 } });
  const [container] = pod.spec.containers;
  const resources = { ...container?.resources, ...(requests === undefined ? {} : { requests }) };
  const status = runningStatus(true);
  const [runner] = status.containerStatuses ?? [];
  const reported = { requests: actual ?? resources.requests ?? {} };
  const found = {
    ...pod,
    spec: { ...pod.spec, containers: [{ ...container, resources }] },
    status: { ...status, containerStatuses: [{ ...runner, resources: reported }] },
  } as Pod;
  const facts = podFacts(found, 'vm-uid');
  if (facts !== undefined) inventory.setPod(facts);
  return found;
}

/** What waits: settings that a boot would have. */
const waits = (given: Partial<EffectiveSettings>): Resolved => ({
  kind: 'resolved',
  effective,
  warnings: [],
  waiting: Object.keys(given),
  atBoot: { ...effective, ...given },
});
const large = { cpu: 4, memory: '8Gi' };
/** With what QEMU and the runner need beside the guest's. */
const largeRequests = { cpu: '4', memory: '8682Mi' };

describe('the room in a pod', () => {
  test('is enough where nothing waits, and nothing is written', async () => {
    expect(await resize.provide(vm, running(), { kind: 'resolved', effective, warnings: [] })).toEqual({
      kind: 'enough',
    });
    expect(await resize.provide(vm, running(), waits({ systemSerial: 'A' }))).toEqual({ kind: 'enough' });
    expect(patch).not.toHaveBeenCalled();
  });

  test('is not looked for before the pod is on a node', async () => {
    const pod = running();
    const { nodeName: _node, ...spec } = pod.spec;
    expect(await resize.provide(vm, { ...pod, spec }, waits(large))).toEqual({ kind: 'enough' });
    expect(patch).not.toHaveBeenCalled();
  });

  test('is left alone where another version would have made the pod larger', async () => {
    const made = running({ cpu: '1', memory: '100Mi' });
    const pod = { ...made, metadata: { ...made.metadata, generation: 1 } };
    await resize.provide(vm, pod, { kind: 'resolved', effective, warnings: [] });
    expect(patch).not.toHaveBeenCalled();
  });

  test('is asked for once, and counts on the node before the pod shows it', async () => {
    const pod = running();
    const [cpu = 0, memory = 0] = free();
    expect(await resize.provide(vm, pod, waits(large))).toEqual({ kind: 'underway' });
    expect(await resize.provide(vm, pod, waits(large))).toEqual({ kind: 'underway' });
    expect(patch.mock.calls).toHaveLength(1);
    const [, key, { body }, options] = patch.mock.calls[0] ?? [];
    expect([key.name, options]).toEqual(['svc3-vm-web', { subresource: 'resize' }]);
    expect(body.spec.containers).toEqual([
      {
        name: 'runner',
        resources: { requests: { cpu: '4000m', memory: '8682Mi' }, limits: { memory: '8682Mi' } },
      },
    ]);
    expect(cpu - (free()[0] ?? 0)).toBe(3_000);
    expect(memory - (free()[1] ?? 0)).toBeGreaterThan(7.5 * Gi);
  });

  test('is there when the container has it, and counts once', async () => {
    await resize.provide(vm, running(), waits(large));
    const before = free();
    expect(
      await resize.provide(vm, running(largeRequests, { cpu: '1', memory: '1Gi' }), waits(large)),
    ).toEqual({
      kind: 'underway',
    });
    expect(await resize.provide(vm, running(largeRequests), waits(large))).toEqual({ kind: 'enough' });
    expect(free()).toEqual(before);
  });

  test('is asked for again when the pod does not show it after a minute', async () => {
    const pod = running();
    await resize.provide(vm, pod, waits(large));
    now = 59_999;
    await resize.provide(vm, pod, waits(large));
    expect(patch).toHaveBeenCalledTimes(1);
    now = 60_000;
    await resize.provide(vm, pod, waits(large));
    expect(patch).toHaveBeenCalledTimes(2);
  });

  test('that the node lacks is not asked for, and looked for again after a minute', async () => {
    const pod = running();
    const huge = { cpu: 9, memory: '64Gi' };
    const refused = {
      kind: 'refused',
      message: 'node n1 has no room: Insufficient cpu, Insufficient memory',
    };
    expect(await resize.provide(vm, pod, waits(huge))).toEqual(refused);
    const allocatable = { cpu: '80', memory: '160Gi', pods: '110', 'ephemeral-storage': '100Gi' };
    const conditions = [{ type: 'Ready', status: 'True' as const }];
    inventory.setNode(nodeFacts({ metadata: { name: 'n1' }, status: { allocatable, conditions } } as never));
    expect(await resize.provide(vm, pod, waits(huge))).toEqual(refused);
    expect(patch).not.toHaveBeenCalled();
    now = 60_000;
    expect(await resize.provide(vm, pod, waits(huge))).toEqual({ kind: 'underway' });
  });

  test('that is refused counts for nobody', async () => {
    const pod = running();
    const before = free();
    patch.mockRejectedValueOnce(new Svc3Error('Forbidden', 'exceeded quota'));
    expect(await resize.provide(vm, pod, waits(large))).toEqual({
      kind: 'refused',
      message: 'exceeded quota',
    });
    expect(free()).toEqual(before);
    expect(await resize.provide(vm, pod, waits({ cpu: 2 }))).toEqual({ kind: 'underway' });
  });

  test('is refused also by a webhook that fails', async () => {
    const message = 'failed calling webhook "policy": no answer';
    patch.mockRejectedValueOnce(new Svc3Error('InternalError', message));
    expect(await resize.provide(vm, running(), waits(large))).toEqual({ kind: 'refused', message });
  });

  test('that the node can never give stays refused where it may not be taken back either', async () => {
    const pod = running(largeRequests);
    const message = 'node has no such capacity';
    const conditions = [{ type: 'PodResizePending', status: 'True', reason: 'Infeasible', message }];
    const infeasible = { ...pod, status: { ...pod.status, conditions } } as Pod;
    const refused = { kind: 'refused', message };
    expect(await resize.provide(vm, infeasible, waits(large))).toEqual(refused);
    patch.mockRejectedValue(new Svc3Error('Forbidden', 'a policy denies it'));
    expect(await resize.provide(vm, infeasible, waits(large))).toEqual(refused);
    expect(patch).toHaveBeenCalledOnce();
    patch.mockRejectedValue(new Svc3Error('ServiceUnavailable', 'no leader'));
    await expect(resize.provide(vm, infeasible, waits(large))).rejects.toThrow('no leader');
  });

  test('is asked for again at once after a failure that is no refusal', async () => {
    const pod = running();
    patch.mockRejectedValueOnce(new Svc3Error('ServiceUnavailable', 'no leader'));
    await expect(resize.provide(vm, pod, waits(large))).rejects.toThrow('no leader');
    expect(await resize.provide(vm, pod, waits(large))).toEqual({ kind: 'underway' });
  });

  test('of another pod of the VM is asked for anew', async () => {
    const pod = running();
    await resize.provide(vm, pod, waits(large));
    const next = { ...pod, metadata: { ...pod.metadata, uid: 'another' } };
    await resize.provide(vm, next, waits(large));
    expect(patch).toHaveBeenCalledTimes(2);
  });

  test('that a smaller guest does not need is given back, and forgotten with the VM', async () => {
    await resize.provide(vm, running(largeRequests), { kind: 'resolved', effective, warnings: [] });
    expect(patch.mock.calls[0]?.[2].body.spec.containers[0].resources.requests).toEqual({
      cpu: '1000m',
      memory: '715Mi',
    });
    await resize.provide(vm, running(), waits(large));
    const assumed = free();
    await resize.provide(vm, running(), waits({ systemSerial: 'A' }));
    expect(free()[0]).toBeGreaterThan(assumed[0] ?? 0);
    await resize.provide(vm, running(), waits(large));
    resize.forget('vm-uid');
    expect(free()[0]).toBeGreaterThan(assumed[0] ?? 0);
  });
});

const aLargeScreen = { display: { width: 3840, height: 2160 } };
const asked = (): string => patch.mock.calls[0]?.[2].body.spec.containers[0].resources.requests.memory;

describe('the room for a larger screen', () => {
  test.each([
    ['an Ephemeral', effective],
    ['a Persistent', { ...effective, disk: { storage: 'Persistent' as const } }],
  ])('is asked for in the pod of %s VM, and no smaller one needs any', async (_which, inForce) => {
    const screen = (display: EffectiveSettings['display']) => ({
      ...waits({}),
      effective: inForce,
      waiting: ['display'],
      atBoot: { ...inForce, display },
    });
    expect(await resize.provide(vm, running(), screen({ width: 1920, height: 1080 }))).toEqual({
      kind: 'enough',
    });
    expect(patch).not.toHaveBeenCalled();
    expect(await resize.provide(vm, running(), screen(aLargeScreen.display))).toEqual({ kind: 'underway' });
    expect(asked()).toBe('763Mi');
  });

  test('stays while the guest has that screen, and is given back with it', async () => {
    const withScreen = { cpu: '1000m', memory: '763Mi' };
    const inForce = { ...effective, ...aLargeScreen };
    await resize.provide(vm, running(withScreen), { kind: 'resolved', effective: inForce, warnings: [] });
    expect(patch).not.toHaveBeenCalled();
    await resize.provide(vm, running(withScreen), { kind: 'resolved', effective, warnings: [] });
    expect(asked()).toBe('715Mi');
  });

  test('is not asked for in a pod that another replaces at that start', async () => {
    const persistent = { ...effective, disk: { storage: 'Persistent' as const } };
    const resolved = {
      ...waits({}),
      effective: persistent,
      waiting: ['cpu', 'display'],
      atBoot: { ...persistent, ...aLargeScreen },
    };
    expect(await resize.provide(vm, running(), resolved)).toEqual({ kind: 'enough' });
    expect(patch).not.toHaveBeenCalled();
  });
});

describe('what a boot has', () => {
  const { atBoot } = waits({ ...large, systemSerial: 'A' });
  const given = { effective, ...(atBoot === undefined ? {} : { atBoot }) };

  test('is everything with room, and all but the size without', () => {
    expect(bootableSettings(given, { kind: 'enough' })).toMatchObject({ ...large, systemSerial: 'A' });
    const refused = { kind: 'refused', message: '' } as const;
    expect(bootableSettings(given, refused)).toEqual({ ...effective, systemSerial: 'A' });
    expect(bootableSettings({ effective, atBoot: { ...effective, ...large } }, refused)).toBeUndefined();
    expect(bootableSettings({ effective }, refused)).toBeUndefined();
  });

  test('is the smaller screen where there is no room for the larger, which is told like a size', () => {
    const refused = { kind: 'refused', message: '' } as const;
    const small = { display: { width: 800, height: 600 } };
    const larger = waits({ ...aLargeScreen, systemSerial: 'A' });
    expect(bootableSettings(larger, { kind: 'enough' })).toMatchObject(aLargeScreen);
    expect(bootableSettings(larger, refused)).toEqual({ ...effective, systemSerial: 'A' });
    expect(bootableSettings({ ...larger, effective: { ...effective, ...small } }, refused)).toMatchObject(
      small,
    );
    expect(fieldsWithoutRoom(larger)).toEqual(['display']);
    expect(bootableSettings(waits({ ...small, cpu: 4 }), refused)).toEqual({ ...effective, ...small });
    expect(fieldsWithoutRoom(waits({ ...small, cpu: 4 }))).toEqual(['cpu']);
  });

  test('is looked at again only while there is no room', () => {
    const kinds = [{ kind: 'enough' }, { kind: 'underway' }, { kind: 'refused', message: '' }] as const;
    expect(kinds.map(roomPollMs)).toEqual([undefined, 2_000, 60_000]);
  });
});
