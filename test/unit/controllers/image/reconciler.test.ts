import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { Pod, PodStatus } from '../../../../src/api/core.ts';
import type { Image, ImageStatus } from '../../../../src/api/image.ts';
import { ejectedRefusal } from '../../../../src/api/memory.ts';
import type { KubeObject } from '../../../../src/api/object.ts';
import type { Vm } from '../../../../src/api/vm.ts';
import { createExpectations } from '../../../../src/controller/expectations.ts';
import type { Disk } from '../../../../src/controllers/image/caches.ts';
import { workerPodName, workId } from '../../../../src/controllers/image/names.ts';
import { ImageReconciler, type ImageReconcilerParts } from '../../../../src/controllers/image/reconciler.ts';
import { VanishedDisks } from '../../../../src/controllers/image/vanished.ts';
import { StartWaits } from '../../../../src/controllers/startwaits.ts';
import { WorkBackoff } from '../../../../src/controllers/image/workbackoff.ts';
import { Svc3Error } from '../../../../src/errors.ts';
import { sha256 } from '../../../../src/registry/manifest.ts';
import { type MemoryRegistry, memoryRegistry } from '../../registry/memoryregistry.ts';
import { storedMeta } from '../../../support/storedmeta.ts';
import { anImage, condition, digest, done } from './builders.ts';

type Named = { readonly plural: string };

const key = 'team/disk';
const start = Date.parse('2026-11-01T10:00:00Z');
const held = { finalizers: ['svc3.dev/cleanup'] };
const deleted = { ...held, deletionTimestamp: '2026-11-01T09:59:00Z' };

/** The Image as kube-apiserver has it, and as the cache shows it. */
let stored: Disk | undefined;
let cached: Disk | undefined;
let others: Disk[];
let pods: Pod[];
let vms: Vm[];
let nowMs: number;
/** Of the node of worker pods. */
let kubeletVersion: string;
/** How far kube-apiserver's clock is behind ours, in milliseconds. */
let aheadMs: number;
let store: MemoryRegistry;
let isNamespaceGoing: boolean;
let storeSettings: { url: string; prefix: string };
/** What the store says to whoever opens it. */
let outage: Svc3Error | undefined;
/** What the runner, which has no copy yet, says to whoever asks for one. */
let runnerRefusal: Svc3Error | undefined;
/** What is said to whoever writes tickets. */
let secretRefusal: Svc3Error | undefined;
/** Who uses it as kube-apiserver knows by now. */
let liveUsers: string | undefined;
/** Writes and what the runner was asked, in order. */
let calls: string[];
/** Registries that were opened, in order. */
let opened: string[];
const event = vi.fn();
const registryFailed = vi.fn();
/** Chart value `runner.pullSecret`. */
const pullSecret: { current: string | undefined } = { current: undefined };
const backoff = { current: new WorkBackoff() };
let vanished: VanishedDisks;
let reconciler: ImageReconciler;

const conflict = () => new Svc3Error('Conflict', 'the object has been modified');
const missing = () => new Svc3Error('NotFound', 'it is not there');
let version: number;

function write(change: Partial<Disk>): Disk {
  if (stored === undefined) throw missing();
  version += 1;
  const metadata = { ...stored.metadata, ...change.metadata, resourceVersion: String(version) };
  stored = { ...stored, ...change, metadata };
  return stored;
}

/** kube-apiserver as far as the reconciler needs it. */
const client = {
  async get({ plural }: Named, name: string) {
    if (plural === 'namespaces')
      return {
        metadata: storedMeta({ name, ...(isNamespaceGoing ? { deletionTimestamp: 'now' } : {}) }),
      };
    const found = plural === 'images' ? stored : pods.find(({ metadata }) => metadata.name === name);
    if (found === undefined) throw missing();
    return found;
  },
  async request({ path }: { path: string }) {
    if (!pods.some(({ metadata }) => path === `/api/v1/namespaces/team/pods/${metadata.name}`))
      throw missing();
    return { headers: { date: new Date(nowMs - aheadMs).toUTCString() } };
  },
  async apply({ plural }: Named, { metadata, status }: KubeObject & { status?: ImageStatus }) {
    calls.push(`apply ${plural}`);
    if (plural === 'secrets' && secretRefusal !== undefined) throw secretRefusal;
    if (plural !== 'images') return {};
    if (stored === undefined) throw missing();
    if (metadata?.resourceVersion !== stored.metadata.resourceVersion) throw conflict();
    return write({ status: status as ImageStatus });
  },
  async patch(_: Named, __: object, { body }: { body: Pick<Disk, 'metadata'> }) {
    const { finalizers = [], resourceVersion } = body.metadata;
    calls.push(finalizers.length === 0 ? 'release' : 'hold');
    if (stored === undefined) throw missing();
    if (resourceVersion !== stored.metadata.resourceVersion) throw conflict();
    const written = write({ metadata: { ...stored.metadata, finalizers } });
    if (finalizers.length === 0 && stored.metadata.deletionTimestamp !== undefined) stored = undefined;
    return written;
  },
  async create({ plural }: Named, object: Pod) {
    calls.push(`create ${plural}`);
    pods.push(object);
    return object;
  },
  async delete(
    { plural }: Named,
    { name }: { name: string },
    {
      uid,
      gracePeriodSeconds,
      resourceVersion,
    }: { uid: string; gracePeriodSeconds?: number; resourceVersion?: string },
  ) {
    calls.push(`delete ${plural}${gracePeriodSeconds === 0 ? ' at once' : ''}`);
    const at = pods.findIndex(({ metadata }) => metadata.name === name && metadata.uid === uid);
    const now = podVersion ?? pods[at]?.metadata.resourceVersion;
    if (at === -1) throw missing();
    if ((resourceVersion ?? now) !== now) throw conflict();
    pods.splice(at, 1);
  },
};

/** Of the pods in kube-apiserver, where the cache is behind. */
let podVersion: string | undefined;

