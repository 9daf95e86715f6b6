import { storedMeta } from '../../../../support/storedmeta.ts';
import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { Node, Pod } from '../../../../../src/api/core.ts';
import type { KubeObject, Resource } from '../../../../../src/api/object.ts';
import { vms } from '../../../../../src/api/resources.ts';
import type { Vm } from '../../../../../src/api/vm.ts';
import { expired } from '../../../../../src/controllers/vm/life/expiry.ts';
import { Svc3Error } from '../../../../../src/errors.ts';
import { aPoolVm, aStandby, ownedBy } from '../../vmpool/builders.ts';
import { aPod, aVm, effective, runnerState, runningStatus } from '../builders.ts';

/** What kube-apiserver has, by plural and name; what is not there is not found. */
let stored: Record<string, KubeObject>;
const get = vi.fn(async (resource: Resource<KubeObject>, name: string) => {
  const found = stored[`${resource.plural}/${name}`];
  if (found === undefined) throw new Svc3Error('NotFound', `${name} is not there`);
  return found;
});

/** When kube-apiserver answers, by its own clock; undefined: a proxy has taken that away. */
let servedAt: string | undefined;
const request = async ({ path }: { readonly path: string }) => {
  const body = await get(vms, path.split('/').at(-1) ?? '');
  return {
    status: 200,
    body,
    headers: servedAt === undefined ? {} : { date: new Date(servedAt).toUTCString() },
  };
};

/** Created at 10:00:00, to be given up at 10:00:20. */
const vm = aVm({ spec: { startDeadlineSeconds: 20 }, status: { conditions: [] } });
const late = '2026-11-01T10:00:20Z';
const pulling = aPod({ nodeName: 'n1', status: { phase: 'Pending' } });

function judge(given: { pod?: Pod; runner?: ReturnType<typeof runnerState>; at?: string; vm?: Vm } = {}) {
  const runners = { recent: () => given.runner };
  return expired(
    'team/web',
    { vm: given.vm ?? vm, pod: given.pod, node: undefined, claim: undefined } as never,
    { client: { get, request }, runners, now: () => new Date(given.at ?? late) } as never,
  );
}

beforeEach(() => {
  stored = { 'vms/web': vm };
  get.mockClear();
  servedAt = undefined;
});

test('a VM whose guest never ran is over at its deadline, as it is in kube-apiserver', async () => {
  expect(await judge({ at: '2026-11-01T10:00:19.999Z' })).toBeUndefined();
  expect(await judge()).toBe(vm);
  stored['pods/svc3-vm-web'] = pulling;
  expect(await judge({ pod: pulling })).toBe(vm);
});

test('nor is it over before kube-apiserver’s clock says so, which has said when the VM was made', async () => {
  servedAt = '2026-11-01T10:00:19Z';
  expect(await judge({ at: '2026-11-01T10:07:00Z' })).toBeUndefined();
  servedAt = late;
  expect(await judge()).toBe(vm);
  servedAt = '2026-11-01T11:00:00Z';
  expect(await judge({ at: '2026-11-01T10:00:19.999Z' })).toBeUndefined();
});

test('one without a deadline never is', async () => {
  const unlimited = aVm();
  stored['vms/web'] = unlimited;
  expect(await judge({ vm: unlimited, at: '2027-01-01T00:00:00Z' })).toBeUndefined();
});

describe('one that has not been placed and says none itself', () => {
  const { cpu, memory, gpuPassthrough, vncConsole } = effective;
  const planned = { image: 'web', cpu, memory, gpuPassthrough, vncConsole, startDeadlineSeconds: 20 };
  const status = { conditions: [], planned };
  const config = (startDeadlineSeconds?: number) => ({
    metadata: storedMeta({ name: 'small', namespace: 'team' }),
    spec: startDeadlineSeconds === undefined ? {} : { startDeadlineSeconds },
  });
  const ofConfig = aVm({ spec: { config: 'small' }, status });
  const ofPool = aVm({ spec: { pool: 'ci' }, status });
  const pool = (template: object) => ({
    metadata: storedMeta({ name: 'ci', namespace: 'team' }),
    spec: { template },
  });

  test.each<[says: string, objects: Record<string, object>, vm: Vm, isOver: boolean]>([
    ['its VMConfig still says it', { 'vmconfigs/small': config(20) }, ofConfig, true],
    ['its VMConfig says a later one by now', { 'vmconfigs/small': config(600) }, ofConfig, false],
    ['its VMConfig says none any more', { 'vmconfigs/small': config() }, ofConfig, false],
    ['its VMConfig is gone', {}, ofConfig, false],
    ['its VMPool still says it', { 'vmpools/ci': pool({ startDeadlineSeconds: 20 }) }, ofPool, true],
    ['its VMPool says a later one', { 'vmpools/ci': pool({ startDeadlineSeconds: 600 }) }, ofPool, false],
    [
      'the VMConfig of its VMPool says a later one',
      { 'vmpools/ci': pool({ config: 'small' }), 'vmconfigs/small': config(600) },
      ofPool,
      false,
    ],
    ['its VMPool is gone', {}, ofPool, false],
  ])('goes by what its template says now, not by its status: %s', async (_says, objects, waiting, isOver) => {
    stored = { 'vms/web': waiting, ...(objects as typeof stored) };
    expect(await judge({ vm: waiting })).toBe(isOver ? waiting : undefined);
  });
});

