import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { PersistentVolumeClaim } from '../../../../../src/api/core.ts';
import type { VmSpec } from '../../../../../src/api/vm.ts';
import { ClaimGrowth } from '../../../../../src/controllers/vm/pod/claimgrowth.ts';
import { type ErrorReason, Svc3Error } from '../../../../../src/errors.ts';
import { storedMeta } from '../../../../support/storedmeta.ts';
import { aVm, effective } from '../builders.ts';

const patch = vi.fn();
const event = vi.fn();
let now: number;
let growth: ClaimGrowth;

const aClaim = (uid = 'claim-uid'): PersistentVolumeClaim => ({
  metadata: storedMeta({
    name: 'svc3-vm-web',
    namespace: 'team',
    uid,
    annotations: { 'svc3.dev/vm-uid': 'vm-uid' },
    labels: { 'svc3.dev/disk': 'true' },
  }),
  spec: { resources: { requests: { storage: '22Gi' } } },
  status: { phase: 'Bound', capacity: { storage: '22Gi' } },
});
const disk = (size: string) => ({ storage: 'Persistent' as const, size });
const aGrown = (size = '40Gi') =>
  aVm({
    spec: { disk: disk(size) },
    status: { effective: { ...effective, disk: disk('20Gi') } },
  });
const refuse = (message: string) => patch.mockRejectedValue(new Svc3Error('Forbidden', message));

beforeEach(() => {
  patch.mockReset().mockResolvedValue(undefined);
  event.mockReset();
  now = 1_000;
  growth = new ClaimGrowth({
    client: { patch } as never,
    recorder: { event },
    monotonic: () => now,
  });
});

describe('a claim', () => {
  test('is grown once for a size, and for another size again', async () => {
    // Looked at again until the cache shows it.
    expect(await growth.grow(aGrown(), aClaim())).toEqual({ againMs: 2_000 });
    expect(await growth.grow(aGrown(), aClaim())).toEqual({ againMs: 2_000 });
    expect(patch).toHaveBeenCalledOnce();
    await growth.grow(aGrown('80Gi'), aClaim());
    expect(patch).toHaveBeenCalledTimes(2);
    expect(event).not.toHaveBeenCalled();
  });

  test('is grown again where it was lost and made anew', async () => {
    await growth.grow(aGrown(), aClaim());
    await growth.grow(aGrown(), aClaim('another'));
    expect(patch).toHaveBeenCalledTimes(2);
  });

  test('that must not grow is asked for again after a minute, and told of once', async () => {
    refuse('exceeded quota');
    expect(await growth.grow(aGrown(), aClaim())).toEqual({ refusal: 'exceeded quota', againMs: 60_000 });
    now += 20_000;
    expect(await growth.grow(aGrown(), aClaim())).toEqual({ refusal: 'exceeded quota', againMs: 40_000 });
    expect(patch).toHaveBeenCalledOnce();
    now += 40_000;
    expect(await growth.grow(aGrown(), aClaim())).toEqual({ refusal: 'exceeded quota', againMs: 60_000 });
    expect([patch.mock.calls.length, event.mock.calls.length]).toEqual([2, 1]);
    expect(event.mock.calls[0]?.[1]).toMatchObject({ reason: 'VolumeNotGrown', message: 'exceeded quota' });
    refuse('only dynamically provisioned pvc can be resized');
    now += 60_000;
    await growth.grow(aGrown(), aClaim());
    expect(event).toHaveBeenCalledTimes(2);
    patch.mockResolvedValue(undefined);
    now += 60_000;
    expect(await growth.grow(aGrown(), aClaim())).toEqual({ againMs: 2_000 });
    expect(patch).toHaveBeenCalledTimes(4);
  });

  test.each<[ErrorReason, string]>([
    ['Invalid', 'only dynamically provisioned pvc can be resized'],
    ['BadRequest', 'admission webhook "policy" denied the request: too large'],
    ['InternalError', 'failed calling webhook "policy": no answer'],
  ])('is told of where what refuses it says %s', async (reason, message) => {
    patch.mockRejectedValue(new Svc3Error(reason, message));
    expect(await growth.grow(aGrown(), aClaim())).toEqual({ refusal: message, againMs: 60_000 });
    expect(event).toHaveBeenCalledOnce();
  });

  test('that is gone is no refusal', async () => {
    patch.mockRejectedValue(new Svc3Error('NotFound', 'no such claim'));
    await expect(growth.grow(aGrown(), aClaim())).rejects.toThrow('no such claim');
    expect(event).not.toHaveBeenCalled();
  });

  test('that somebody asks for less of is asked for again, and told of where that does not last', async () => {
    const refusal = 'claim svc3-vm-web was asked for 44Gi and asks for 22Gi: somebody has lowered it';
    await growth.grow(aGrown(), aClaim());
    now += 59_999;
    expect(await growth.grow(aGrown(), aClaim())).toEqual({ againMs: 2_000 });
    expect(patch).toHaveBeenCalledOnce();
    now += 1;
    expect(await growth.grow(aGrown(), aClaim())).toEqual({ againMs: 2_000 });
    expect(patch).toHaveBeenCalledTimes(2);
    for (const asks of [3, 4]) {
      now += 60_000;
      expect(await growth.grow(aGrown(), aClaim())).toEqual({ refusal, againMs: 60_000 });
      expect(patch).toHaveBeenCalledTimes(asks);
    }
    now += 20_000;
    expect(await growth.grow(aGrown(), aClaim())).toEqual({ refusal, againMs: 40_000 });
    expect(event).toHaveBeenCalledOnce();
  });

  test('is asked for again at once where the call failed', async () => {
    patch.mockRejectedValueOnce(new Svc3Error('Timeout', 'no answer'));
    await expect(growth.grow(aGrown(), aClaim())).rejects.toThrow('no answer');
    await growth.grow(aGrown(), aClaim());
    expect(patch).toHaveBeenCalledTimes(2);
  });

  test('of a VM that asks for no more is left alone', async () => {
    expect(await growth.grow(aGrown('20Gi'), aClaim())).toEqual({});
    expect(await growth.grow(aGrown(), undefined)).toEqual({});
    expect(patch).not.toHaveBeenCalled();
  });
});

