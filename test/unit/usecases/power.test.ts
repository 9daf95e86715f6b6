import { beforeEach, expect, test, vi } from 'vitest';
import type { Vm, VmStatus } from '../../../src/api/vm.ts';
import { Svc3Error } from '../../../src/errors.ts';
import { execute } from '../../../src/usecases/power.ts';
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