const runner = {
  async getExport(id: string) {
    if (runnerRefusal !== undefined) throw missing();
    return { id, state: 'Copying', progress: 50 };
  },
  async startExport() {
    calls.push('start export');
    throw runnerRefusal;
  },
  deleteExport: async () => void calls.push('forget export'),
};

beforeEach(() => {
  nowMs = start;
  kubeletVersion = 'v1.36.3';
  aheadMs = 0;
  version = 1;
  calls = [];
  opened = [];
  pods = [];
  vms = [];
  others = [];
  isNamespaceGoing = false;
  storeSettings = { url: 'https://store.example.com', prefix: 'svc3' };
  outage = undefined;
  podVersion = undefined;
  runnerRefusal = undefined;
  secretRefusal = undefined;
  liveUsers = undefined;
  pullSecret.current = undefined;
  store = memoryRegistry();
  event.mockReset();
  registryFailed.mockReset();
  vanished = new VanishedDisks();
  backoff.current = new WorkBackoff(() => nowMs);
  const named = <T extends KubeObject>(all: () => readonly T[]) => ({
    get: (name: string) => all().find(({ metadata }) => metadata?.name === name),
    list: all,
    byIndex: () => [],
  });
  reconciler = new ImageReconciler({
    kind: 'Image',
    client,
    recorder: { event },
    log: { warn: () => undefined },
    caches: {
      disks: named(() => [...(cached === undefined ? [] : [cached]), ...others]),
      vms: named(() => vms),
      vmConfigs: named(() => []),
      vmPools: named(() => []),
      claims: named(() => []),
      nodes: {
        get: () => ({ metadata: storedMeta({ name: 'n1' }), status: { nodeInfo: { kubeletVersion } } }),
      },
      podsOf: () => pods,
    },
    expected: createExpectations<Disk>(),
    backoff: backoff.current,
    startWaits: new StartWaits(() => nowMs),
    registryFailed,
    vanished,
    liveUsers: async () => liveUsers,
    settings: {
      store: storeSettings,
      workerImage: 'worker',
      get workerPullSecret() {
        return pullSecret.current;
      },
      workerPort: 8444,
      runnerPort: 8443,
      uploadExpiryMs: 86_400_000,
      maxVirtualBytes: 2 ** 40,
      scratchBytes: 2 ** 30,
    },
    openRunner: () => runner,
    registries: {
      access: async () => ({ scheme: 'https', skipVerify: false }),
      async open(_namespace: string, registry: string) {
        opened.push(registry);
        if (outage !== undefined) throw outage;
        return store;
      },
    },
    monotonic: () => nowMs,
    now: () => new Date(nowMs),
  } as unknown as ImageReconcilerParts);
});

/** One that kube-apiserver has and the cache shows. */
function given(
  source: Image['spec']['source'],
  status?: ImageStatus,
  metadata: Partial<Image['metadata']> = held,
) {
  stored = anImage(source, status, { resourceVersion: '1', ...metadata });
  cached = stored;
}

const pass = () => reconciler.reconcile(key, AbortSignal.timeout(60_000));
/** Lets the cache catch up. */
const seen = () => (cached = stored);
const ready = () => stored?.status?.conditions?.find(({ type }) => type === 'Ready');
const stalled = () => stored?.status?.conditions?.find(({ type }) => type === 'Stalled')?.reason;
const idOf = (request = 'create') => workId(stored as Disk, request);
const told = () => event.mock.calls.map(([, { type, reason }]) => `${type} ${reason}`);
const aWorker = (status: PodStatus, request = 'create', more: object = {}): Pod => ({
  metadata: storedMeta({ name: workerPodName(idOf(request)), namespace: 'team', ...more }),
  spec: { containers: [] },
  status,
});
const ended = (result: object, exitCode = 0): PodStatus => ({
  phase: exitCode === 0 ? 'Succeeded' : 'Failed',
  containerStatuses: [
    {
      name: 'worker',
      image: '',
      imageID: '',
      ready: false,
      restartCount: 0,
      state: { terminated: { exitCode, message: JSON.stringify(result) } },
    },
  ],
});
const remote = { remote: { reference: 'r.example.com/debian:12' } };
const wasStored: ImageStatus = {
  digest,
  reference: `store.example.com/svc3/team/disk@${digest}`,
  observedGeneration: 1,
  conditions: [{ ...condition('Ready', 'True', 'Stored'), message: '' }],
};

/** A manifest in the store, and the status of an Image whose newest version it is. */
const lying = { schemaVersion: 2, mediaType: 'x' };
const isThere: ImageStatus = { ...wasStored, digest: sha256(Buffer.from(JSON.stringify(lying))) };

