import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { PersistentVolumeClaim } from '../../../../../src/api/core.ts';
import { ClaimGrowth } from '../../../../../src/controllers/vm/pod/claimgrowth.ts';
import { Svc3Error } from '../../../../../src/errors.ts';
import { storedMeta } from '../../../../support/storedmeta.ts';
import { aVm, effective } from '../builders.ts';

const patch = vi.fn(async () => undefined);
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
