import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import type { PersistentVolumeClaim, Pod, Secret } from '../../../../src/api/core.ts';
import type { Image, ImageStatus } from '../../../../src/api/image.ts';
import type { KubeObject } from '../../../../src/api/object.ts';
import {
  images,
  persistentVolumeClaims,
  pods,
  secrets,
  vmConfigs,
  vmPools,
  vms,
} from '../../../../src/api/resources.ts';
import type { Vm } from '../../../../src/api/vm.ts';
import type { VmPool } from '../../../../src/api/vmpool.ts';
import type { Controller } from '../../../../src/controller/controller.ts';
import { createImageControllers } from '../../../../src/controllers/image/controller.ts';
import type { Change } from '../../../../src/kube/types.ts';
import { storedMeta } from '../../../support/storedmeta.ts';
import { FakeInformers } from '../fakeinformers.ts';
import { aCondition, aVm, effective } from '../vm/builders.ts';
import { anImage, digest } from './builders.ts';

let informers: FakeInformers;
let controller: Controller;
/** Images that a pass was made over. */
let woken: Set<string>;

const deleted = { deletionTimestamp: '2026-11-01T10:00:00Z' };
const done: ImageStatus = { digest, observedGeneration: 1 };
const named = (
  name: string,
  source: Image['spec']['source'],
  status?: ImageStatus,
  metadata: Partial<Image['metadata']> = {},
) => anImage(source, status, { name, uid: name, ...metadata });

const disks = {
  base: named('base', { blank: { size: '1G' } }, done),
  copy: named('copy', { image: { name: 'base' } }),
  copied: named('copied', { image: { name: 'base' } }, done),
  going: named('going', { blank: { size: '1G' } }, done, deleted),
  lateCopy: named('late-copy', { image: { name: 'going' } }),
  pulled: named('pulled', { remote: { reference: 'r.example.com/a:1' } }),
  awaited: named('awaited', { upload: {} }),
  save: named('save', { vm: { name: 'web', mode: 'Save' } }),
  saved: named('saved', { vm: { name: 'web', mode: 'Save' } }, done),
  changed: named('changed', { vm: { name: 'web', mode: 'Save' } }, done, { generation: 2 }),
  otherSave: named('other-save', { vm: { name: 'db', mode: 'Save' } }),
  elsewhere: named('elsewhere', { vm: { name: 'web', mode: 'Save' } }, undefined, { namespace: 'other' }),
  goingElsewhere: named('going', { blank: { size: '1G' } }, done, { ...deleted, namespace: 'other' }),
};

beforeEach(() => {
  informers = new FakeInformers();
  const nothing = () => undefined;
  [controller] = createImageControllers({
    informers: informers.asInformers(),
    gate: { isHeld: () => true, assertHeld: nothing },
    metrics: {
      controllers: { workqueue: nothing, queued: nothing, worked: nothing, reconciled: nothing },
    },
    settings: { store: { url: '', prefix: '' } },
  } as unknown as Parameters<typeof createImageControllers>[0]) as [Controller];
  const stopping = new AbortController();
  const run = controller.run(stopping.signal);
  onTestFinished(async () => {
    stopping.abort();
    await run;
  });
  woken = new Set();
  const cache = informers.of(images);
  cache.objects = Object.values(disks);
  // A pass asks for the one that it is about, finds none and has nothing to do.
  cache.get = (name, namespace) => {
    woken.add(`${namespace}/${name}`);
    return undefined;
  };
});