describe('a new Image', () => {
  test('is held before anything is made for it', async () => {
    given({ blank: { size: '1Gi' } }, undefined, {});
    await pass();
    expect(calls).toEqual(['hold', 'apply images']);
    expect(stored?.metadata.finalizers).toEqual(['svc3.dev/cleanup']);
  });

  test('that is blank is made in the store and is ready in one pass', async () => {
    given({ blank: { size: '1Gi' } });
    expect(await pass()).toBeUndefined();
    expect(ready()?.status).toBe('True');
    expect(stored?.status).toMatchObject({ size: '1Gi', format: 'qcow2' });
    expect(stored?.status?.reference).toBe(`store.example.com/svc3/team/disk@${stored?.status?.digest}`);
    expect([...store.manifests.keys()]).toContain(`svc3/team/disk:${idOf()}`);
  });

  test('is not made a second time while the cache is behind', async () => {
    given({ blank: { size: '1Gi' } });
    write({ metadata: { ...(stored as Disk).metadata, labels: { changed: 'since' } } });
    await expect(pass()).rejects.toMatchObject({ reason: 'Conflict' });
    expect([store.calls, calls]).toEqual([[], []]);
  });

  test('is pulled by one worker pod', async () => {
    given(remote);
    await pass();
    expect(calls).toEqual(['create pods', 'apply images']);
    expect(pods[0]?.metadata.name).toBe(workerPodName(idOf()));
    expect(ready()).toMatchObject({ status: 'False', reason: 'Working' });
    expect(stored?.status?.progress).toBe(0);
  });

  test('that copies another is copied within the store, or by a worker where that cannot be', async () => {
    const from = store.put('svc3/team/from', 'latest', { schemaVersion: 2, mediaType: 'x' });
    const reference = `other.example.com/svc3/team/from@${from.digest}`;
    const status = { ...wasStored, reference };
    others = [anImage(remote, status, { name: 'from', uid: 'uid-2' })];
    given({ image: { name: 'from' } });
    await pass();
    expect(calls).toEqual(['create pods', 'apply images']);
    expect(stored?.status?.conditions?.find(({ type }) => type === 'Reconciling')?.message).toContain(
      'the store does not mount blobs',
    );
  });

  test('that saves a VM is asked for again while the runner copies', async () => {
    vms = [
      {
        metadata: storedMeta({ name: 'web', namespace: 'team', uid: 'vm-uid' }),
        spec: {},
        status: { runner: { address: '10.0.0.1' } },
      } as Vm,
    ];
    given({ vm: { name: 'web', mode: 'Save' } });
    expect(await pass()).toEqual({ requeueAfterMs: 1_000 });
    expect(stored?.status).toMatchObject({ progress: 20, vmUid: 'vm-uid' });
  });

  test('that saves the Ephemeral disk of a VM notes its pod, and refuses that of the next one', async () => {
    const inPod = (podUid: string) => {
      const status = { runner: { podUid, address: '10.0.0.1' }, effective: {}, powerState: 'Running' };
      vms = [
        {
          metadata: storedMeta({ name: 'web', namespace: 'team', uid: 'vm-uid' }),
          spec: {},
          status,
        } as unknown as Vm,
      ];
    };
    inPod('first');
    given({ vm: { name: 'web', mode: 'Save' } });
    await pass();
    expect(stored?.status).toMatchObject({ vmUid: 'vm-uid', vmPodUid: 'first' });
    inPod('second');
    seen();
    await pass();
    expect(ready()).toMatchObject({ status: 'False', reason: 'SourceDeleted' });
    expect(stored?.status).not.toHaveProperty('vmPodUid');
  });

  test('that takes the disk of another VM than for the commit before says whose', async () => {
    vms = [
      {
        metadata: storedMeta({ name: 'web', namespace: 'team', uid: 'vm-uid' }),
        spec: { image: 'disk' },
        status: { runner: { address: '10.0.0.1' }, effective: { imageName: 'disk' } },
      } as Vm,
    ];
    given(remote, { ...wasStored, vmUid: 'other', vmRequest: 'one' });
    stored = { ...stored, spec: { source: remote, commit: { vm: 'web', request: 'two' } } } as Image;
    seen();
    expect(await pass()).toEqual({ requeueAfterMs: 1_000 });
    expect(stored?.status).toMatchObject({ vmUid: 'vm-uid', vmRequest: 'two' });
  });

  test('that waits for an upload says how to upload, and is looked at again', async () => {
    given({ upload: {} });
    expect(await pass()).toEqual({ requeueAfterMs: 3_600_000 });
    expect(ready()).toMatchObject({ reason: 'AwaitingUpload' });
    expect(calls).toEqual(['apply images']);
  });
});

describe('a commit that is asked for no more', () => {
  const underWay: ImageStatus = {
    ...wasStored,
    vmUid: 'vm-uid',
    vmRequest: 'two',
    conditions: [
      { ...condition('Ready', 'True', 'Stored'), message: `stored as ${digest}` },
      condition('Committed', 'Unknown', 'Working'),
      condition('Reconciling', 'True', 'Progressing'),
    ],
  };
  const aVm = (name = 'web', uid = 'vm-uid') =>
    ({
      metadata: storedMeta({ name, namespace: 'team', uid }),
      spec: {},
      status: { runner: { address: '10.0.0.1' } },
    }) as Vm;
  const forgotten = vi.spyOn(runner, 'deleteExport');
  const types = () => stored?.status?.conditions?.map(({ type }) => type);
  beforeEach(() => void forgotten.mockClear());

  test.each<[string, Image['spec']['source']]>([
    ['blank', { blank: { size: '1Gi' } }],
    ['saved of another VM', { vm: { name: 'first', mode: 'Save' } }],
  ])('leaves no ticket and no copy of it behind for an Image that is %s, once', async (_, source) => {
    vms = [aVm('first', 'first-uid'), aVm()];
    given(source, underWay, { ...held, generation: 2 });
    await pass();
    expect(calls).toEqual(['apply secrets', 'forget export', 'apply images']);
    expect(forgotten.mock.calls).toEqual([[idOf('commit/web/two')]]);
    expect([types(), stored?.status?.observedGeneration]).toEqual([['Ready'], 2]);
    expect(stored?.status).not.toHaveProperty('vmRequest');
    seen();
    calls = [];
    await pass();
    expect(calls).toEqual([]);
  });

  test('leaves no ticket behind where its VM is gone', async () => {
    given(remote, underWay, { ...held, generation: 2 });
    await pass();
    expect(calls).toEqual(['apply secrets', 'apply images']);
  });

  test('leaves nothing behind where its Image is being deleted', async () => {
    vms = [aVm()];
    given(remote, underWay, { ...deleted, generation: 2 });
    await pass();
    expect(calls).toEqual(['apply secrets', 'forget export', 'release']);
  });
});

describe('an Image that was refused', () => {
  const refusal = { ...condition('Ready', 'False', 'SourceDeleted'), message: 'VM web was deleted' };
  const wasRefused = (observedGeneration: number): ImageStatus => ({
    observedGeneration,
    conditions: [
      { ...refusal, observedGeneration },
      { ...refusal, type: 'Stalled', status: 'True', observedGeneration },
    ],
  });

  test('says so of what it is now, and writes that once', async () => {
    given({ vm: { name: 'web', mode: 'Save' } }, wasRefused(1), { ...held, generation: 2 });
    await pass();
    expect(calls).toEqual(['apply images']);
    expect(stored?.status).toEqual(wasRefused(2));
    expect(told()).toEqual([]);
    seen();
    await pass();
    expect(calls).toEqual(['apply images']);
  });
});

