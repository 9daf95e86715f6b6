import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import type { Pod } from '../../../../src/api/core.ts';
import type { Image, ImageStatus, Iso } from '../../../../src/api/image.ts';
import { images, isos, vmConfigs, vmPools, vms } from '../../../../src/api/resources.ts';
import type { Vm } from '../../../../src/api/vm.ts';
import type { Controller } from '../../../../src/controller/controller.ts';
import { createVmController } from '../../../../src/controllers/vm/controller.ts';
import { Svc3Error } from '../../../../src/errors.ts';
import type { Change } from '../../../../src/kube/types.ts';
import { vmSettings } from '../../../support/operator.ts';
import { FakeInformers } from '../fakeinformers.ts';
import { anImage, condition, digest } from '../image/builders.ts';
import { aConfig } from '../vmconfig/builders.ts';
import { aPool } from '../vmpool/builders.ts';
import { aCondition, aVm } from './builders.ts';

let informers: FakeInformers;
let controller: Controller;
const create = vi.fn<(resource: unknown, pod: Pod) => Promise<Pod>>();

beforeEach(() => {
  // Time stands still: no backoff ends by itself.
  vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout', 'Date'] });
  create.mockReset();
  create.mockRejectedValue(new Svc3Error('Forbidden', 'exceeded quota: pods'));
  informers = new FakeInformers();
  const nothing = () => undefined;
  controller = createVmController(
    {
      informers: informers.asInformers(),
      client: { create, apply: async (_: unknown, object: unknown) => object },
      recorder: { event: nothing },
      log: { debug: nothing, info: nothing, warn: nothing, error: nothing },
      gate: { isHeld: () => true, assertHeld: nothing },
      metrics: {
        controllers: { workqueue: nothing, queued: nothing, worked: nothing, reconciled: nothing },
      },
      // Without a node, too, a pod is asked for.
      settings: vmSettings({ whenFull: 'Pod' }),
    } as unknown as Parameters<typeof createVmController>[0],
    { controlKeys: () => 'key' },
  );
  const stopping = new AbortController();
  const run = controller.run(stopping.signal);
  onTestFinished(async () => {
    stopping.abort();
    await run;
  });
});
afterEach(() => void vi.useRealTimers());

const reference = (of: string) => `store.example.com/team/golden@${of}`;
const stored: ImageStatus = {
  digest,
  reference: reference(digest),
  size: '1G',
  architecture: 'amd64',
  conditions: [condition('Ready', 'True', 'Stored')],
};
const working = (progress: number, message = 'pulling'): ImageStatus => ({
  progress,
  conditions: [{ ...condition('Ready', 'False', 'Working'), message }],
});
const golden = (status: ImageStatus | undefined, metadata: Partial<Image['metadata']> = {}): Image =>
  anImage({ blank: { size: '1G' } }, status, { name: 'golden', uid: 'golden', ...metadata });
const updated = <T extends Image | Iso>(old: T, object: T): Change<T> => ({ kind: 'updated', old, object });

/** It has the finalizer and waits for a pod that its namespace's quota refuses. */
const refused = (name: string, spec: Partial<Vm['spec']> = { image: 'golden' }, namespace = 'team'): Vm => {
  const vm = aVm({
    metadata: { ...aVm().metadata, name, namespace, uid: name, finalizers: ['svc3.dev/cleanup'] },
    status: { conditions: [aCondition('Scheduled', { status: 'False', reason: 'PodRefused' })] },
  });
  const { image: _image, ...others } = vm.spec;
  return { ...vm, spec: { ...others, ...spec } };
};

