import { expect, test } from 'vitest';
import { buildWorkerPod } from '../../../../src/controllers/image/workerpod.ts';
import { anImage } from './builders.ts';

test('a worker pod goes to Linux nodes only', () => {
  const pod = buildWorkerPod({
    disk: anImage({ blank: { size: '1Gi' } }),
    kind: 'Image',
    id: 'a'.repeat(32),
    spec: { source: { type: 'remote', reference: 'r.example.com/debian:12' } },
    settings: { scratchBytes: 2 ** 30, workerImage: 'registry.example.com/svc3:test' },
  } as never);
  expect(pod.spec.nodeSelector).toEqual({ 'kubernetes.io/os': 'linux' });
});