/** Which Images a change has looked at, without the namespace where that is `team`. */
async function wokenBy(happens: () => void): Promise<string[]> {
  happens();
  await expect.poll(() => controller.pending()).toBe(0);
  return [...woken].map((key) => key.replace(/^team\//, '')).toSorted();
}

const updated = <T extends KubeObject>(object: T, old = object): Change<T> => ({
  kind: 'updated',
  object,
  old,
});

describe('a change of an Image has looked at', () => {
  test.each<[what: string, disk: Image, expected: string[]]>([
    ['it, and the copies that wait for it', disks.base, ['base', 'copy']],
    ['it, and what it is a copy of where that waits to be deleted', disks.lateCopy, ['going', 'late-copy']],
    ['it, and not what it is a copy of', disks.copied, ['copied']],
    ['it alone', disks.pulled, ['pulled']],
  ])('%s', async (_what, disk, expected) => {
    expect(await wokenBy(() => informers.of(images).tell(updated(disk)))).toEqual(expected);
  });
});

describe('a change of a pod has looked at', () => {
  const owned = (kind: string, controls = true): Pod => ({
    metadata: storedMeta({
      name: 'w',
      namespace: 'team',
      ownerReferences: [
        { apiVersion: 'svc3.dev/v1', kind, name: 'pulled', uid: 'pulled', controller: controls },
      ],
    }),
    spec: { containers: [] },
  });

  test.each<[what: string, pod: Pod, expected: string[]]>([
    ['the Image whose worker it is', owned('Image'), ['pulled']],
    ['no Image where it is the worker of an ISO', owned('ISO'), []],
    ['no Image that does not control it', owned('Image', false), []],
  ])('%s', async (_what, pod, expected) => {
    expect(await wokenBy(() => informers.of(pods).tell(updated(pod)))).toEqual(expected);
  });
});

describe('a change of a VM has looked at', () => {
  const placed = aVm({ status: { effective } });
  const saved = ['changed', 'save'];
  const said = (message: string) =>
    aVm({ status: { effective, conditions: [aCondition('Ready', { message })] } });

  test('what is saved of it', async () => {
    const change = updated(said('6 s ago'), said('1 s ago'));
    expect(await wokenBy(() => informers.of(vms).tell(change))).toEqual(saved);
  });

  test.each<[what: string, change: Change<Vm>]>([
    ['is new', { kind: 'added', object: placed }],
    ['is gone', { kind: 'deleted', object: placed }],
    [
      'runs from another disk',
      updated(aVm({ status: { effective: { ...effective, image: 'a/b' } } }), placed),
    ],
    ['is placed', updated(placed, aVm())],
    ['names another medium', updated(aVm({ spec: { iso: 'setup' } }), aVm())],
  ])('what is saved of it, and what waits until nobody uses it, where it %s', async (_what, change) => {
    expect(await wokenBy(() => informers.of(vms).tell(change))).toEqual(['changed', 'going', 'save']);
  });

  describe('of another namespace than its VMConfig', () => {
    const vm = aVm({ spec: { config: 'small', configNamespace: 'other' } });

    test('what is being deleted there, where it uses other disks', async () => {
      const change = updated({ ...vm, status: { effective } }, vm);
      const expected = ['changed', 'going', 'other/going', 'save'];
      expect(await wokenBy(() => informers.of(vms).tell(change))).toEqual(expected);
    });

    test('what is being deleted where its VMConfig was, where another VM has its name', async () => {
      const expected = ['changed', 'going', 'other/going', 'save'];
      expect(await wokenBy(() => informers.of(vms).tell(updated(aVm(), vm)))).toEqual(expected);
    });

    test('nothing there, where it uses the same', async () => {
      expect(await wokenBy(() => informers.of(vms).tell(updated(vm)))).toEqual(saved);
    });
  });
});

describe('a change of what names Images has looked at', () => {
  const config = (generation: number) => ({
    metadata: storedMeta({ name: 'c', namespace: 'team', generation }),
  });
  const pool = (generation: number, image?: string) =>
    ({
      metadata: storedMeta({ name: 'p', namespace: 'team', generation }),
      ...(image === undefined ? {} : { status: { images: [image] } }),
    }) as unknown as VmPool;

  test.each<[what: string, happens: () => void, expected: string[]]>([
    [
      'what is being deleted, where a VMConfig says something else',
      () => informers.of(vmConfigs).tell(updated(config(2), config(1)) as never),
      ['going'],
    ],
    [
      'what is being deleted, where a VMConfig goes',
      () => informers.of(vmConfigs).tell({ kind: 'deleted', object: config(1) } as never),
      ['going'],
    ],
    [
      'nothing, where a VMConfig says the same',
      () => informers.of(vmConfigs).tell(updated(config(1)) as never),
      [],
    ],
    [
      'what is being deleted, where a VMPool says something else',
      () => informers.of(vmPools).tell(updated(pool(2, 'a'), pool(1, 'a'))),
      ['going'],
    ],
    [
      'what is being deleted, where the guests of a VMPool are made of other images',
      () => informers.of(vmPools).tell(updated(pool(1, 'b'), pool(1, 'a'))),
      ['going'],
    ],
    [
      'what is being deleted, where a VMPool goes',
      () => informers.of(vmPools).tell({ kind: 'deleted', object: pool(1, 'a') }),
      ['going'],
    ],
    [
      'nothing, where a VMPool and its images are as before',
      () => informers.of(vmPools).tell(updated(pool(1, 'a'), pool(1, 'a'))),
      [],
    ],
  ])('%s', async (_what, happens, expected) => {
    expect(await wokenBy(happens)).toEqual(expected);
  });
});

describe('a change of a claim has looked at', () => {
  const claim = (image?: string, more: object = {}): PersistentVolumeClaim => ({
    metadata: storedMeta({
      name: 'svc3-vm-db',
      namespace: 'team',
      annotations: image === undefined ? {} : { 'svc3.dev/disk-image': image },
      ...more,
    }),
  });
  const made = claim('r/a');

  test.each<[what: string, change: Change<PersistentVolumeClaim>, expected: string[]]>([
    ['what is being deleted, where it goes', { kind: 'deleted', object: made }, ['going']],
    ['the same where its deletion is asked for', updated(claim('r/a', deleted), made), ['going']],
    ['the same where its disk is said to be made on another image', updated(claim('r/b'), made), ['going']],
    ['nothing where all that is as before', updated(made), []],
    ['nothing where it is new', { kind: 'added', object: made }, []],
    ['nothing where a claim goes that has no image', { kind: 'deleted', object: claim() }, []],
  ])('%s', async (_what, change, expected) => {
    expect(await wokenBy(() => informers.of(persistentVolumeClaims).tell(change))).toEqual(expected);
  });
});

test('another login for registries has looked at what is not done and does not wait for an upload', async () => {
  const secret: Secret = { metadata: storedMeta({ name: 'svc3-registry-credentials', namespace: 'team' }) };
  const expected = ['changed', 'copy', 'late-copy', 'other-save', 'pulled', 'save'];
  expect(await wokenBy(() => informers.of(secrets).tell(updated(secret)))).toEqual(expected);
});
