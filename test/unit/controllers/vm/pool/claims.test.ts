import { describe, expect, test, vi } from 'vitest';
import type { Pod } from '../../../../../src/api/core.ts';
import { vmConfigs } from '../../../../../src/api/resources.ts';
import type { VmConfig } from '../../../../../src/api/vmconfig.ts';
import {
  type ClaimParts,
  hasOwnPod,
  isUnchanged,
  mayHavePod,
  takePod,
} from '../../../../../src/controllers/vm/pool/claims.ts';
import { Svc3Error } from '../../../../../src/errors.ts';
import type { KubeClient } from '../../../../../src/kube/types.ts';
import { storedMeta } from '../../../../support/storedmeta.ts';
import { aPoolVm, aStandby, ownedBy } from '../../vmpool/builders.ts';

const vm = aPoolVm('job');
const seen = aStandby('1');
const conflict = new Svc3Error('Conflict', 'the object has been modified');
const notFound = new Svc3Error('NotFound', 'pods "svc3-pool-1" not found');

/** kube-apiserver answers the patches in this order, and has this pod. */
function server(answers: readonly ('taken' | Svc3Error)[], now?: Pod) {
  const left = [...answers];
  const patch = vi.fn(
    async (_resource: unknown, _key: unknown, _patch: { body: { metadata: Pod['metadata'] } }) => {
      const answer = left.shift() ?? 'taken';
      if (answer !== 'taken') throw answer;
      return ownedBy(vm, seen);
    },
  );
  const get = vi.fn(async () => {
    if (now === undefined) throw notFound;
    return now;
  });
  const wrotePod = vi.fn();
  const client = { patch, get } as unknown as KubeClient;
  const parts = { client, expectations: { wrotePod }, status: {} } as unknown as ClaimParts;
  return { parts, client, patch, wrotePod };
}

const changed = (metadata: Partial<Pod['metadata']>): Pod => ({
  ...seen,
  metadata: { ...seen.metadata, ...metadata },
});

describe('a pod becomes the VM’s', () => {
  test('where it is still as it was seen', async () => {
    const { parts, patch, wrotePod } = server([]);
    expect(await takePod(parts, vm, seen)).toMatchObject({ kind: 'taken' });
    expect(patch.mock.calls[0]?.[2].body.metadata).toMatchObject({ uid: 'uid-1', resourceVersion: '5' });
    expect(wrotePod).toHaveBeenCalledOnce();
  });

  test('also where its kubelet has written meanwhile, as it is now', async () => {
    const { parts, patch } = server([conflict], changed({ resourceVersion: '6' }));
    expect(await takePod(parts, vm, seen)).toMatchObject({ kind: 'taken' });
    expect(patch.mock.calls.map((call) => call[2].body.metadata.resourceVersion)).toEqual(['5', '6']);
  });

  test('once, where the reply to the patch was lost', async () => {
    const { parts, patch } = server([conflict], ownedBy(vm, seen));
    expect(await takePod(parts, vm, seen)).toMatchObject({ kind: 'taken' });
    expect(patch).toHaveBeenCalledOnce();
  });
});

describe('a pod is lost', () => {
  test.each<[sentence: string, answer: Svc3Error, now: Pod | undefined]>([
    ['that is gone', notFound, undefined],
    ['that has gone meanwhile', conflict, undefined],
    ['that another VM was first to take', conflict, ownedBy(aPoolVm('first'), seen)],
    [
      'that its pool is giving up, or that goes with its pool',
      conflict,
      changed({ deletionTimestamp: '2026-11-01T10:00:00Z' }),
    ],
    ['whose name another pod has now', conflict, changed({ uid: 'another' })],
    ['that is no pool’s any more', conflict, changed({ ownerReferences: [] })],
  ])('%s', async (_sentence, answer, now) => {
    expect(await takePod(server([answer], now).parts, vm, seen)).toEqual({ kind: 'lost' });
  });

  test('not where kube-apiserver does not answer: that is tried again', async () => {
    const away = new Svc3Error('ServiceUnavailable', 'away');
    await expect(takePod(server([away]).parts, vm, seen)).rejects.toBe(away);
  });
});

describe('a VM that has chosen a guest which the cache does not show', () => {
  const chosen = aPoolVm('job', { status: { podName: 'svc3-pool-1' } });
  test.each<[sentence: string, now: Pod | undefined, expected: boolean]>([
    ['waits for it where it is its own', ownedBy(chosen, seen), true],
    ['waits for it where it may become its own', seen, true],
    ['chooses another where it is another VM’s', ownedBy(aPoolVm('first'), seen), false],
    ['chooses another where it is going', changed({ deletionTimestamp: '2026-11-01T10:00:00Z' }), false],
    ['chooses another where it is gone', undefined, false],
  ])('%s', async (_sentence, now, expected) => {
    expect(await mayHavePod(server([], now).client, chosen)).toBe(expected);
  });

  test('asks for none where it has chosen none, or a pod of its own', async () => {
    const { client } = server([], seen);
    expect(await mayHavePod(client, vm)).toBe(false);
    expect(await mayHavePod(client, aPoolVm('job', { status: { podName: 'svc3-vm-job' } }))).toBe(false);
  });
});

test('a pod that the leader before has made for the VM is asked for by its name', async () => {
  expect(await hasOwnPod(server([], seen).client, vm)).toBe(true);
  expect(await hasOwnPod(server([]).client, vm)).toBe(false);
});

describe('a VMConfig', () => {
  const config = (given: object = {}): VmConfig => ({
    metadata: storedMeta({ name: 'builder', namespace: 'team', generation: 1, ...given }),
    spec: {},
  });
  test.each<[sentence: string, now: VmConfig | undefined, expected: boolean]>([
    ['is as the cache has it', config({ resourceVersion: '9' }), true],
    ['has changed since', config({ generation: 2 }), false],
    ['was made again', config({ uid: 'another' }), false],
    ['is gone', undefined, false],
  ])('%s', async (_sentence, now, expected) => {
    const get = async (resource: unknown) => {
      expect(resource).toBe(vmConfigs);
      if (now === undefined) throw notFound;
      return now;
    };
    expect(await isUnchanged({ get } as unknown as KubeClient, config())).toBe(expected);
  });
});