describe('the volume of a claim that was grown', () => {
  const volume = (status: PersistentVolumeClaim['status'], storage = '44Gi'): PersistentVolumeClaim => ({
    ...aClaim(),
    spec: { resources: { requests: { storage } } },
    status: { phase: 'Bound', capacity: { storage: '22Gi' }, ...status },
  });
  const keeps = 'the volume of claim svc3-vm-web has 22Gi, of 44Gi that are asked for';
  const conditionOf = (type: string, message?: string) => ({
    type,
    status: 'True',
    ...(message === undefined ? {} : { message }),
  });
  const look = (claim: PersistentVolumeClaim) => growth.grow(aGrown(), claim);

  test('is waited for, and told of only where it takes longer than it mostly does', async () => {
    const conditions = [conditionOf('FileSystemResizePending', 'waiting for a pod')];
    expect(await look(volume({}))).toEqual({ againMs: 2_000 });
    now += 119_999;
    expect(await look(volume({ conditions }))).toEqual({ againMs: 2_000 });
    now += 1;
    expect(await look(volume({ conditions }))).toEqual({
      delay: `${keeps}: FileSystemResizePending: waiting for a pod`,
      againMs: 60_000,
    });
    expect(await look(volume({}))).toEqual({ delay: `${keeps}: nobody says why`, againMs: 60_000 });
    // Another size is another wait.
    expect(await growth.grow(aGrown('80Gi'), volume({}, '88Gi'))).toEqual({ againMs: 2_000 });
    expect(patch).not.toHaveBeenCalled();
  });

  test('is waited for from when the claim was asked for more', async () => {
    await growth.grow(aGrown(), aClaim());
    now += 120_000;
    expect(await look(volume({}))).toMatchObject({ delay: expect.stringContaining(keeps) });
    expect(patch).toHaveBeenCalledOnce();
  });

  test.each([
    [
      [conditionOf('Resizing'), conditionOf('ControllerResizeError', 'the volume is in use')],
      'the volume is in use',
    ],
    [[conditionOf('NodeResizeError', 'no such device')], 'no such device'],
  ])('that cannot grow is told of at once: %j', async (conditions, why) => {
    const type = conditions.at(-1)?.type;
    expect(await look(volume({ conditions }))).toEqual({
      delay: `${keeps}: ${type}: ${why}`,
      againMs: 60_000,
    });
  });

  test.each(['ControllerResizeInfeasible', 'NodeResizeInfeasible'])('%s is told of at once', async (word) => {
    const allocatedResourceStatuses = { storage: word };
    expect(await look(volume({ allocatedResourceStatuses }))).toMatchObject({ delay: `${keeps}: ${word}` });
  });

  test('where nothing but its state is said, that is told', async () => {
    const status = { allocatedResourceStatuses: { storage: 'NodeResizePending' } };
    await look(volume(status));
    now += 120_000;
    expect(await look(volume(status))).toMatchObject({ delay: `${keeps}: NodeResizePending` });
    const ended = { conditions: [{ type: 'NodeResizeError', status: 'False', message: 'over' }] };
    expect(await look(volume(ended))).toMatchObject({ delay: `${keeps}: nobody says why` });
  });

  test('is not waited for where it is large enough, or where nobody has said yet what it has', async () => {
    expect(await look(volume({ capacity: { storage: '44Gi' } }))).toEqual({});
    expect(await look({ ...volume({}), status: { phase: 'Pending' } })).toEqual({});
    // Restored, or made by somebody: larger than was asked for.
    expect(await look(volume({ capacity: { storage: '50Gi' } }, '22Gi'))).toEqual({});
    expect(patch).not.toHaveBeenCalled();
  });
});