describe('VMs without a pod', () => {
  let woken: Set<string>;

  beforeEach(() => {
    woken = new Set();
    const cache = informers.of(vms);
    const running = refused('running');
    cache.objects = [
      refused('web'),
      { ...running, status: { ...running.status, podName: 'svc3-vm-running' } },
      refused('elsewhere', { config: 'small', configNamespace: 'team' }, 'other'),
      refused('foreign', { image: 'golden' }, 'other'),
    ];
    // A pass asks for the one that it is about, finds none and has nothing to do.
    cache.get = (name, namespace) => void woken.add(`${namespace}/${name}`);
  });

  async function wokenBy(change: Change<Image>): Promise<string[]> {
    informers.of(images).tell(change);
    await expect.poll(() => controller.pending()).toBe(0);
    return [...woken].toSorted();
  }

  const ready = golden(stored);
  test.each<[what: string, old: Image, object: Image]>([
    ['is further', golden(working(10)), golden(working(11))],
    ['has another worker', golden(working(10)), golden({ ...working(10), worker: 'svc3-worker-a' })],
    ['has taken a commit up', ready, golden({ ...stored, vmUid: 'a', vmRequest: '1', progress: 5 })],
    ['says the same as of another generation', ready, golden({ ...stored, observedGeneration: 2 })],
    ['is described', ready, { ...ready, spec: { ...ready.spec, description: 'of 2026' } }],
  ])('are left alone where an Image %s', async (_what, old, object) => {
    expect(await wokenBy(updated(old, object))).toEqual([]);
  });

  const memory: ImageStatus['memory'] = {
    digest,
    size: '1Gi',
    cpuModel: 'a',
    qemu: '10',
    accelerator: 'tcg',
  };
  const next = `sha256:${'b'.repeat(64)}`;
  test.each<[what: string, change: Change<Image>]>([
    ['is ready', updated(golden(working(99)), ready)],
    ['says something else of its work', updated(golden(working(10)), golden(working(10, 'unpacking')))],
    ['has another version', updated(ready, golden({ ...stored, digest: next, reference: reference(next) }))],
    ['lies elsewhere', updated(ready, golden({ ...stored, reference: `other.example.com/a@${digest}` }))],
    ['is larger', updated(ready, golden({ ...stored, size: '2G' }))],
    ['is for other processors', updated(ready, golden({ ...stored, architecture: 'arm64' }))],
    ['has a memory', updated(ready, golden({ ...stored, memory }))],
    ['is being deleted', updated(ready, golden(stored, { deletionTimestamp: '2026-11-01T10:00:00Z' }))],
    ['is another one of the name', updated(ready, golden(undefined, { uid: 'another' }))],
    ['is new', { kind: 'added', object: golden(undefined) }],
    ['is gone', { kind: 'deleted', object: ready }],
  ])('are looked at where an Image %s', async (_what, change) => {
    expect(await wokenBy(change)).toEqual(['other/elsewhere', 'team/web']);
  });
});

describe('VMs that may wait until their disk is saved', () => {
  let woken: Set<string>;
  const deleted = { deletionTimestamp: '2026-11-01T10:00:00Z' };
  const going = (name: string, namespace = 'team'): Vm => {
    const vm = refused(name, {}, namespace);
    return { ...vm, metadata: { ...vm.metadata, ...deleted }, status: { podName: `svc3-vm-${name}` } };
  };
  const save = (vm: string, progress: number): Image =>
    anImage({ vm: { name: vm, mode: 'Save' } }, working(progress), { name: 'save', uid: 'save' });
  const commit = (vm: string, progress: number): Image => {
    const image = golden({ ...stored, progress });
    return { ...image, spec: { ...image.spec, commit: { vm, request: '1' } } };
  };

  beforeEach(() => {
    woken = new Set();
    const asleep = refused('asleep');
    const conditions = [condition('Scheduled', 'False', 'Unschedulable')];
    informers.of(vms).objects = [
      going('web'),
      going('db'),
      going('web', 'other'),
      {
        ...asleep,
        spec: { ...asleep.spec, powerState: 'Suspended' },
        status: { powerState: 'Suspended', suspendedTo: 'Disk', podName: 'svc3-vm-asleep' },
      },
      { ...refused('running'), status: { powerState: 'Running', podName: 'svc3-vm-running' } },
      {
        ...refused('reverted'),
        spec: { ...asleep.spec, revertRequest: 'b' },
        status: { podName: 'svc3-vm-reverted', conditions },
      },
    ];
    controller.enqueue = (key) => void woken.add(key);
  });

  test.each<[what: string, change: Change<Image>, expected: string[]]>([
    ['a save of one', updated(save('web', 10), save('web', 11)), ['team/web']],
    ['a commit of one', updated(commit('web', 10), commit('web', 11)), ['team/web']],
    ['a commit that is of another now', updated(commit('web', 10), commit('db', 0)), ['team/db', 'team/web']],
    ['a commit that is withdrawn', updated(commit('web', 10), golden(stored)), ['team/web']],
    ['a save of one that is asleep', updated(save('asleep', 10), save('asleep', 11)), ['team/asleep']],
    [
      'a save of one that is to be reverted',
      updated(save('reverted', 10), save('reverted', 11)),
      ['team/reverted'],
    ],
    ['a save of one that runs', updated(save('running', 10), save('running', 11)), []],
    ['a save of none that is there', updated(save('gone', 10), save('gone', 11)), []],
    ['a save that is gone', { kind: 'deleted', object: save('web', 10) }, ['team/web']],
    ['what is pulled', updated(golden(working(10)), golden(working(11))), []],
  ])('are looked at, and no others, where the disk is wanted for %s', async (_what, change, expected) => {
    informers.of(images).tell(change);
    expect([...woken].toSorted()).toEqual(expected);
  });
});

