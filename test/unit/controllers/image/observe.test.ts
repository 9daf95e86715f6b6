import { describe, expect, test, vi } from 'vitest';
import type { Pod } from '../../../../src/api/core.ts';
import { imageAnnotations } from '../../../../src/api/image.ts';
import type { Vm } from '../../../../src/api/vm.ts';
import type { Disk } from '../../../../src/controllers/image/caches.ts';
import { decide } from '../../../../src/controllers/image/decide.ts';
import { workerPodName, workId } from '../../../../src/controllers/image/names.ts';
import { observe } from '../../../../src/controllers/image/observe.ts';
import { StartWaits } from '../../../../src/controllers/startwaits.ts';
import { WorkBackoff } from '../../../../src/controllers/image/workbackoff.ts';
import type { RegistryFailed } from '../../../../src/registry/transport.ts';
import { aVm, aCondition, effective } from '../vm/builders.ts';
import { anImage, digest } from './builders.ts';
import { storedMeta } from '../../../support/storedmeta.ts';

const now = Date.parse('2026-11-01T10:00:00Z');

interface World {
  disks?: Disk[];
  vms?: Vm[];
  pods?: Pod[];
  url?: string;
  backoff?: WorkBackoff;
  registryFailed?: RegistryFailed;
}

function look(
  disk: Disk,
  { disks = [], vms = [], pods = [], url, backoff = new WorkBackoff(), registryFailed }: World = {},
) {
  const named = <T extends { metadata?: { name?: string } }>(all: T[]) => ({
    get: (name: string) => all.find(({ metadata }) => metadata?.name === name),
    list: () => all,
    byIndex: () => [],
  });
  const caches = {
    disks: named(disks),
    vms: named(vms),
    vmConfigs: named([]),
    vmPools: named([]),
    claims: named([]),
    nodes: named([]),
    podsOf: () => pods,
  };
  const settings = { store: { url: url ?? 'https://store.example.com', prefix: 'svc3' } };
  const parts = {
    kind: 'Image',
    caches,
    settings,
    backoff,
    startWaits: new StartWaits(() => 0),
    registryFailed,
  };
  return observe(parts as never, disk, now);
}

const pod = (name: string, status: Pod['status'] = {}): Pod => ({
  metadata: storedMeta({ name, namespace: 'team', uid: `uid of ${name}` }),
  spec: { containers: [] },
  status,
});

test('a disk has its repository path in the store, and none where there is no store', () => {
  const disk = anImage({ blank: { size: '1G' } });
  expect(look(disk).path).toEqual({ registry: 'store.example.com', repository: 'svc3/team/disk' });
  expect(look(disk, { url: '' }).path).toBeUndefined();
});

test('the worker pod of the request is told from those of requests before', () => {
  const disk = anImage({ remote: { reference: 'r.example.com/a:1' } });
  const own = pod(workerPodName(workId(disk, 'create')));
  expect(look(disk)).toMatchObject({ hasPods: false, hasOldPods: false, worker: undefined });
  expect(look(disk, { pods: [own] })).toMatchObject({ hasPods: true, hasOldPods: false });
  expect(look(disk, { pods: [own] }).worker).toBeDefined();
  expect(look(disk, { pods: [own, pod('svc3-worker-before')] })).toMatchObject({ hasOldPods: true });
});

test('an upload that has not come yet has no request, and so no worker', () => {
  const disk = anImage({ upload: {} });
  expect(look(disk, { pods: [pod('svc3-worker-before')] })).toMatchObject({
    request: undefined,
    worker: undefined,
    hasOldPods: true,
    retryAt: 0,
  });
  const came = anImage({ upload: {} }, undefined, {
    annotations: { [imageAnnotations.upload]: `sha256:${'b'.repeat(64)}` },
  });
  expect(look(came).request).toBe('b'.repeat(64));
});

test('an upload that lost its annotation once it was stored is done, and waits for no other', () => {
  const stored = anImage({ upload: {} }, { digest, request: 'b'.repeat(64) });
  expect(look(stored).request).toBe('b'.repeat(64));
  expect(decide(look(stored))).toEqual({ kind: 'stored', cleanUp: false });
});

test('a worker that failed is tried again after its backoff, which counts each pod once', () => {
  const disk = anImage({ remote: { reference: 'r.example.com/a:1' } });
  const backoff = new WorkBackoff();
  const failed = pod(workerPodName(workId(disk, 'create')), { phase: 'Failed' });
  const first = look(disk, { pods: [failed], backoff }).retryAt;
  expect(first).toBeGreaterThan(0);
  expect(look(disk, { pods: [failed], backoff }).retryAt).toBe(first);
});

