import { expect, test } from 'vitest';
import { requestsKvm } from '../../../../../src/controllers/vm/facts/kvm.ts';
import { buildPod } from '../../../../../src/controllers/vm/pod/pod.ts';
import { storedMeta } from '../../../../support/storedmeta.ts';
import { podInput } from '../builders.ts';

test('a pod asks for kvm where it is to run under that', () => {
  const pod = (accelerator: 'kvm' | 'tcg') => {
    const { placement } = podInput();
    const built = buildPod(podInput({ placement: { ...placement, accelerator } }));
    return { ...built, metadata: storedMeta(built.metadata) };
  };
  expect([requestsKvm(pod('kvm')), requestsKvm(pod('tcg'))]).toEqual([true, false]);
});