describe('a worker pod', () => {
  test('that has not begun leaves the progress as it was said, and is looked at again', async () => {
    given(remote, { progress: 30 });
    pods = [aWorker({ phase: 'Pending' })];
    expect(await pass()).toEqual({ requeueAfterMs: 5_000 });
    expect(stored?.status).toMatchObject({ progress: 30, worker: workerPodName(idOf()) });
  });

  test('that cannot pull makes way for one with the pull Secret of now, and that one stays', async () => {
    given(remote);
    await pass();
    const waiting = { reason: 'ImagePullBackOff', message: 'denied' };
    const container = { name: 'worker', image: '', imageID: '', ready: false, restartCount: 0 };
    const status: PodStatus = { phase: 'Pending', containerStatuses: [{ ...container, state: { waiting } }] };
    pods = pods.map((pod) => ({ ...pod, status }));
    seen();
    await pass();
    expect(pods).toHaveLength(1);
    pullSecret.current = 'registry';
    seen();
    await pass();
    expect(pods).toEqual([]);
    seen();
    await pass();
    expect(pods[0]?.spec.imagePullSecrets).toContainEqual({ name: 'registry' });
    pods = pods.map((pod) => ({ ...pod, status }));
    seen();
    await pass();
    calls = [];
    seen();
    await pass();
    expect(calls).toEqual([]);
  });

  test('that is done makes its Image ready before the pod goes', async () => {
    given(remote);
    pods = [aWorker(ended(done))];
    await pass();
    expect(calls).toEqual(['apply images', 'delete pods']);
    expect([ready()?.status, stored?.status?.digest]).toEqual(['True', digest]);
    expect(told()).toEqual(['Normal Stored']);
  });

  describe('that is done with a commit', () => {
    const commit = { vm: 'web', request: 'two' };
    const finish = async (reference: string) => {
      given(remote, { ...wasStored, reference });
      stored = { ...stored, spec: { source: remote, commit } } as Image;
      seen();
      pods = [aWorker(ended(done), 'commit/web/two')];
      await pass();
      expect(stored?.status?.reference).toBe(`store.example.com/svc3/team/disk@${digest}`);
    };

    test.each(['before.example.com/svc3/team/disk', 'store.example.com/former/team/disk'])(
      'names the versions before where they lie at %s, which no status names from then on',
      async (former) => {
        await finish(`${former}@${digest}`);
        expect(told()).toEqual(['Normal Stored', 'Warning KeptInStore']);
        expect(event.mock.calls.at(-1)?.[1].message).toBe(
          `versions before this one lie at ${former}, which is not where this installation stores it now: they are used from there, and nothing is deleted there`,
        );
        seen();
        await pass();
        expect(told()).toHaveLength(2);
      },
    );

    test('names nothing where the versions before lie where it is', async () => {
      await finish(`store.example.com/svc3/team/disk@sha256:${'b'.repeat(64)}`);
      expect(told()).toEqual(['Normal Stored']);
    });
  });

  test('whose Image is ready is cleaned away, and nothing is written', async () => {
    given(remote, wasStored);
    pods = [aWorker(ended(done))];
    await pass();
    expect(calls.filter((call) => call !== 'apply images')).toEqual(['delete pods']);
    expect(stored?.status?.digest).toBe(digest);
  });

  test('that is on its way out is not deleted again', async () => {
    given(remote, wasStored);
    pods = [aWorker(ended(done), 'create', { deletionTimestamp: '2026-11-01T09:59:59Z' })];
    await pass();
    expect(calls).not.toContain('delete pods');
  });

  test('that failed is told of, waits for its backoff and makes room for another then', async () => {
    given(remote);
    const failedRequest = { registry: 'r.example.com', reason: 'Unreachable' };
    const failed = { result: 'Failed', reason: 'RegistryUnreachable', message: 'no route', failedRequest };
    pods = [aWorker(ended(failed, 1))];
    expect(await pass()).toMatchObject({ requeueAfterMs: expect.any(Number) });
    expect(ready()).toMatchObject({ reason: 'RegistryUnreachable', message: 'no route' });
    expect(calls).not.toContain('delete pods');
    seen();
    await pass();
    seen();
    nowMs += 600_000;
    await pass();
    expect(calls).toContain('delete pods');
    expect(registryFailed.mock.calls).toEqual([['r.example.com', 'Unreachable']]);
  });

  test('whose image a node may be pulling (its kubelet does not tell) has half an hour for that', async () => {
    given(remote);
    kubeletVersion = 'v1.35.4';
    const conditions = [{ type: 'PodReadyToStartContainers', status: 'False' as const }];
    const waiting = aWorker({ phase: 'Pending', conditions });
    pods = [{ ...waiting, spec: { ...waiting.spec, nodeName: 'n1' } }];
    await pass();
    seen();
    nowMs += 1_799_000;
    await pass();
    seen();
    expect(ready()).toMatchObject({ reason: 'Working' });
    nowMs += 1_000;
    await pass();
    seen();
    expect(ready()).toMatchObject({ reason: 'WorkerFailed' });
  });

  test('that its node does not prepare in five minutes makes room for another', async () => {
    given(remote);
    const conditions = [{ type: 'PodReadyToStartContainers', status: 'False' as const }];
    const waiting = aWorker({ phase: 'Pending', conditions });
    pods = [{ ...waiting, spec: { ...waiting.spec, nodeName: 'n1' } }];
    await pass();
    seen();
    nowMs += 299_000;
    await pass();
    seen();
    expect(ready()).toMatchObject({ reason: 'Working' });
    expect(calls).not.toContain('delete pods');
    nowMs += 1_000;
    expect(await pass()).toMatchObject({ requeueAfterMs: expect.any(Number) });
    seen();
    const message = 'the worker pod failed: node n1 does not prepare its volumes and network';
    expect(ready()).toMatchObject({ reason: 'WorkerFailed', message });
    nowMs += 10_000;
    // It has begun meanwhile, and the cache does not show it yet.
    podVersion = 'newer';
    await pass();
    expect(pods).toHaveLength(1);
    podVersion = undefined;
    await pass();
    expect(pods).toEqual([]);
  });

  describe('that took an upload', () => {
    const repository = 'svc3/team/disk';
    let uploaded: string;
    let worker: Pod;
    beforeEach(() => {
      uploaded = store.put(repository, 'upload-1', { schemaVersion: 2, mediaType: 'x' }).digest;
      const annotations = { 'svc3.dev/upload': uploaded };
      given({ upload: {} }, undefined, { ...held, annotations });
      worker = aWorker(ended(done), uploaded.slice(-64));
      pods = [worker];
      const forget = store.deleteManifest;
      store.deleteManifest = async (...what) => {
        calls.push('forget upload');
        return forget(...what);
      };
    });

    test.each<[string, PodStatus, string | undefined]>([
      ['is done', ended(done), 'True'],
      ['refuses it', ended({ result: 'Failed', reason: 'DiskRefused', message: 'it is a text' }, 1), 'False'],
    ])(
      'and %s leaves that to the operator, who forgets it once the result is known',
      async (_, status, is) => {
        pods = [{ ...worker, status }];
        await pass();
        expect([calls, ready()?.status]).toEqual([['apply images', 'forget upload', 'delete pods'], is]);
        expect(await store.tags(repository)).toEqual([]);
      },
    );

    test.each<[string, Error]>([
      ['is away, or the operator goes', new Error('the store is away')],
      ['answers 503', new Svc3Error('BadGateway', 'answered 503')],
      ['has had enough', new Svc3Error('TooManyRequests', 'answered 429')],
      ['refuses the login', new Svc3Error('Unauthorized', 'refused the login')],
      ['denies access', new Svc3Error('Forbidden', 'denied access')],
    ])('is there until the upload is forgotten, where the store %s', async (_, failure) => {
      vi.spyOn(store, 'deleteManifest').mockRejectedValueOnce(failure);
      await expect(pass()).rejects.toBe(failure);
      expect([calls, ready()?.status]).toEqual([['apply images'], 'True']);
      seen();
      await pass();
      expect(calls.slice(1)).toEqual(expect.arrayContaining(['forget upload', 'delete pods']));
      expect(await store.tags(repository)).toEqual([]);
    });

    test('holds no status back while the store does not forget', async () => {
      const failure = new Svc3Error('Forbidden', 'denied access');
      store.deleteManifest = () => Promise.reject(failure);
      await expect(pass()).rejects.toBe(failure);
      write({ metadata: { ...(stored as Disk).metadata, generation: 2 } });
      seen();
      await expect(pass()).rejects.toBe(failure);
      expect([stored?.status?.observedGeneration, ready()?.status]).toEqual([2, 'True']);
      expect(calls).not.toContain('delete pods');
    });

    test('has others beside it that nobody goes on with: they are given up once, when their time is over', async () => {
      await pass();
      seen();
      expect(await pass()).toEqual({ requeueAfterMs: 86_400_000 });
      const config = { mediaType: 'application/vnd.svc3.upload.config.v1+json', digest, size: 2 };
      const annotations = { 'svc3.dev/written-at': new Date(start - 1).toISOString() };
      store.put(repository, 'upload-old', { schemaVersion: 2, config, layers: [], annotations });
      nowMs += 86_400_000;
      expect(await pass()).toBeUndefined();
      expect(await store.tags(repository)).toEqual([]);
      const asked = opened.length;
      nowMs += 86_400_000;
      await pass();
      expect(opened).toHaveLength(asked);
    });

    test('goes though the store does not forget', async () => {
      const refusal = new Svc3Error('MethodNotAllowed', 'no');
      vi.spyOn(store, 'deleteManifest').mockRejectedValueOnce(refusal);
      await pass();
      expect(calls).toEqual(['apply images', 'delete pods']);
    });

    test('as it came has made it the image, which stays', async () => {
      store.put(repository, idOf(uploaded.slice(-64)), { schemaVersion: 2, mediaType: 'x' });
      await pass();
      expect(calls).toEqual(['apply images', 'delete pods']);
      expect(await store.digestOf(repository, 'upload-1')).toBe(uploaded);
    });

    test('and failed for another reason leaves it to the next', async () => {
      const failed = { result: 'Failed', reason: 'WorkerFailed', message: 'qemu-img did not come to an end' };
      pods = [{ ...worker, status: ended(failed, 1) }];
      await pass();
      nowMs += 600_000;
      seen();
      await pass();
      expect(calls).toContain('delete pods');
      expect(await store.digestOf(repository, 'upload-1')).toBe(uploaded);
    });

    test('and is on its way out has nothing left to be forgotten', async () => {
      await pass();
      seen();
      pods = [{ ...worker, metadata: { ...worker.metadata, deletionTimestamp: 'now' } }];
      calls = [];
      await pass();
      expect(calls).not.toContain('forget upload');
    });
  });

  test('that refuses the disk is the last word', async () => {
    given(remote);
    pods = [aWorker(ended({ result: 'Failed', reason: 'DiskRefused', message: 'it is a text' }, 1))];
    await pass();
    expect([stalled(), calls]).toEqual(['DiskRefused', ['apply images', 'delete pods']]);
    seen();
    calls = [];
    await pass();
    expect(calls).toEqual([]);
  });

  test.each([
    ['create', '2026-11-01T09:59:30Z', { requeueAfterMs: 30_000 }, []],
    ['create', '2026-11-01T09:59:00Z', undefined, ['delete pods at once']],
    ['before', '2026-11-01T09:59:30Z', { requeueAfterMs: 30_000 }, []],
    ['before', '2026-11-01T09:59:00Z', undefined, ['delete pods at once']],
  ])(
    'for %s that should have ended at %s makes room a minute later, whatever has become of its node',
    async (request, deletionTimestamp, again, deletions) => {
      given(remote);
      pods = [aWorker({ phase: 'Running' }, request, { deletionTimestamp })];
      expect(await pass()).toEqual(again);
      expect(calls.filter((call) => call !== 'apply images')).toEqual(deletions);
    },
  );

  test.each(['create', 'before'])(
    'for %s is not given up by our clock alone: it may still put into the store what is to go from there',
    async (request) => {
      given(remote);
      pods = [aWorker({ phase: 'Running' }, request, { deletionTimestamp: '2026-11-01T09:59:00Z' })];
      aheadMs = 50_000;
      expect(await pass()).toEqual({ requeueAfterMs: 50_000 });
      expect(calls).toEqual([]);
    },
  );

  test('of a request before goes before there is another', async () => {
    given(remote);
    pods = [aWorker({ phase: 'Running' }, 'before')];
    await pass();
    expect(calls).toEqual(['delete pods']);
  });
});

