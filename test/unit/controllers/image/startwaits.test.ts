import { describe, expect, test } from 'vitest';
import type { Pod, PodStatus } from '../../../../src/api/core.ts';
import { isUnprepared, StartWaits } from '../../../../src/controllers/image/startwaits.ts';
import { storedMeta } from '../../../support/storedmeta.ts';

const onNode = (status: PodStatus, nodeName: string | undefined = 'n1'): Pod => ({
  metadata: storedMeta({ name: 'w', uid: 'pod-uid' }),
  spec: { containers: [], ...(nodeName === undefined ? {} : { nodeName }) },
  status,
});
const prepared = (status: 'True' | 'False'): PodStatus => ({
  conditions: [{ type: 'PodReadyToStartContainers', status }],
});
const container = { name: 'worker', ready: false, restartCount: 0, image: '', imageID: '' };

describe('a node has not prepared a pod', () => {
  test.each<[string, Pod, boolean]>([
    ['that it has said nothing of', onNode({ phase: 'Pending' }), true],
    ['whose network it says is not there', onNode(prepared('False')), true],
    ['whose network is there', onNode(prepared('True')), false],
    ['of which its kubelet does not tell', onNode({ containerStatuses: [container] }), false],
  ])('%s: %s', (_what, pod, expected) => {
    expect(isUnprepared(pod)).toBe(expected);
  });

  test('where there is no node yet', () => {
    const { spec, ...pod } = onNode({ phase: 'Pending' });
    expect(isUnprepared({ ...pod, spec: { containers: spec.containers } })).toBe(false);
  });
});

describe('the wait for a node', () => {
  test('is over five minutes after a pod was first seen to wait, whatever any clock says', () => {
    let now = 7_000_000;
    const waits = new StartWaits(() => now);
    expect(waits.isOver(onNode(prepared('False')))).toBe(false);
    now += 299_999;
    expect(waits.isOver(onNode(prepared('False')))).toBe(false);
    now += 1;
    expect(waits.isOver(onNode(prepared('False')))).toBe(true);
  });

  test('begins anew where the pod was prepared in between, and where it is gone', () => {
    let now = 0;
    const waits = new StartWaits(() => now);
    for (const end of [
      () => expect(waits.isOver(onNode(prepared('True')))).toBe(false),
      () => waits.forget('pod-uid'),
    ]) {
      waits.isOver(onNode(prepared('False')));
      now += 600_000;
      end();
      expect(waits.isOver(onNode(prepared('False')))).toBe(false);
    }
  });
});
