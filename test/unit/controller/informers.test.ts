import { expect, test, vi } from 'vitest';
import { pods, vms } from '../../../src/api/resources.ts';
import { createInformers } from '../../../src/controller/informers.ts';
import type { KubeClient } from '../../../src/kube/types.ts';

const log = { debug: vi.fn(), info: vi.fn(), warn: vi.fn(), error: vi.fn() };
/** Nothing is asked of it: none of the informers runs. */
const client = {} as KubeClient;

test('a resource has one informer for each namespace and selector, with the indexes of all who ask', () => {
  const informers = createInformers(client, log);
  const first = informers.get(pods, { indexes: { byNode: () => [] } });
  expect(informers.get(pods, { indexes: { byOwner: () => [] } })).toBe(first);
  for (const index of ['byNode', 'byOwner']) expect(first.byIndex(index, 'x')).toEqual([]);
  const others = [
    informers.get(vms),
    informers.get(pods, { namespace: 'team' }),
    informers.get(pods, { labelSelector: 'a=b' }),
    informers.get(pods, { fieldSelector: 'a=b' }),
  ];
  expect(new Set([first, ...others]).size).toBe(5);
});

test('after the start there are those that were asked for before', async () => {
  const informers = createInformers(client, log);
  const known = informers.get(pods);
  await informers.run(AbortSignal.abort());
  expect(() => informers.get(vms)).toThrow('the informer of vms is asked for after the start');
  expect(known.resource).toBe(pods);
});
