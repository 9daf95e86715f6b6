import { expect, test } from 'vitest';
import { nodeView } from '../../../src/cli/views.ts';
import { nodeItem, noUsage } from '../../../src/wire/node.ts';
import { storedMeta } from '../../support/storedmeta.ts';

const cell = (annotations: Record<string, string>) =>
  nodeView.columns
    .find(({ header }) => header === 'GPU REASON')
    ?.value(nodeItem({ metadata: storedMeta({ name: 'n1', annotations }) }, 'ns', noUsage), new Date(0));

test.each([
  ['none', {}, 'ns'],
  ['an empty one, which reserves nothing', { 'svc3.dev/namespace': '' }, 'ns'],
  ['one of its own', { 'svc3.dev/namespace': 'team' }, 'team'],
])('a node with %s as label of its namespace is of %s', (_, labels, namespace) => {
  expect(nodeItem({ metadata: storedMeta({ name: 'n1', labels }) }, 'ns', noUsage).namespace).toBe(namespace);
});

test('the wide list of nodes says why a GPU cannot be used', () => {
  const reason = 'the hardware does not qualify: it has no GPU';
  expect(cell({ 'svc3.dev/gpu-passthrough-reason': reason })).toBe(reason);
  expect(cell({})).toBeUndefined();
});
