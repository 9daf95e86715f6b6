import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { Pod } from '../../../../src/api/core.ts';
import type { RunnerExport } from '../../../../src/api/runner.ts';
import { forgetExport, type PodWork, startExport } from '../../../../src/controllers/image/podwork.ts';
import type { RunnerExports } from '../../../../src/controllers/image/runner.ts';
import type { ImageSettings } from '../../../../src/controllers/image/settings.ts';
import { Svc3Error } from '../../../../src/errors.ts';
import { anImage, aVmSource } from './builders.ts';

const id = 'a'.repeat(32);
const workerName = `svc3-worker-${id}`;
const disk = anImage({ vm: { name: 'web', mode: 'Save' } });
const target: PodWork = {
  disk,
  kind: 'Image',
  path: { registry: 'store.example.com', repository: 'svc3/team/disk' },
  id,
};
const runner = { address: '10.0.0.1', fingerprint: 'pinned' };
const work = { kind: 'export', vm: 'web', source: { ...aVmSource(), runner } } as const;
const settings: ImageSettings = {
  store: { url: 'https://store.example.com', prefix: 'svc3' },
  workerImage: 'registry.example.com/svc3:test',
  workerImagePullPolicy: 'IfNotPresent',
  workerPullSecret: undefined,
  workerPort: 8444,
  scratchBytes: 2 ** 30,
  uploadExpiryMs: 3_600_000,
  maxVirtualBytes: 2 ** 40,
  runnerPort: 8443,
};

/** The worker pod that kube-apiserver has. */
let worker: Pod | undefined;
/** Those of VMs. */
let vmPod: Pod | undefined;
let copy: RunnerExport;
/** The copy that the runner has already. */
let known: RunnerExport | undefined;
const create = vi.fn();
const apply = vi.fn();
const startRunnerExport = vi.fn();
const exportTicket = vi.fn();
const deleteExport = vi.fn();
const opened = vi.fn();

const exports: RunnerExports = {
  startExport: startRunnerExport,
  getExport: async (asked) => {
    if (known === undefined) throw new Svc3Error('NotFound', `there is no export ${asked}`);
    return known;
  },
  exportTicket,
  deleteExport,
  fingerprint: () => undefined,
};
const parts = {
  client: {
    create,
    apply,
    get: async (_pods: unknown, name: string, namespace: string) => {
      const pod = name === workerName ? worker : vmPod;
      if (pod === undefined || namespace !== 'team') throw new Svc3Error('NotFound', 'no such pod');
      return pod;
    },
  } as never,
  settings,
  registries: { access: async () => ({ scheme: 'https', skipVerify: false }) } as never,
  openRunner: (to: object) => {
    opened(to);
    return exports;
  },
};

const ownedBy = (uid: string, more: object = {}) =>
  ({
    metadata: {
      name: workerName,
      ownerReferences: [{ apiVersion: 'svc3.dev/v1', kind: 'Image', name: 'disk', uid, controller: true }],
      ...more,
    },
  }) as unknown as Pod;

beforeEach(() => {
  worker = undefined;
  vmPod = undefined;
  known = undefined;
  copy = { id, state: 'Ready', progress: 100 };
  for (const mock of [create, apply, startRunnerExport, exportTicket, deleteExport, opened]) mock.mockReset();
  startRunnerExport.mockImplementation(async () => copy);
  deleteExport.mockResolvedValue(undefined);
  exportTicket.mockResolvedValue({ ticket: 'canary', path: '/v1/exports/a/data', expiresAt: '' });
});

const start = () => startExport(parts, target, work);
/** What the worker is told. */
const told = () => {
  const [, pod] = create.mock.calls[0] as [unknown, Pod];
  const variable = pod.spec.containers[0]?.env?.find(({ name }) => name === 'SVC3_WORK')?.value;
  return JSON.parse(variable ?? '{}') as { source: object; target: object };
};

