import { expect, test } from 'vitest';
import { slimObject } from '../../../src/api/slim.ts';

test('of labels and annotations only those are kept that svc3 reads', () => {
  const object = {
    kind: 'VM',
    metadata: {
      name: 'a',
      finalizers: ['svc3.dev/cleanup', 'example.com/other'],
      managedFields: [{ manager: 'kubectl' }],
      labels: {
        'app.kubernetes.io/part-of': 'svc3',
        'tag.svc3.dev/x': 'true',
        team: 'a',
        'notsvc3.dev/x': 'b',
      },
      annotations: { 'svc3.dev/owner': 'ada', 'kubectl.kubernetes.io/last-applied-configuration': '{}' },
    },
    spec: { image: 'debian' },
  };
  expect(slimObject(object)).toEqual({
    kind: 'VM',
    metadata: {
      name: 'a',
      finalizers: ['svc3.dev/cleanup', 'example.com/other'],
      labels: { 'app.kubernetes.io/part-of': 'svc3', 'tag.svc3.dev/x': 'true' },
      annotations: { 'svc3.dev/owner': 'ada' },
    },
    spec: { image: 'debian' },
  });
});

test('what is written under our own names is bounded too', () => {
  const annotations = Object.fromEntries(
    Array.from({ length: 1000 }, (_, index) => [`svc3.dev/n${index}`, 'x'.repeat(1000)]),
  );
  const { metadata } = slimObject({ metadata: { name: 'a', annotations } });
  expect(JSON.stringify(metadata).length).toBeLessThan(40_000);
});

test('an object without metadata or labels stays as it is', () => {
  expect(slimObject({})).toEqual({});
  expect(slimObject({ metadata: { name: 'a' } })).toEqual({ metadata: { name: 'a' } });
});
