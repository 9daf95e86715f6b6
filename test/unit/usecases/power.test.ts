import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { Vm, VmStatus } from '../../../src/api/vm.ts';
import { Svc3Error } from '../../../src/errors.ts';
import { execute } from '../../../src/usecases/power.ts';
import type { Waiter } from '../../../src/usecases/waiter.ts';
import type { PowerCommand } from '../../../src/wire/powercommands.ts';
import { condition } from '../controllers/image/builders.ts';
import { aVm } from '../controllers/vm/builders.ts';

const running: VmStatus = { powerState: 'Running', conditions: [condition('Booted', 'True', 'Booted')] };
const seen = aVm({ status: running });
const another = aVm({ metadata: { uid: 'another' }, status: running });
const patch = vi.fn<(...given: unknown[]) => Promise<Vm>>();
const now = vi.fn<() => Promise<Vm>>();
const environment = { writer: { patch } as never, wait: vi.fn() as never, now };
const conflict = new Svc3Error('Conflict', 'Precondition failed: UID in precondition');

beforeEach(() => {
  patch.mockReset();
  now.mockReset();
});

test('a command is for the VM that has the name now, where the one that was seen is gone', async () => {
  patch.mockRejectedValueOnce(conflict).mockResolvedValueOnce(another);
  now.mockResolvedValue(another);
  expect(await execute(environment, seen, 'suspend', { wait: false })).toBe(false);
  expect(patch.mock.lastCall?.slice(1)).toEqual([
    { name: 'web', namespace: 'team' },
    { type: 'merge', body: { metadata: { uid: 'another' }, spec: { powerState: 'Suspended' } } },
  ]);
});

test('a command that does not fit the VM that has the name now is refused in words about it', async () => {
  patch.mockRejectedValueOnce(conflict);
  now.mockResolvedValue(aVm({ metadata: { uid: 'another' } }));
  await expect(execute(environment, seen, 'suspend', { wait: false })).rejects.toThrow(
    'VM web is Pending, suspend needs it to be Running',
  );
});

test('a write that is refused of the very VM is not repeated', async () => {
  patch.mockRejectedValue(conflict);
  now.mockResolvedValue(seen);
  await expect(execute(environment, seen, 'suspend', { wait: false })).rejects.toBe(conflict);
  expect(patch).toHaveBeenCalledOnce();
});

describe('a verb that another one overlaps', () => {
  const written = (spec: Partial<Vm['spec']>, generation: number, status: VmStatus = {}): Vm =>
    aVm({
      metadata: { generation },
      spec: { powerState: 'Running', ...spec },
      status: { ...running, revertRequest: 'older', restartRequest: 'older', ...status },
    });

  /** What becomes of a verb, written in generation 2 of a VM that is seen like this afterwards. */
  async function outcome(
    command: PowerCommand,
    seen: (requested: Partial<Vm['spec']>) => Vm,
    before = written({}, 1),
  ) {
    let requested: Partial<Vm['spec']> = {};
    patch.mockImplementation(async (...given) => {
      const [, , { body }] = given as [unknown, unknown, { body: { spec: Partial<Vm['spec']> } }];
      requested = body.spec;
      return written(requested, 2);
    });
    const wait: Waiter = async (_resource, start, { done }) => {
      if (done(start)) throw new Error('nothing has been done yet');
      const object = seen(requested) as unknown as typeof start;
      return { kind: done(object) ? 'done' : 'timeout', object };
    };
    return execute({ ...environment, wait }, before, command, { wait: true });
  }

  test('is said to be taken back', async () => {
    await expect(outcome('suspend', () => written({}, 3))).rejects.toMatchObject({
      reason: 'Conflict',
      message: 'another request for VM web came in between: it is to be Running',
    });
  });

  test('is done where it was carried out before', async () => {
    const suspended: VmStatus = { powerState: 'Suspended', observedGeneration: 2 };
    expect(await outcome('suspend', () => written({}, 3, suspended))).toBe(true);
  });

  const going = (spec: Partial<Vm['spec']>, status: VmStatus = {}): Vm => {
    const vm = written(spec, 3, status);
    return { ...vm, metadata: { ...vm.metadata, deletionTimestamp: '2026-11-01T10:00:30Z' } };
  };

  test.each<[PowerCommand, VmStatus]>([
    ['suspend', { observedGeneration: 2 }],
    ['stop', {}],
    ['restart', { observedGeneration: 3 }],
    ['revert', { observedGeneration: 3 }],
  ])('is refused where the VM is being deleted by then: %s', async (command, status) => {
    await expect(outcome(command, (spec) => going(spec, status))).rejects.toMatchObject({
      reason: 'Conflict',
      message: 'another request for VM web came in between: it is being deleted',
    });
  });

  test('is refused where the deletion was there before it was written, though nobody waits', async () => {
    patch.mockResolvedValue(going({ powerState: 'Suspended' }));
    await expect(execute(environment, written({}, 1), 'suspend', { wait: false })).rejects.toThrow(
      'it is being deleted',
    );
  });

  test('is done where it was carried out before the deletion', async () => {
    const suspended: VmStatus = { powerState: 'Suspended', observedGeneration: 2 };
    expect(await outcome('suspend', (spec) => going(spec, suspended))).toBe(true);
  });

  test.each(['revert', 'restart'] as const)('is done with the newer %s', async (command) => {
    const newer: Partial<Vm['spec'] & VmStatus> = { [`${command}Request`]: 'newer' };
    const seen = (status: VmStatus) => written(newer, 3, { observedGeneration: 3, ...status });
    expect(await outcome(command, () => seen({}))).toBe(false);
    expect(await outcome(command, () => seen(newer))).toBe(true);
  });

  test('goes on where only something else has changed', async () => {
    const grown = (spec: Partial<Vm['spec']>, status: VmStatus) =>
      written({ ...spec, cpu: 4 }, 3, { observedGeneration: 3, ...status });
    expect(await outcome('restart', (spec) => grown(spec, {}))).toBe(false);
    const restarted = ({ restartRequest = '' }: Partial<Vm['spec']>) => ({ restartRequest });
    expect(await outcome('restart', (spec) => grown(spec, restarted(spec)))).toBe(true);
  });

  test('goes on with the start that is asked for by now', async () => {
    const failed: VmStatus = { powerState: 'Failed', conditions: [], observedGeneration: 3 };
    const newer = (status: VmStatus) => written({ startRequest: 'newer' }, 3, { ...failed, ...status });
    const start = (status: VmStatus) => outcome('start', () => newer(status), written({}, 1, failed));
    expect(await start({})).toBe(false);
    await expect(start({ startRequest: 'newer' })).rejects.toThrow('VM web is Failed');
  });

  test.each([
    ['that is in the spec no longer', {}],
    ['in whose place an older one is that was carried out', { revertRequest: 'older' }],
  ])('is said to be taken back with a revert %s', async (_what, spec) => {
    await expect(outcome('revert', () => written(spec, 3, { observedGeneration: 3 }))).rejects.toThrow(
      'another request for VM web came in between: what was asked for was taken back',
    );
  });
});
