import { expect, test } from 'vitest';
import { buildWorkerPod } from '../../../../src/controllers/image/workerpod.ts';
import type { ImageSettings } from '../../../../src/controllers/image/settings.ts';
import { anImage } from './builders.ts';

const image = 'registry.example.com/svc3:test';
const build = (settings: Partial<ImageSettings> = {}) =>
  buildWorkerPod({
    disk: anImage({ blank: { size: '1Gi' } }),
    kind: 'Image',
    id: 'a'.repeat(32),
    spec: { source: { type: 'remote', reference: 'r.example.com/debian:12' } },
    settings: { scratchBytes: 2 ** 30, workerImage: image, ...settings },
  } as never);

test('a worker pod goes to Linux nodes only', () => {
  expect(build().spec.nodeSelector).toEqual({ 'kubernetes.io/os': 'linux' });
});

test('a worker pod says what its image is pulled with, whatever a webhook makes of that', () => {
  const pod = build({ workerImagePullPolicy: 'Always', workerPullSecret: 'registry' });
  const said = pod.metadata.annotations?.['svc3.dev/pulls-with'] ?? '';
  expect(JSON.parse(said)).toEqual({ image, policy: 'Always', secret: 'registry' });
});

test('a worker pod has room for the largest raw disk as it came and for what it is packed into', () => {
  const scratch = (settings: Partial<ImageSettings> = {}) =>
    build(settings).spec.volumes?.find(({ name }) => name === 'scratch');
  expect(scratch()).toEqual({ name: 'scratch', emptyDir: { sizeLimit: '2049Mi' } });
  expect(scratch({ scratchBytes: 1_000 })).toEqual({ name: 'scratch', emptyDir: { sizeLimit: '2001' } });
});