describe('the disk of a VM that is saved', () => {
  test('is copied by the runner for this Image, which needs no copy that it asked for before', async () => {
    copy = { id, state: 'Copying', progress: 50 };
    expect(await start()).toEqual({ kind: 'copying', progress: 20 });
    expect(startRunnerExport).toHaveBeenCalledWith(id, disk.metadata.uid, false, undefined);
    expect(opened).toHaveBeenCalledWith({ address: '10.0.0.1', vmUid: 'u', pin: 'pinned' });
    expect(create).not.toHaveBeenCalled();
  });

  test.each([
    ['that the kubelet holds its pod to', 'now', 40],
    ['of nobody, where another pod has the name by now', 'next', undefined],
  ])('is copied within the limit %s', async (_whose, uid, podLimitBytes) => {
    const limits = { 'ephemeral-storage': '40' };
    vmPod = { metadata: { name: 'vm-web', uid }, spec: { containers: [{ resources: { limits } }] } } as never;
    const source = { ...work.source, podName: 'vm-web', podUid: 'now' };
    await startExport(parts, target, { ...work, source });
    expect(startRunnerExport).toHaveBeenCalledWith(id, disk.metadata.uid, false, podLimitBytes);
  });

  test('is copied without a limit where its pod is gone, whose runner says the rest', async () => {
    await startExport(parts, target, { ...work, source: { ...work.source, podName: 'vm-web' } });
    expect(startRunnerExport).toHaveBeenCalledWith(id, disk.metadata.uid, false, undefined);
  });

  test('goes to a worker with a ticket that stands in no pod', async () => {
    expect(await start()).toEqual({ kind: 'started', pod: workerName });
    expect(apply.mock.calls[0]?.[1].data).toEqual({ [id]: Buffer.from('canary').toString('base64') });
    expect(told()).toMatchObject({
      source: {
        type: 'export',
        address: '10.0.0.1',
        port: 8443,
        fingerprint: 'pinned',
        path: '/v1/exports/a/data',
      },
      target: { repository: 'svc3/team/disk', tag: id },
    });
    expect(JSON.stringify(create.mock.calls)).not.toContain('canary');
  });

  test('goes with the memory where that is asked for, and not at all where the runner knows of none', async () => {
    const withMemory = { ...target, disk: anImage({ vm: { name: 'web', mode: 'SaveWithMemory' } }) };
    await expect(startExport(parts, withMemory, work)).rejects.toMatchObject({
      verdict: { reason: 'RunnerUnreachable', message: expect.stringContaining('older version') },
    });
    expect(create).not.toHaveBeenCalled();
    exportTicket.mockResolvedValue({ ticket: 'canary', path: '/d', memoryPath: '/m', expiresAt: '' });
    await startExport(parts, withMemory, work);
    expect(startRunnerExport).toHaveBeenLastCalledWith(id, disk.metadata.uid, true, undefined);
    expect(told()).toMatchObject({ source: { path: '/d', memoryPath: '/m' } });
  });

  test('has one worker: one that is there keeps its ticket', async () => {
    worker = ownedBy(disk.metadata.uid);
    expect(await start()).toEqual({ kind: 'started', pod: workerName });
    expect([exportTicket, apply, create].map((mock) => mock.mock.calls.length)).toEqual([0, 0, 0]);
  });

  test.each<[what: string, pod: Pod, message: string]>([
    ['of another Image', ownedBy('another'), 'does not belong to Image disk'],
    ['that is going', ownedBy(disk.metadata.uid, { deletionTimestamp: 'now' }), 'is being deleted'],
  ])('waits while a pod %s has the name', async (_, pod, message) => {
    worker = pod;
    await expect(start()).rejects.toMatchObject({
      verdict: { reason: 'WorkerRefused', message: expect.stringContaining(message) },
    });
  });

  test('is copied once: what the runner has already is asked for and not begun again', async () => {
    known = { id, state: 'Copying', progress: 20 };
    expect(await start()).toEqual({ kind: 'copying', progress: 8 });
    known = { id, state: 'Ready', progress: 100 };
    expect(await start()).toEqual({ kind: 'started', pod: workerName });
    expect(startRunnerExport).not.toHaveBeenCalled();
  });

  test.each([
    ['says why, and is deleted for the next try', async () => undefined],
    ['says why, though it cannot be deleted now', () => Promise.reject(new Error('unreachable'))],
  ])('that the runner could not copy %s', async (_, deleting) => {
    deleteExport.mockImplementation(deleting);
    known = { id, state: 'Failed', progress: 0, message: 'no room' };
    await expect(start()).rejects.toMatchObject({
      verdict: { reason: 'WorkerFailed', message: 'VM web: its disk could not be copied: no room' },
    });
    expect(deleteExport).toHaveBeenCalledWith(id);
    // A runner that is asked to begin it anew says that it copies, and nothing of the failure.
    expect(startRunnerExport).not.toHaveBeenCalled();
  });

  test('whose runner does not answer says so', async () => {
    startRunnerExport.mockRejectedValue(new Svc3Error('Timeout', 'no answer'));
    await expect(start()).rejects.toMatchObject({
      verdict: { reason: 'RunnerUnreachable', message: 'VM web: no answer' },
    });
    await expect(startExport({ ...parts, openRunner: undefined }, target, work)).rejects.toMatchObject({
      verdict: { reason: 'RunnerUnreachable' },
    });
  });

  test('whose worker a quota refuses says so; one that somebody has just made is taken', async () => {
    create.mockRejectedValue(new Svc3Error('Forbidden', 'exceeded quota'));
    await expect(start()).rejects.toMatchObject({
      verdict: { reason: 'WorkerRefused', message: 'exceeded quota' },
    });
    create.mockImplementation(async () => {
      worker = ownedBy(disk.metadata.uid);
      throw new Svc3Error('AlreadyExists', 'there is one');
    });
    expect(await start()).toEqual({ kind: 'started', pod: workerName });
  });
});