describe('what the caches do not know yet keeps it', () => {
  test.each<[string, () => void]>([
    ['a pod that is ready', () => (stored['pods/svc3-vm-web'] = aPod({ status: runningStatus(true) }))],
    ['a power state', () => (stored['vms/web'] = aVm({ spec: vm.spec, status: { powerState: 'Stopped' } }))],
    [
      'a deadline that was put off',
      () => (stored['vms/web'] = aVm({ spec: { startDeadlineSeconds: 600 }, status: { conditions: [] } })),
    ],
    [
      'another VM of its name',
      () => (stored['vms/web'] = { ...vm, metadata: { ...vm.metadata, uid: 'other' } }),
    ],
    [
      'a deletion',
      () => (stored['vms/web'] = { ...vm, metadata: { ...vm.metadata, deletionTimestamp: late } }),
    ],
    ['that nothing has been reported of it', () => (stored['vms/web'] = aVm({ spec: vm.spec }))],
    ['that it is gone', () => delete stored['vms/web']],
  ])('%s', async (_, change) => {
    change();
    expect(await judge()).toBeUndefined();
  });
});

test('nothing is asked where the caches say already that it has run', async () => {
  expect(await judge({ pod: aPod({ status: runningStatus(true) }) })).toBeUndefined();
  expect(get).not.toHaveBeenCalled();
});

describe('a pod whose container has run', () => {
  const up = aPod({ nodeName: 'n1', status: runningStatus(false) });
  beforeEach(() => {
    stored['pods/svc3-vm-web'] = up;
  });

  test('is judged by its runner, and kept while that does not answer', async () => {
    const never = runnerState({ powerState: 'Failed', reason: 'GpuBusy', guestStarted: false });
    expect(await judge({ pod: up })).toBeUndefined();
    expect(await judge({ pod: up, runner: never })).toBe(vm);
    expect(await judge({ pod: up, runner: runnerState({ guestStarted: true }) })).toBeUndefined();
  });

  test('is not judged by the answer of the pod before it', async () => {
    const never = runnerState({ powerState: 'Failed', reason: 'GpuBusy', guestStarted: false });
    stored['pods/svc3-vm-web'] = aPod({
      nodeName: 'n1',
      status: runningStatus(false),
      metadata: { uid: 'next' },
    });
    expect(await judge({ pod: up, runner: never })).toBeUndefined();
  });
});

test('an outage of kube-apiserver is no leave to delete', async () => {
  get.mockRejectedValueOnce(new Svc3Error('ServiceUnavailable', 'away'));
  await expect(judge()).rejects.toThrow('away');
});

test('the kubelet of a lost node may have started it', async () => {
  const lost: Node = {
    metadata: storedMeta({ name: 'n1' }),
    status: { conditions: [{ type: 'Ready', status: 'Unknown' }] },
  };
  stored['pods/svc3-vm-web'] = pulling;
  stored['nodes/n1'] = lost;
  expect(await judge({ pod: pulling })).toBeUndefined();
});

test('a VM whose own pod runs is kept where the guest that it chose first is another VM’s', async () => {
  const chose = aVm({ spec: vm.spec, status: { podName: 'svc3-pool-1' } });
  stored['vms/web'] = chose;
  stored['pods/svc3-pool-1'] = ownedBy(aPoolVm('first'), aStandby('1'));
  stored['pods/svc3-vm-web'] = aPod({ nodeName: 'n1', status: runningStatus(true) });
  expect(await judge({ vm: chose })).toBeUndefined();
});