describe('the backoff of a VM that was refused a pod', () => {
  const anIso = (status: ImageStatus, name = 'golden'): Iso => {
    const { metadata } = golden(status, { name });
    return { metadata, spec: { source: { upload: {} } }, status };
  };
  const tries = () => create.mock.calls.map(([, pod]) => pod.metadata.name.replace('svc3-vm-', ''));
  async function passes(): Promise<void> {
    await expect.poll(() => controller.pending()).toBe(0);
  }

  beforeEach(() => {
    informers.of(vmConfigs).objects = [
      { ...aConfig({ image: 'golden', iso: 'setup' }), metadata: { ...aConfig({}).metadata, name: 'small' } },
    ];
    informers.of(vmPools).objects = [aPool({ template: { config: 'small' } })];
  });

  async function deploy(vm: Vm): Promise<void> {
    informers.of(images).objects = [golden(stored), golden(stored, { name: 'other' })];
    informers.of(isos).objects = [anIso(stored), anIso(stored, 'setup')];
    informers.of(vms).objects = [vm];
    informers.of(vms).tell({ kind: 'added', object: vm });
    await passes();
    expect(tries()).toEqual([vm.metadata.name]);
    create.mockClear();
  }

  test.each<[what: string, vm: Vm]>([
    ['it names it', refused('web')],
    ['its VMConfig names it', refused('web', { config: 'small' })],
    [
      'the VMConfig of another namespace names it',
      refused('web', { config: 'small', configNamespace: 'team' }, 'x'),
    ],
  ])('ends where an Image is ready and %s', async (_what, vm) => {
    await deploy(vm);
    informers.of(images).tell(updated(golden(working(99)), golden(stored)));
    await passes();
    expect(tries()).toEqual(['web']);
  });

  test('ends where its ISO is ready', async () => {
    await deploy(refused('web', { image: 'other', iso: 'golden' }));
    informers.of(isos).tell(updated(anIso(working(99)), anIso(stored)));
    await passes();
    expect(tries()).toEqual(['web']);
  });

  test('goes on where an Image gets further', async () => {
    await deploy(refused('web'));
    informers.of(images).tell(updated(golden(working(10)), golden(working(11))));
    await passes();
    expect(tries()).toEqual([]);
  });

  test.each<[what: string, vm: Vm]>([
    ['it names another', refused('web', { image: 'other' })],
    ['its own image overrides that of its VMConfig', refused('web', { image: 'other', config: 'small' })],
    ['it names an ISO so', refused('web', { image: 'other', iso: 'golden' })],
    ['it is of a registry', refused('web', { image: `r.example.com/golden@${digest}` })],
  ])('goes on where an Image is ready and %s', async (_what, vm) => {
    await deploy(vm);
    informers.of(images).tell(updated(golden(working(99)), golden(stored)));
    await passes();
    expect(tries()).toEqual([]);
  });
});
