import { describe, expect, test, vi } from 'vitest';
import type { Vm, VmSpec, VmStatus } from '../../../src/api/vm.ts';
import { Svc3Error } from '../../../src/errors.ts';
import type { KubeClient } from '../../../src/kube/types.ts';
import { changeVm, type ChangeOptions } from '../../../src/usecases/change.ts';
import type { Waited, Waiter } from '../../../src/usecases/waiter.ts';
import type { VmChangeRequest } from '../../../src/wire/vmchange.ts';
import { aVm, effective } from '../controllers/vm/builders.ts';

const keysStay =
  'spec.sshAuthorizedKeys: The seed has them at the next start; cloud-init puts keys into a guest once in the life of a VM, and again after a revert: a key that is taken out here stays in the guest until it is deleted there.';

const userDataStays =
  'spec.userData: cloud-init runs most of it once in the life of a VM, and again after a revert.';

const diskGoes =
  'disk.whenDeleted has no effect: the disk is Ephemeral and goes with its pod; only one with disk.storage Persistent is on a claim';

const placed: VmStatus = { observedGeneration: 1, effective, warnings: ['an old one'] };

const withKeys: VmStatus = {
  ...placed,
  effective: { ...effective, sshAuthorizedKeys: ['ssh-ed25519 A'] },
};

/** A change of a VM that goes through these states; a wait that none of them ends, ends like this. */
function world(
  states: readonly Vm[] = [],
  end: Waited<Vm>['kind'] = 'timeout',
  gpuPassthroughEnabled = true,
) {
  const vm = aVm({ status: placed });
  const patched = aVm({ status: placed, metadata: { generation: 2 } });
  const patch = vi.fn(async (..._given: unknown[]) => patched);
  const wait: Waiter = async (_resource, start, { done }) => {
    const seen = states.find((state) => done(state as unknown as typeof start)) as unknown as typeof start;
    if (seen !== undefined) return { kind: 'done', object: seen };
    return end === 'gone' ? { kind: 'gone' } : { kind: 'timeout', object: start };
  };
  const warnings: string[] = [];
  const run = (request: VmChangeRequest, options: Partial<ChangeOptions> = {}) =>
    changeVm(
      {
        caller: { patch } as unknown as KubeClient,
        find: async () => vm,
        settings: async () => ({
          gpuPassthroughEnabled,
          hostPortsAllowed: { first: 20_000, last: 29_999 },
          defaultNamespace: 'svc3-default',
        }),
        wait,
      },
      { namespace: 'team', name: 'web' },
      request,
      { wait: true, warn: (text) => warnings.push(text), ...options },
    );
  return { run, patch, warnings, patched };
}

const lookedAt = (status: VmStatus = {}) =>
  aVm({ status: { ...placed, observedGeneration: 2, ...status }, metadata: { generation: 2 } });

