import { expect, test } from 'vitest';
import type { Node } from '../../../src/api/core.ts';
import { labels } from '../../../src/api/meta.ts';
import type { KubeClient } from '../../../src/kube/types.ts';
import { assignNode, setGpuPassthrough, setNodeTag } from '../../../src/usecases/nodelabels.ts';

const key = { namespace: 'team', name: 'worker-1' };

/** A node with labels, undefined: there is none; and the labels that are written to it. */
function aNode(own?: Readonly<Record<string, string>>) {
  const written: unknown[] = [];
  const patch = async (_resource: unknown, { name }: { name: string }, { body }: { body: unknown }) =>
    written.push([name, body]);
  const writer = { patch } as unknown as KubeClient;
  const node = own === undefined ? undefined : ({ metadata: { name: 'worker-1', labels: own } } as Node);
  return { writer, find: async () => node, written };
}

const patched = (label: string, value: string | null) => [
  ['worker-1', { metadata: { labels: { [label]: value } } }],
];

test.each([
  ['tagged', true, {}, 'true'],
  ['tagged once more', true, { 'tag.svc3.dev/ssd': 'true' }, 'true'],
  ['untagged', false, { 'tag.svc3.dev/ssd': 'true' }, null],
  ['untagged though it has no such tag', false, {}, null],
  ['tagged where it is reserved for the namespace', true, { [labels.namespace]: 'team' }, 'true'],
])('a node is %s', async (_what, isTagged, own, value) => {
  const { written, ...environment } = aNode(own);
  await setNodeTag(environment, key, 'ssd', isTagged);
  expect(written).toEqual(patched('tag.svc3.dev/ssd', value));
});

test.each([
  ['that is not there', undefined],
  ['that is reserved for another namespace', { [labels.namespace]: 'others' }],
])('a node %s is not tagged', async (_what, own) => {
  const { written, ...environment } = aNode(own);
  await expect(setNodeTag(environment, key, 'ssd', true)).rejects.toMatchObject({
    reason: 'NotFound',
    message: 'nodes "worker-1" not found',
    details: { name: 'worker-1' },
  });
  expect(written).toEqual([]);
});

test('a node is reserved for a namespace and given back', async () => {
  const { writer, written } = aNode();
  await assignNode(writer, 'worker-1', 'team');
  await assignNode(writer, 'worker-1', undefined);
  expect(written).toEqual([...patched(labels.namespace, 'team'), ...patched(labels.namespace, null)]);
});

test('GPU passthrough is allowed on a node and forbidden again', async () => {
  const { writer, written } = aNode();
  await setGpuPassthrough(writer, 'worker-1', true);
  await setGpuPassthrough(writer, 'worker-1', false);
  const label = labels.allowGpuPassthrough;
  expect(written).toEqual([...patched(label, 'true'), ...patched(label, null)]);
});