test('the registry that a worker failed with is told of once, however often its pod is seen', () => {
  const disk = anImage({ remote: { reference: 'r.example.com/a:1' } });
  const world = { backoff: new WorkBackoff(), registryFailed: vi.fn() };
  const failed = (uid: string, failedRequest?: object): Pod => {
    const result = { result: 'Failed', reason: 'RegistryDenied', message: 'no', failedRequest };
    const state = { terminated: { exitCode: 1, message: JSON.stringify(result) } };
    const container = { name: 'worker', ready: false, restartCount: 0, image: '', imageID: '', state };
    const one = pod(workerPodName(workId(disk, 'create')), {
      phase: 'Failed',
      containerStatuses: [container],
    });
    return { ...one, metadata: { ...one.metadata, uid } };
  };
  const told = () => world.registryFailed.mock.calls;
  const denied = failed('one', { registry: 'r.example.com', reason: 'Forbidden' });
  for (let pass = 0; pass < 3; pass += 1) look(disk, { ...world, pods: [denied] });
  expect(told()).toEqual([['r.example.com', 'Forbidden']]);
  look(disk, { ...world, pods: [failed('two')] });
  expect(told()).toHaveLength(1);
  look(disk, { ...world, pods: [failed('three', { registry: 'r.example.com', reason: 'Unreachable' })] });
  expect(told().slice(1)).toEqual([['r.example.com', 'Unreachable']]);
});

describe('the source of a copy', () => {
  const asked = '2026-11-01T09:00:00Z';
  const disk = anImage({ image: { name: 'base' } }, undefined, { creationTimestamp: asked });
  const ready = { digest: 'sha256:1', conditions: [aCondition('Ready')] };
  const base = (metadata = {}, status: Disk['status'] = ready) =>
    anImage({ blank: { size: '1G' } }, status, { name: 'base', ...metadata });
  const inUse = {
    digest: 'sha256:1',
    conditions: [aCondition('Ready', { status: 'False', reason: 'InUse' })],
  };
  const waiting = { conditions: [aCondition('Ready', { status: 'False' })] };
  const deleted = (deletionTimestamp: string) => ({ deletionTimestamp });

  test('may not be there', () => {
    expect(look(disk).copySource).toBeUndefined();
  });

  test.each<[what: string, source: Disk, state: string]>([
    ['is ready', base(), 'Ready'],
    ['is not ready yet', base({}, waiting), 'NotReady'],
    [
      'waits for the copy that was asked for before its deletion',
      base(deleted('2026-11-01T09:00:01Z'), inUse),
      'Ready',
    ],
    ['waits for one that was asked for in the same second', base(deleted(asked), inUse), 'Ready'],
    ['waits for none that was asked for afterwards', base(deleted('2026-11-01T08:59:59Z'), inUse), 'Leaving'],
    [
      'that is being deleted will never have anything',
      base(deleted('2026-11-01T09:00:01Z'), waiting),
      'Leaving',
    ],
  ])('%s', (_what, source, state) => {
    expect(look(disk, { disks: [source] }).copySource).toMatchObject({ state });
  });
});

test('the VM whose disk is saved is known with its runner from the moment that it has one', () => {
  const disk = anImage({ vm: { name: 'web', mode: 'Save' } });
  const arm = { ...effective, architecture: 'arm64' as const };
  expect(look(disk).vmSource).toBeUndefined();
  expect(look(disk, { vms: [aVm({ status: { effective: arm } })] }).vmSource).toMatchObject({
    uid: 'vm-uid',
    runner: undefined,
    architecture: 'arm64',
  });
  const runner = { address: '10.0.0.1', fingerprint: 'f'.repeat(64), podUid: 'p', version: '1' };
  expect(look(disk, { vms: [aVm({ status: { runner, podName: 'vm-web' } })] }).vmSource).toMatchObject({
    podName: 'vm-web',
    runner: { address: '10.0.0.1', fingerprint: 'f'.repeat(64) },
    architecture: 'amd64',
  });
});

test('the pod that a disk goes with is known once the guest has run, unless the disk is on a claim', () => {
  const disk = anImage({ vm: { name: 'web', mode: 'Save' } });
  const status = {
    effective,
    powerState: 'Stopped',
    runner: { podUid: 'p', address: '10.0.0.1' },
  } as const;
  const podUid = (more: Vm['status']) =>
    look(disk, { vms: [aVm({ status: { ...status, ...more } })] }).vmSource?.podUid;
  expect(podUid({})).toBe('p');
  expect(podUid({ effective: { ...effective, disk: { storage: 'Ephemeral' } } })).toBe('p');
  expect(podUid({ effective: { ...effective, disk: { storage: 'Persistent' } } })).toBeUndefined();
  const { powerState: _powerState, ...booting } = status;
  expect(look(disk, { vms: [aVm({ status: booting })] }).vmSource?.podUid).toBeUndefined();
});

test('who uses a disk is asked only while it is being deleted', () => {
  const reference = `store.example.com/svc3/team/disk@sha256:${'a'.repeat(64)}`;
  const user = aVm({ status: { effective: { ...effective, image: reference } } });
  const source = { blank: { size: '1G' } } as const;
  expect(look(anImage(source), { vms: [user] }).users).toBeUndefined();
  const going = anImage(source, undefined, { deletionTimestamp: '2026-11-01T09:00:00Z' });
  expect(look(going, { vms: [user] }).users).toBe('VM web');
});

test('copies that are not done use a disk that is being deleted, but not one that has no object any more', () => {
  const stored = { digest: 'sha256:1' };
  const at = '2026-11-01T09:00:00Z';
  const going = anImage({ blank: { size: '1G' } }, stored, { deletionTimestamp: at });
  const copy = anImage({ image: { name: 'disk' } }, undefined, {
    name: 'mine',
    uid: 'uid-2',
    creationTimestamp: at,
  });
  expect(look(going, { disks: [going, copy] }).users).toBe('Image mine');
  expect(look(going, { disks: [copy] }).users).toBeUndefined();
});