describe('a change of a VM', () => {
  test('writes what is named, and returns once the operator has looked at it', async () => {
    const { run, patch, warnings } = world([
      aVm({ status: placed, metadata: { generation: 2 } }),
      lookedAt({ warnings: ['an old one', 'a new one'] }),
    ]);
    expect(await run({ cpu: 4 })).toMatchObject({ vm: { status: { observedGeneration: 2 } }, isSeen: true });
    expect(patch).toHaveBeenCalledWith(
      expect.anything(),
      { namespace: 'team', name: 'web' },
      { type: 'merge', body: { spec: { cpu: 4 } } },
    );
    expect(warnings).toEqual(['a new one']);
  });

  test.each<[what: string, request: VmChangeRequest, status: VmStatus | undefined, said: readonly string[]]>([
    ['other keys of a VM that was placed', { sshAuthorizedKeys: ['ssh-ed25519 B'] }, placed, [keysStay]],
    ['no keys', { sshAuthorizedKeys: [] }, withKeys, [keysStay]],
    ['the keys that it has', { sshAuthorizedKeys: ['ssh-ed25519 A'] }, withKeys, []],
    ['no keys where it has none', { sshAuthorizedKeys: [] }, placed, []],
    ['keys before it is placed', { sshAuthorizedKeys: ['ssh-ed25519 B'] }, undefined, []],
    ['other user data', { userData: { secretName: 'second' } }, placed, [userDataStays]],
    ['another size', { cpu: 4 }, withKeys, []],
    ['what becomes of a disk in the pod', { disk: { whenDeleted: 'Retain' } }, undefined, [diskGoes]],
    ['what becomes of a disk of which the operator tells', { disk: { whenDeleted: 'Retain' } }, placed, []],
  ])('to %s says what of it the guest does not take over', async (_what, request, status, said) => {
    const { run, patch, warnings } = world();
    patch.mockImplementation(async (...given) => {
      const [, , { body }] = given as [unknown, unknown, { body: { spec: Partial<VmSpec> } }];
      return aVm({ spec: body.spec, ...(status === undefined ? {} : { status }) });
    });
    await run(request, { wait: false });
    expect(warnings).toEqual(said);
  });

  test('to what has no effect says so, and once where the operator says it as well', async () => {
    const said = ['display.dpi has no effect: screens of QEMU report no dots per inch'];
    const { run, warnings } = world([lookedAt({ warnings: said })]);
    await run({ displayDPI: 96 }, { wait: false });
    expect(warnings.splice(0)).toEqual(said);
    await run({ displayDPI: 96 });
    expect(warnings).toEqual(said);
  });

  test('of another VM than the one that is meant is refused', async () => {
    const { run, patch } = world([lookedAt()]);
    await expect(run({ cpu: 4 }, { uid: 'before' })).rejects.toMatchObject({
      reason: 'Conflict',
      message: 'VM web is another one: its UID is vm-uid and not before',
    });
    expect(patch).not.toHaveBeenCalled();
    await run({ cpu: 4 }, { uid: 'vm-uid' });
    // It may have been made anew since it was looked at.
    expect(patch).toHaveBeenCalledWith(
      expect.anything(),
      { namespace: 'team', name: 'web' },
      { type: 'merge', body: { metadata: { uid: 'vm-uid' }, spec: { cpu: 4 } } },
    );
  });

  test('is accepted at once where nobody waits, and where the operator does not look at it', async () => {
    const { run, patched } = world();
    expect(await run({ cpu: 4 }, { wait: false })).toMatchObject({ vm: patched, isSeen: false });
    expect(await run({ cpu: 4 })).toMatchObject({ vm: patched, isSeen: false });
  });

  const going = aVm({
    status: placed,
    metadata: { generation: 3, deletionTimestamp: '2026-11-01T10:00:00Z' },
  });

  test('of a VM that is being deleted by then is refused', async () => {
    const refusal = { reason: 'Conflict', message: 'VM web is being deleted' };
    await expect(world([going]).run({ cpu: 4 })).rejects.toMatchObject(refusal);
    const { run, patch } = world([lookedAt()]);
    patch.mockResolvedValue(going);
    await expect(run({ cpu: 4 })).rejects.toMatchObject(refusal);
    await expect(run({ cpu: 4 }, { wait: false })).rejects.toMatchObject(refusal);
    const seen = aVm({ status: { ...placed, observedGeneration: 3 }, metadata: going.metadata });
    expect(await world([seen]).run({ cpu: 4 })).toMatchObject({ vm: seen, isSeen: true });
  });

  test('to what becomes of the disks of a VM that is being deleted is waited for as ever', async () => {
    const seen = aVm({ status: { ...placed, observedGeneration: 3 }, metadata: going.metadata });
    const { run, patch } = world([going, seen]);
    patch.mockResolvedValue(going);
    const request = { disk: { whenDeleted: 'Retain' } } as const;
    expect(await run(request)).toMatchObject({ vm: seen, isSeen: true });
    expect(await run(request, { wait: false })).toMatchObject({ vm: going, isSeen: false });
  });

  test('of a VM that is gone is refused', async () => {
    await expect(world([], 'gone').run({ cpu: 4 })).rejects.toMatchObject({ reason: 'NotFound' });
  });

  test('of nothing is refused', async () => {
    const { run, patch } = world();
    await expect(run({})).rejects.toMatchObject({
      reason: 'Invalid',
      details: { causes: [{ field: 'body' }] },
    });
    await expect(run({ memory: 0 })).rejects.toMatchObject({ reason: 'Invalid' });
    expect(patch).not.toHaveBeenCalled();
  });

  test('to ports that cannot be had closes none', async () => {
    const { run, patch } = world();
    await expect(run({ reservedPorts: '80,22:22' })).rejects.toMatchObject({
      reason: 'Invalid',
      details: { causes: [{ field: 'reservedPorts' }] },
    });
    expect(patch).not.toHaveBeenCalled();
  });

  test('to the namespace of the VM, where its configuration is anyhow, is none', async () => {
    const { run, patch } = world([lookedAt()]);
    expect(await run({ vmConfigNamespace: 'team' })).toMatchObject({ isSeen: true });
    const body = { spec: { configNamespace: null } };
    expect(patch).toHaveBeenCalledWith(expect.anything(), expect.anything(), { type: 'merge', body });
  });

  test('to a GPU that the cluster gives nobody is refused before it is written', async () => {
    const { run, patch } = world([lookedAt()], 'timeout', false);
    await expect(run({ gpuPassthrough: true })).rejects.toMatchObject({
      reason: 'Invalid',
      message: 'gpuPassthrough: GPU passthrough is not enabled in this cluster',
    });
    expect(patch).not.toHaveBeenCalled();
    expect(await run({ gpuPassthrough: false })).toMatchObject({ isSeen: true });
  });

  test("is refused in the request's words", async () => {
    const { run, patch } = world();
    const causes = [{ field: 'spec.ports', message: 'Forbidden: ports cannot change' }];
    patch.mockRejectedValue(
      new Svc3Error('Invalid', 'VM.svc3.dev "web" is invalid: …', { details: { causes } }),
    );
    await expect(run({ reservedPorts: '80' })).rejects.toMatchObject({
      message: 'reservedPorts: Forbidden: ports cannot change',
      details: { causes: [{ field: 'reservedPorts' }] },
    });
  });
});