describe('the claims of data disks', () => {
  const logs = { name: 'logs', size: '40Gi' };
  const claims = new Map<string, PersistentVolumeClaim>();
  const withDisks = (...disks: NonNullable<VmSpec['disks']>) =>
    growth.growData(aVm({ spec: { disks } }), (name) => claims.get(name));

  beforeEach(() => {
    claims.clear();
    for (const name of ['svc3-vm-web.logs', 'svc3-vm-web.more'])
      claims.set(name, { ...aClaim(`${name}-uid`), metadata: { ...aClaim(`${name}-uid`).metadata, name } });
  });

  test('are asked for what the spec says, each once', async () => {
    expect(await withDisks(logs, { name: 'more', size: '80Gi' })).toEqual({ againMs: 2_000 });
    await withDisks(logs, { name: 'more', size: '80Gi' });
    expect(patch.mock.calls.map(([, { name }, { body }]) => [name, body.spec])).toEqual([
      ['svc3-vm-web.logs', { resources: { requests: { storage: '44Gi' } } }],
      ['svc3-vm-web.more', { resources: { requests: { storage: '88Gi' } } }],
    ]);
  });

  test('that must not grow are told with the way back', async () => {
    refuse('exceeded quota');
    expect(await withDisks(logs)).toEqual({
      refusal:
        'exceeded quota; for the size of before take disks[logs] out of spec.disks and add it with that size: its claim stays',
      againMs: 60_000,
    });
    claims.clear();
    expect(await withDisks(logs)).toEqual({});
  });

  test('are let be where there is no size, or room', async () => {
    expect(await withDisks({ name: 'old', claimName: 'svc3-vm-web.logs' })).toEqual({});
    expect(await withDisks({ name: 'logs', size: '20Gi' })).toEqual({});
    expect(patch).not.toHaveBeenCalled();
  });

  test('are forgotten with their VM', async () => {
    await withDisks(logs);
    growth.forget('vm-uid');
    await withDisks(logs);
    expect(patch).toHaveBeenCalledTimes(2);
  });
});