describe('a step that fails', () => {
  test.each([
    'registry.example.com/Team/Debian:12',
    'https://registry.example.com/team/debian:12',
    `registry.example.com/team/debian@sha512:${'a'.repeat(128)}`,
    'registry.example.com:99999/team/debian:12',
  ])('since %s is no reference says so', async (reference) => {
    given({ remote: { reference } });
    expect(await pass()).toMatchObject({ requeueAfterMs: expect.any(Number) });
    expect([stalled(), calls]).toEqual(['SourceNotFound', ['apply images']]);
    expect(ready()?.message).toMatch(/^spec\.source\.remote\.reference: /);
  });

  test('since a webhook does not answer says so', async () => {
    given(remote);
    const words = 'Internal error occurred: failed calling webhook "policy.example.com": timeout';
    vi.spyOn(client, 'create').mockRejectedValueOnce(new Svc3Error('InternalError', words));
    expect(await pass()).toMatchObject({ requeueAfterMs: expect.any(Number) });
    expect(ready()).toMatchObject({ status: 'False', reason: 'WorkerRefused', message: words });
  });

  test('is told of and tried again after a time that grows', async () => {
    given({ blank: { size: '1Gi' } });
    outage = new Svc3Error('ServiceUnavailable', 'connection refused');
    const first = (await pass())?.requeueAfterMs ?? 0;
    expect(ready()).toMatchObject({ status: 'False', reason: 'RegistryUnreachable' });
    expect(told()).toEqual(['Warning RegistryUnreachable']);
    nowMs += Math.ceil(first);
    seen();
    const second = (await pass())?.requeueAfterMs ?? 0;
    expect(first).toBeGreaterThan(0);
    expect(second).toBeGreaterThan(first);
  });

  test('is not tried before that time', async () => {
    given({ blank: { size: '1Gi' } });
    outage = new Svc3Error('ServiceUnavailable', 'connection refused');
    const wait = (await pass())?.requeueAfterMs ?? 0;
    seen();
    outage = undefined;
    nowMs += Math.floor(wait) - 1;
    expect((await pass())?.requeueAfterMs).toBeLessThan(2.5);
    expect(ready()).toMatchObject({ reason: 'RegistryUnreachable' });
    nowMs += 3;
    await pass();
    expect(ready()?.status).toBe('True');
  });

  describe('at a save with memory', () => {
    beforeEach(() => {
      // Its CD has been ejected since: what the next start will have says nothing of the guest that runs.
      const status = { runner: { address: '10.0.0.1' }, effective: {}, powerState: 'Running' };
      const metadata = storedMeta({ name: 'web', namespace: 'team', uid: 'vm-uid' });
      vms = [{ metadata, spec: { iso: '' }, status } as unknown as Vm];
      given({ vm: { name: 'web', mode: 'SaveWithMemory' } });
    });

    test.each(['Invalid', 'Conflict'] as const)(
      'since the runner refuses the machine of the guest is the last word: %s',
      async (reason) => {
        runnerRefusal = new Svc3Error(reason, ejectedRefusal);
        expect(await pass()).toBeUndefined();
        expect(ready()).toMatchObject({ reason: 'MemoryRefused', message: `VM web: ${ejectedRefusal}` });
        expect(stalled()).toBe('MemoryRefused');
        seen();
        nowMs += 3_600_000;
        expect(await pass()).toBeUndefined();
        expect(calls.filter((call) => call === 'start export')).toHaveLength(1);
      },
    );

    test('since the VM is being saved already is tried again', async () => {
      runnerRefusal = new Svc3Error('Conflict', 'the VM is being saved already');
      expect(await pass()).toMatchObject({ requeueAfterMs: expect.any(Number) });
      expect([ready()?.reason, stalled()]).toEqual(['RunnerUnreachable', undefined]);
    });
  });

  test('of nobody’s expecting is an error of the pass', async () => {
    given(remote);
    const fault = new TypeError('a bug');
    vi.spyOn(client, 'create').mockRejectedValueOnce(fault);
    await expect(pass()).rejects.toBe(fault);
    expect(calls).toEqual([]);
  });
});