describe('what is left of a save', () => {
  const forget = (vm?: Parameters<typeof forgetExport>[2]) => forgetExport(parts, target, vm);

  test('is taken away: the ticket, and the copy', async () => {
    await forget({ uid: 'u', runner });
    expect(apply.mock.calls[0]?.[1].data).toBeUndefined();
    expect(deleteExport).toHaveBeenCalledWith(id);
  });

  test('leaves nothing of the Secret to the disk but that it is an owner, so that the last of it goes with the disk', async () => {
    await forget();
    const { metadata, ...others } = apply.mock.calls[0]?.[1] ?? {};
    expect([Object.keys(metadata).toSorted(), Object.keys(others).toSorted()]).toEqual([
      ['name', 'namespace', 'ownerReferences'],
      ['apiVersion', 'kind'],
    ]);
  });

  test('is the ticket alone where there is no runner, or none that answers', async () => {
    await forget();
    await forget({ uid: 'u', runner: undefined });
    expect(deleteExport).not.toHaveBeenCalled();
    deleteExport.mockRejectedValue(new Error('unreachable'));
    await forget({ uid: 'u', runner });
    expect(apply).toHaveBeenCalledTimes(3);
  });

  test('goes with a namespace that is being deleted, and is tried again otherwise', async () => {
    apply.mockRejectedValue(new Svc3Error('Forbidden', 'the namespace is being terminated'));
    await forget({ uid: 'u', runner });
    expect(deleteExport).toHaveBeenCalledTimes(1);
    apply.mockRejectedValue(new Svc3Error('ServiceUnavailable', 'away'));
    await expect(forget({ uid: 'u', runner })).rejects.toThrow('away');
  });

  test.each(['Invalid', 'BadRequest', 'MethodNotAllowed'] as const)(
    'is the ticket, and why, where the Secret does not take that (%s); the copy goes',
    async (reason) => {
      expect(await forget()).toBeUndefined();
      apply.mockRejectedValue(new Svc3Error(reason, 'it is immutable'));
      expect(await forget({ uid: 'u', runner })).toBe(
        'the ticket of its worker stays in Secret svc3-worker-tickets: it is immutable',
      );
      expect(deleteExport).toHaveBeenCalledTimes(1);
    },
  );
});
