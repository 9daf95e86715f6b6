import { expect, test } from 'vitest';
import { ignoredLabels } from '../../../../src/controllers/node/ignoredlabels.ts';
import { storedMeta } from '../../../support/storedmeta.ts';

const ignored = (labels: Record<string, string>) =>
  ignoredLabels({ metadata: storedMeta({ name: 'n1', labels }) });

test.each([
  ['svc3.dev/accelerator', 'kvm'],
  ['svc3.dev/accelerator', 'tcg'],
  ['tag.svc3.dev/ci', 'true'],
  ['svc3.dev/allow-gpu-passthrough', 'perhaps'],
  ['example.com/accelerator', 'xen'],
])('label %s=%s is none to tell of', (label, value) => {
  expect(ignored({ [label]: value })).toEqual([]);
});

test('labels of ours whose value means nothing are told of one by one, in order', () => {
  expect(ignored({ 'tag.svc3.dev/ci': 'false', 'svc3.dev/accelerator': 'xen' })).toEqual([
    'label svc3.dev/accelerator is "xen" and counts as absent: it has to be "kvm" or "tcg"',
    'label tag.svc3.dev/ci is "false" and counts as absent: it has to be "true"',
  ]);
});

test('the order is that of their names, whatever order they came in', () => {
  const labels = Object.fromEntries(
    ['tag.svc3.dev/b', 'svc3.dev/accelerator', 'tag.svc3.dev/a'].map((label) => [label, 'x']),
  );
  expect(ignored(labels).map((sentence) => sentence.split(' ')[1])).toEqual([
    'svc3.dev/accelerator',
    'tag.svc3.dev/a',
    'tag.svc3.dev/b',
  ]);
});

test('a Node without labels has nothing to tell of', () => {
  expect(ignoredLabels({ metadata: storedMeta({ name: 'n1' }) })).toEqual([]);
});