describe('an Image that is being deleted', () => {
  test('takes what lies in the store with it', async () => {
    given(remote, isThere, deleted);
    store.put('svc3/team/disk', 'one', lying);
    store.put('svc3/team/disk', 'before', { schemaVersion: 2 });
    await pass();
    expect([store.manifests.size, stored, calls]).toEqual([0, undefined, ['release']]);
    expect(told()).toEqual([]);
  });

  test('leaves what was stored under its name since, as an Image that a restored etcd brought back', async () => {
    given(remote, wasStored, deleted);
    store.put('svc3/team/disk', 'one', lying);
    await pass();
    expect([store.manifests.size, stored, told()]).toEqual([2, undefined, ['Warning KeptInStore']]);
    expect(event.mock.calls[0]?.[1].message).toBe(
      `store.example.com/svc3/team/disk has not ${digest}, which the status names, and has other versions: they are of another disk of this name, and stay`,
    );
  });

  test.each(['before.example.com/svc3', 'store.example.com/former', 'store.example.com/svc3/other'])(
    'takes what lies where the store is now; what its status has at %s, which may be another installation’s, it leaves and names',
    async (former) => {
      given(remote, { ...wasStored, reference: `${former}/team/disk@${digest}` }, deleted);
      const [registry, ...rest] = `${former}/team/disk`.split('/');
      const repository = rest.join('/');
      store.put('svc3/team/disk', 'now', { schemaVersion: 2 });
      if (repository !== 'svc3/team/disk') store.put(repository, 'before', { schemaVersion: 2 });
      await pass();
      expect(
        [...store.manifests.keys()].filter((key) => !key.startsWith(`${repository}:`) && !key.includes('@')),
      ).toEqual([]);
      expect([stored, told(), opened]).toEqual([undefined, ['Warning KeptInStore'], ['store.example.com']]);
      expect(event.mock.calls.at(-1)?.[1]).toMatchObject({
        message: expect.stringContaining(`${registry}/${repository}, which is not where`),
      });
    },
  );

  test('stays while a VM uses it that was placed before the store had another address', async () => {
    const reference = `before.example.com/svc3/team/disk@${digest}`;
    given(remote, { ...wasStored, reference }, deleted);
    const metadata = storedMeta({ name: 'web', namespace: 'team' });
    vms = [{ metadata, spec: {}, status: { effective: { image: reference } } } as Vm];
    await pass();
    expect(ready()).toMatchObject({ reason: 'InUse', message: 'in use by VM web' });
    expect([calls, opened]).toEqual([['apply images'], []]);
  });

  test('of others’ finalizers only is none of ours', async () => {
    given(remote, wasStored, { ...deleted, finalizers: ['other'] });
    await pass();
    expect([calls, store.calls]).toEqual([[], []]);
  });

  test('stays while a VM uses it', async () => {
    given(remote, wasStored, deleted);
    const image = `store.example.com/svc3/team/disk@${digest}`;
    vms = [
      {
        metadata: storedMeta({ name: 'web', namespace: 'team' }),
        spec: {},
        status: { effective: { image } },
      } as Vm,
    ];
    await pass();
    expect(ready()).toMatchObject({ reason: 'InUse', message: 'in use by VM web' });
    expect([calls, store.calls]).toEqual([['apply images'], []]);
  });

  test('stays for a VM that the cache does not show yet', async () => {
    given(remote, wasStored, deleted);
    liveUsers = 'VM web';
    expect(await pass()).toEqual({ requeueAfterMs: 1_000 });
    expect(ready()).toMatchObject({ reason: 'InUse', message: 'in use by VM web' });
    expect([calls, store.calls]).toEqual([['apply images'], []]);
  });

  test('ends its workers first', async () => {
    given(remote, undefined, deleted);
    pods = [aWorker({ phase: 'Running' })];
    await pass();
    expect(calls).toEqual(['delete pods']);
  });

  test('goes without a worker whose node is lost', async () => {
    given(remote, undefined, deleted);
    pods = [aWorker({ phase: 'Running' }, 'create', { deletionTimestamp: '2026-11-01T09:59:10Z' })];
    expect(await pass()).toEqual({ requeueAfterMs: 10_000 });
    expect(calls).toEqual([]);
    nowMs += 10_000;
    aheadMs = 3_000;
    expect(await pass()).toEqual({ requeueAfterMs: 3_000 });
    nowMs += 3_000;
    await pass();
    await pass();
    expect([calls, stored]).toEqual([['delete pods at once', 'release'], undefined]);
  });

  test('stays until the copies that were asked for before are done, and they are made of it', async () => {
    given({ blank: { size: '1Gi' } });
    await pass();
    write({ metadata: { ...(stored as Disk).metadata, ...deleted } });
    seen();
    const mine = { ...held, name: 'mine', uid: 'uid-2', creationTimestamp: deleted.deletionTimestamp };
    others = [anImage({ image: { name: 'disk' } }, undefined, mine)];
    await pass();
    expect(ready()).toMatchObject({ reason: 'InUse', message: 'in use by Image mine' });
    const source = stored as Disk;
    others = [source];
    given({ image: { name: 'disk' } }, undefined, mine);
    await reconciler.reconcile('team/mine', AbortSignal.timeout(60_000));
    expect(ready()).toMatchObject({ status: 'True' });
    expect(stored?.status?.digest).toBe(source.status?.digest);
    others = [stored as Disk];
    stored = source;
    seen();
    await pass();
    expect(stored).toBeUndefined();
  });

  test.each([
    ['names what it leaves', wasStored, ['Warning KeptInStore']],
    ['that is empty leaves nothing', undefined, []],
  ] as const)('where the installation has no store any more %s', async (_, status, events) => {
    storeSettings.url = '';
    given(remote, status, deleted);
    await pass();
    expect([stored, told(), opened]).toEqual([undefined, events, []]);
    if (status !== undefined)
      expect(event.mock.calls[0]?.[1].message).toBe(
        'was stored at store.example.com/svc3/team/disk, and this installation has no image store now: nothing is deleted there',
      );
  });

  test('waits for a store that is away', async () => {
    given(remote, wasStored, deleted);
    outage = new Svc3Error('ServiceUnavailable', 'connection refused');
    expect(await pass()).toMatchObject({ requeueAfterMs: expect.any(Number) });
    expect([stored === undefined, ready()?.reason]).toEqual([false, 'RegistryUnreachable']);
  });

  test.each<[string, () => void, ImageStatus | undefined, string[]]>([
    [
      'goes with its namespace, and says what stays',
      () => (isNamespaceGoing = true),
      wasStored,
      ['Warning KeptInStore'],
    ],
    [
      'that is empty goes after five minutes, and has nothing to say',
      () => (nowMs += 300_000),
      undefined,
      [],
    ],
  ])('whose store is away %s', async (_, then, status, events) => {
    given(remote, status, deleted);
    outage = new Svc3Error('ServiceUnavailable', 'connection refused');
    then();
    await pass();
    expect([stored, told()]).toEqual([undefined, events]);
  });

  test('goes where the store deletes nothing, and says so', async () => {
    given(remote, wasStored, deleted);
    const words = 'registry store.example.com answered 405 (UNSUPPORTED: The operation is unsupported.)';
    store.deleteManifest = () => Promise.reject(new Svc3Error('MethodNotAllowed', words));
    await pass();
    expect([stored, told()]).toEqual([undefined, ['Warning KeptInStore']]);
  });

  describe('whose store refuses for a reason that may pass', () => {
    beforeEach(() => {
      given(remote, isThere, deleted);
      store.put('svc3/team/disk', 'one', lying);
      store.put('svc3/team/disk', 'before', { schemaVersion: 2 });
    });

    test('stays, and takes what lies in the store with it when that is over', async () => {
      const refusal = new Svc3Error('MethodNotAllowed', 'registry store.example.com answered 405');
      vi.spyOn(store, 'deleteManifest').mockRejectedValueOnce(refusal);
      expect(await pass()).toMatchObject({ requeueAfterMs: expect.any(Number) });
      expect(ready()).toMatchObject({
        reason: 'DeletionRefused',
        message: 'the store refuses to delete what it has: registry store.example.com answered 405',
      });
      expect([store.manifests.size, stalled()]).toEqual([4, undefined]);
      seen();
      await pass();
      expect([store.manifests.size, stored, told()]).toEqual([0, undefined, ['Warning DeletionRefused']]);
    });

    test('goes after an hour, and says what stays in the words of the registry', async () => {
      const words = 'registry store.example.com answered 412 (PRECONDITION: the tag is immutable)';
      store.deleteManifest = () => Promise.reject(new Svc3Error('BadRequest', words));
      for (const ms of [0, 1_800_000, 1_799_000]) {
        nowMs += ms;
        await pass();
        seen();
      }
      expect([stored === undefined, told()]).toEqual([false, ['Warning DeletionRefused']]);
      nowMs += 1_000;
      await pass();
      expect([stored, told()]).toEqual([undefined, ['Warning DeletionRefused', 'Warning KeptInStore']]);
      expect(event.mock.calls.at(-1)?.[1].message).toContain(words);
    });
  });

  test('takes nothing of another of its name that is there by now', async () => {
    given(remote, wasStored, deleted);
    stored = anImage(remote, undefined, { uid: 'another' });
    store.put('svc3/team/disk', 'one', { schemaVersion: 2, mediaType: 'x' });
    await pass();
    expect([store.calls, calls]).toEqual([[], []]);
  });

  test('of a VM forgets the copy that the runner has of it', async () => {
    vms = [
      {
        metadata: storedMeta({ name: 'web', namespace: 'team', uid: 'vm-uid' }),
        spec: {},
        status: { runner: { address: '10.0.0.1' } },
      } as Vm,
    ];
    given({ vm: { name: 'web', mode: 'Save' } }, undefined, deleted);
    await pass();
    expect(calls).toEqual(['apply secrets', 'forget export', 'release']);
  });

  describe('of a VM whose ticket cannot be taken away', () => {
    test('goes, and says what stays', async () => {
      secretRefusal = new Svc3Error('Invalid', 'data: Forbidden: field is immutable when `immutable` is set');
      given({ vm: { name: 'web', mode: 'Save' } }, wasStored, deleted);
      await pass();
      expect([stored, told()]).toEqual([undefined, ['Warning TicketKept']]);
    });

    test('says why while that may pass', async () => {
      secretRefusal = new Svc3Error('InternalError', 'failed calling webhook');
      given({ vm: { name: 'web', mode: 'Save' } }, wasStored, deleted);
      expect(await pass()).toMatchObject({ requeueAfterMs: expect.any(Number) });
      expect(ready()).toMatchObject({
        status: 'False',
        reason: 'WorkerRefused',
        message: 'the ticket of its worker cannot be taken away: failed calling webhook',
      });
      seen();
      secretRefusal = undefined;
      await pass();
      expect(stored).toBeUndefined();
    });

    test('loses its worker all the same when it is done', async () => {
      secretRefusal = new Svc3Error('Invalid', 'immutable');
      given({ vm: { name: 'web', mode: 'Save' } });
      pods = [aWorker(ended(done))];
      await pass();
      expect([ready()?.status, pods, told()]).toEqual(['True', [], ['Normal Stored', 'Warning TicketKept']]);
    });
  });
});

