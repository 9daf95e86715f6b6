import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { ClaimObserver } from '../../../../../src/controllers/vm/pool/claimobserver.ts';
import { PoolClaims, type PoolClaimsParts } from '../../../../../src/controllers/vm/pool/poolclaims.ts';
import { Svc3Error } from '../../../../../src/errors.ts';
import { aPoolVm, aStandby } from '../../vmpool/builders.ts';

const observer = { claimed: vi.fn<ClaimObserver['claimed']>(), told: vi.fn<ClaimObserver['told']>() };
const starts = { claiming: vi.fn(), claimed: vi.fn(), traceparent: () => undefined };
const standbys = { ofPool: vi.fn(), ofConfig: vi.fn(), forget: vi.fn() };
const client = { patch: vi.fn(), get: vi.fn() };
const expectations = { wrotePod: vi.fn() };
let nowMs: number;
let claims: PoolClaims;

beforeEach(() => {
  vi.clearAllMocks();
  nowMs = 0;
  const monotonic = () => nowMs;
  const parts = { client, expectations, standbys, observer, starts, monotonic };
  claims = new PoolClaims(parts as unknown as PoolClaimsParts);
});

const vm = aPoolVm('job');

describe('how long a VM waits for its guest', () => {
  test('counts from the first guest that was chosen for it', () => {
    claims.noteChosen(vm);
    nowMs = 1_000;
    claims.noteChosen(vm);
    nowMs = 1_500;
    claims.noteTold(vm.metadata.uid);
    expect(observer.told.mock.calls).toEqual([[1.5]]);
    expect([starts.claiming.mock.calls.length, starts.claimed.mock.calls.length]).toEqual([1, 1]);
  });

  test('is told once', () => {
    claims.noteChosen(vm);
    claims.noteTold(vm.metadata.uid);
    claims.noteTold(vm.metadata.uid);
    expect(observer.told).toHaveBeenCalledOnce();
  });

  test.each<[string, () => void]>([
    ['is gone', () => claims.forget(vm.metadata.uid)],
    ['gets a pod of its own', () => claims.noteOwnPod(vm, true)],
  ])('is not told of a VM that %s', (_, ends) => {
    claims.noteChosen(vm);
    ends();
    claims.noteTold(vm.metadata.uid);
    expect(observer.told).not.toHaveBeenCalled();
  });
});

describe('a guest that waits', () => {
  test('is warm for the VM that has it', async () => {
    client.patch.mockResolvedValue(aStandby('1'));
    expect(await claims.take(vm, aStandby('1'))).toBe('taken');
    expect(observer.claimed.mock.calls.map(([, result]) => result)).toEqual(['warm']);
    expect(standbys.forget).not.toHaveBeenCalled();
  });

  test('that is gone is lost, and promised to nobody', async () => {
    client.patch.mockRejectedValue(new Svc3Error('NotFound', 'no such pod'));
    expect(await claims.take(vm, aStandby('1'))).toBe('lost');
    expect(observer.claimed.mock.calls.map(([, result]) => result)).toEqual(['lost']);
    expect(standbys.forget).toHaveBeenCalledWith(vm.metadata.uid);
  });

  test('is not asked for where a pod was made for the VM', () => {
    standbys.ofPool.mockReturnValue(aStandby('1'));
    expect(claims.ofPoolUnclaimed(vm)).toBeDefined();
    expect(claims.ofPoolUnclaimed(aPoolVm('job', { status: { podName: 'svc3-vm-job' } }))).toBeUndefined();
  });
});

describe('a VM whose guest was given up', () => {
  test('gets no other guest for ten minutes', () => {
    standbys.ofPool.mockReturnValue(aStandby('1'));
    claims.noteChosen(vm);
    expect(claims.isChosenHere(vm.metadata.uid)).toBe(true);
    claims.noteGivenUp(vm.metadata.uid);
    expect(claims.isChosenHere(vm.metadata.uid)).toBe(false);
    expect(standbys.forget).toHaveBeenCalledWith(vm.metadata.uid);
    nowMs = 599_999;
    expect(claims.ofPool(vm)).toBeUndefined();
    expect(claims.ofPool(aPoolVm('other'))).toBeDefined();
    nowMs = 600_000;
    expect(claims.ofPool(vm)).toBeDefined();
  });

  test('is forgotten with it', () => {
    standbys.ofPool.mockReturnValue(aStandby('1'));
    claims.noteGivenUp(vm.metadata.uid);
    claims.forget(vm.metadata.uid);
    expect(claims.ofPool(vm)).toBeDefined();
  });
});

test('only a VM that wanted a guest which waits, and found none, is a cold start', () => {
  claims.noteOwnPod(vm, false);
  expect(observer.claimed).not.toHaveBeenCalled();
  claims.noteOwnPod(vm, true);
  expect(observer.claimed).toHaveBeenCalledWith(`${vm.metadata.namespace}/${vm.spec.pool}`, 'cold');
});

test.each<[string, () => void]>([
  ['gets a guest that waits first', () => claims.noteChosen(vm)],
  ['is gone', () => claims.forget(vm.metadata.uid)],
])('a VM that kube-scheduler was to find a node for and that %s is no cold start', (_, ends) => {
  claims.noteLeftToScheduler(vm);
  ends();
  claims.noteBound(vm.metadata.uid);
  expect(observer.claimed).not.toHaveBeenCalled();
});
