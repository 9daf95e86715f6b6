import { describe, expect, test } from 'vitest';
import type { Node, Pod, PodStatus } from '../../../src/api/core.ts';
import { isUnprepared, StartWaits } from '../../../src/controllers/startwaits.ts';
import { storedMeta } from '../../support/storedmeta.ts';

const onNode = (status: PodStatus, nodeName: string | undefined = 'n1'): Pod => ({
  metadata: storedMeta({ name: 'w', uid: 'pod-uid' }),
  spec: { containers: [], ...(nodeName === undefined ? {} : { nodeName }) },
  status,
});
const prepared = (status: 'True' | 'False'): PodStatus => ({
  conditions: [{ type: 'PodReadyToStartContainers', status }],
});
const container = { name: 'worker', ready: false, restartCount: 0, image: '', imageID: '' };
const nodeWith = (kubeletVersion: string): Node => ({
  metadata: storedMeta({ name: 'n1' }),
  status: { nodeInfo: { kubeletVersion } as never },
});

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
  const forMs = (waits: StartWaits) => waits.of(onNode(prepared('False')), undefined)?.forMs;

  test('is as long as the pod has been seen to wait, whatever any clock says', () => {
    let now = 7_000_000;
    const waits = new StartWaits(() => now);
    expect(forMs(waits)).toBe(0);
    now += 299_999;
    expect(forMs(waits)).toBe(299_999);
  });

  test('begins anew where the pod was prepared in between, and where it is gone', () => {
    let now = 0;
    const waits = new StartWaits(() => now);
    for (const end of [
      () => expect(waits.of(onNode(prepared('True')), undefined)).toBeUndefined(),
      () => waits.forget('pod-uid'),
    ]) {
      forMs(waits);
      now += 600_000;
      end();
      expect(forMs(waits)).toBe(0);
    }
  });

  // Before that they say it once the images are there, which may take an hour (Kubernetes 1.36, changelog).
  test.each([
    ['v1.35.4', false],
    ['v1.36.3', true],
    ['v1.36.0-eks-1a2b3c4', true],
    ['v1.40.0+k3s1', true],
    ['v2.0.0', true],
    ['kwok-v0.8.0', false],
    ['', false],
  ])('is not for images of a kubelet %j: %s', (version, isCertain) => {
    const waits = new StartWaits(() => 0);
    expect(waits.of(onNode(prepared('False')), nodeWith(version))).toEqual({ forMs: 0, isCertain });
  });

  test('is for no images where the kubelet has said nothing, and may be for some where the node is not known', () => {
    const waits = new StartWaits(() => 0);
    const silent = onNode({ phase: 'Pending' });
    expect(waits.of(silent, nodeWith('v1.35.4'))?.isCertain).toBe(true);
    expect(waits.of(onNode(prepared('False')), undefined)?.isCertain).toBe(false);
  });
});
