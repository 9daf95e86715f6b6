import { expect, test } from 'vitest';
import type { Pod } from '../../../../src/api/core.ts';
import { imageAnnotations } from '../../../../src/api/image.ts';
import type { Vm } from '../../../../src/api/vm.ts';
import type { Disk } from '../../../../src/controllers/image/caches.ts';
import { workerPodName, workId } from '../../../../src/controllers/image/names.ts';
import { observe } from '../../../../src/controllers/image/observe.ts';
import { WorkBackoff } from '../../../../src/controllers/image/workbackoff.ts';
import { aVm, aCondition, effective } from '../vm/builders.ts';
import { anImage } from './builders.ts';
import { storedMeta } from '../../../support/storedmeta.ts';

const now = Date.parse('2026-11-01T10:00:00Z');

interface World {
  disks?: Disk[];
  vms?: Vm[];
  pods?: Pod[];
  url?: string;
  backoff?: WorkBackoff;
}

function look(disk: Disk, { disks = [], vms = [], pods = [], url, backoff = new WorkBackoff() }: World = {}) {
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
    podsOf: () => pods,
  };
  const settings = { store: { url: url ?? 'https://store.example.com', prefix: 'svc3' } };
  return observe({ kind: 'Image', caches, settings, backoff } as never, disk, now);
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

test('a worker that failed is tried again after its backoff, which counts each pod once', () => {
  const disk = anImage({ remote: { reference: 'r.example.com/a:1' } });
  const backoff = new WorkBackoff();
  const failed = pod(workerPodName(workId(disk, 'create')), { phase: 'Failed' });
  const first = look(disk, { pods: [failed], backoff }).retryAt;
  expect(first).toBeGreaterThan(0);
  expect(look(disk, { pods: [failed], backoff }).retryAt).toBe(first);
});

test('the source of a copy counts while nobody deletes it', () => {
  const disk = anImage({ image: { name: 'base' } });
  const ready = { conditions: [aCondition('Ready')] };
  const base = (metadata = {}, status = ready) =>
    anImage({ blank: { size: '1G' } }, status, { name: 'base', ...metadata });
  expect(look(disk).copySource).toBeUndefined();
  expect(look(disk, { disks: [base()] }).copySource).toMatchObject({ isReady: true });
  const waiting = { conditions: [aCondition('Ready', { status: 'False' })] };
  expect(look(disk, { disks: [base({}, waiting)] }).copySource).toMatchObject({ isReady: false });
  const going = base({ deletionTimestamp: '2026-11-01T09:00:00Z' });
  expect(look(disk, { disks: [going] }).copySource).toBeUndefined();
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
  expect(look(disk, { vms: [aVm({ status: { runner } })] }).vmSource).toMatchObject({
    runner: { address: '10.0.0.1', fingerprint: 'f'.repeat(64) },
    architecture: 'amd64',
  });
});

test('who uses a disk is asked only while it is being deleted', () => {
  const reference = `store.example.com/svc3/team/disk@sha256:${'a'.repeat(64)}`;
  const user = aVm({ status: { effective: { ...effective, image: reference } } });
  const source = { blank: { size: '1G' } } as const;
  expect(look(anImage(source), { vms: [user] }).users).toBeUndefined();
  const going = anImage(source, undefined, { deletionTimestamp: '2026-11-01T09:00:00Z' });
  expect(look(going, { vms: [user] }).users).toBe('VM web');
});