describe('an Image that is gone although it was held', () => {
  const vanish = () => {
    vanished.observe(key, { kind: 'deleted', object: stored as Disk } as never);
    stored = undefined;
    cached = undefined;
  };
  const put = () => store.put('svc3/team/disk', 'one', lying);

  test('has what lies in the store taken away, once', async () => {
    given(remote, isThere);
    vanish();
    put();
    await pass();
    expect(store.manifests.size).toBe(0);
    put();
    await pass();
    expect(store.manifests.size).toBe(2);
  });

  test('is kept for a VM that the cache does not show yet', async () => {
    given(remote, isThere);
    vanish();
    put();
    liveUsers = 'VM web';
    expect(await pass()).toEqual({ requeueAfterMs: 1_000 });
    expect(store.manifests.size).toBe(2);
    liveUsers = undefined;
    await pass();
    expect(store.manifests.size).toBe(0);
  });

  test('leaves it to the next of its name', async () => {
    given(remote, isThere);
    vanish();
    put();
    stored = anImage(remote, undefined, { uid: 'another' });
    await pass();
    expect(store.manifests.size).toBe(2);
  });

  test('ends its workers first, and is looked at again', async () => {
    given(remote, isThere);
    pods = [aWorker({ phase: 'Running' })];
    vanish();
    put();
    expect(await pass()).toEqual({ requeueAfterMs: 1_000 });
    expect([calls, store.manifests.size]).toEqual([['delete pods'], 2]);
    await pass();
    expect(store.manifests.size).toBe(0);
  });

  test('and of which nothing is known has nothing to be done', async () => {
    stored = undefined;
    cached = undefined;
    expect(await pass()).toBeUndefined();
    expect([calls, store.calls]).toEqual([[], []]);
  });
});
