import { beforeAll, expect, test, vi } from 'vitest';
import { configMaps, events, nodes } from '../../../src/api/resources.ts';
import { createRecorder, shortenNote } from '../../../src/kube/recorder.ts';
import { testCluster, uniqueNamespace } from '../../support/cluster.ts';
import type { TestCluster } from '../../support/cluster.ts';

let cluster: TestCluster;
let namespace: string;

beforeAll(async () => {
  cluster = await testCluster();
  namespace = await uniqueNamespace(cluster.client, 'recorder');
});

const log = () => ({ debug: vi.fn(), info: vi.fn(), warn: vi.fn(), error: vi.fn() });
const recorded = async (name: string) =>
  (await cluster.client.list(events, { namespace })).items.filter(
    ({ regarding }) => regarding?.name === name,
  );

async function subject(name: string) {
  return cluster.client.create(configMaps, { metadata: { name, namespace } });
}

test('an event stands on the server as kubectl shows it, and repeats of it are not written again', async () => {
  const recorder = createRecorder(cluster.client, { component: 'svc3-test', instance: 'pod-1', log: log() });
  const object = await subject('shown');
  for (let index = 0; index < 50; index += 1)
    recorder.event(object, { type: 'Warning', reason: 'Unschedulable', message: '0/1 nodes are available' });
  recorder.event(object, { type: 'Normal', reason: 'Scheduled', message: 'on n1' });
  await recorder.drain();
  const found = await recorded('shown');
  expect(found).toHaveLength(2);
  expect(new Set(found.map(({ reason }) => reason))).toEqual(new Set(['Scheduled', 'Unschedulable']));
  expect(found.find(({ reason }) => reason === 'Unschedulable')).toMatchObject({
    type: 'Warning',
    note: '0/1 nodes are available',
    reportingController: 'svc3.dev/svc3-test',
    reportingInstance: 'pod-1',
    regarding: { kind: 'ConfigMap', apiVersion: 'v1', namespace, name: 'shown', uid: object.metadata.uid },
  });
});

test('a repeat after a while counts the first one up', async () => {
  const recorder = createRecorder(cluster.client, { component: 'svc3-test', log: log(), flushMs: 1 });
  const object = await subject('series');
  const event = { type: 'Normal', reason: 'Again', message: 'and again' } as const;
  recorder.event(object, event);
  recorder.event(object, event);
  recorder.event(object, event);
  await expect.poll(async () => (await recorded('series')).map(({ series }) => series?.count)).toEqual([3]);
});

test('an event about an object without a namespace goes to the default one', async () => {
  const recorder = createRecorder(cluster.client, { component: 'svc3-test', log: log() });
  const name = `node-${namespace}`;
  recorder.event(
    { apiVersion: 'v1', kind: nodes.kind, metadata: { name, uid: name } },
    { type: 'Normal', reason: 'Qualified', message: 'it does' },
  );
  await recorder.drain();
  const { items } = await cluster.client.list(events, {
    namespace: 'default',
    fieldSelector: `regarding.name=${name}`,
  });
  expect(items).toHaveLength(1);
});

test('similar events about one object are combined, and do not silence another', async () => {
  const recorder = createRecorder(cluster.client, { component: 'svc3-test', log: log() });
  const [wild, calm] = [await subject('wild'), await subject('calm')];
  for (let index = 0; index < 200; index += 1)
    recorder.event(wild, { type: 'Normal', reason: 'Wild', message: `number ${index}` });
  recorder.event(calm, { type: 'Normal', reason: 'Calm', message: 'one' });
  await recorder.drain();
  const notes = (await recorded('wild')).map(({ note }) => note);
  expect(notes).toHaveLength(11);
  expect(notes).toContain('(combined from similar events): number 10');
  expect(await recorded('calm')).toHaveLength(1);
});

test('a flood about one object is cut, but for failures and starts, and told once', async () => {
  const lines = log();
  const dropped = vi.fn();
  const recorder = createRecorder(cluster.client, { component: 'svc3-test', log: lines, onDropped: dropped });
  const object = await subject('flood');
  for (let index = 0; index < 60; index += 1) {
    recorder.event(object, { type: 'Normal', reason: `Trifle${index}`, message: 'good to know' });
    recorder.event(object, { type: 'Warning', reason: `Failure${index}`, message: 'it failed' });
  }
  recorder.event(object, { type: 'Normal', reason: 'Booted', message: 'it runs' });
  await recorder.drain();
  const reasons = (await recorded('flood')).map(({ reason = '' }) => reason);
  expect(reasons.filter((reason) => reason.startsWith('Failure'))).toHaveLength(60);
  expect(reasons).toContain('Booted');
  const trifles = reasons.filter((reason) => reason.startsWith('Trifle')).length;
  expect(trifles).toBeLessThan(25);
  expect(dropped.mock.calls).toEqual(Array.from({ length: 60 - trifles }, () => ['flood']));
  expect(lines.warn).toHaveBeenCalledExactlyOnceWith({ count: 1, reason: 'flood' }, 'events dropped');
});

test('an event that cannot be written is a debug line and nothing else', async () => {
  const lines = log();
  const recorder = createRecorder(cluster.client, { component: 'svc3-test', log: lines });
  recorder.event(
    { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'x', namespace: 'nowhere' } },
    { type: 'Normal', reason: 'Lost', message: 'm' },
  );
  recorder.event({}, { type: 'Normal', reason: '', message: '' });
  await recorder.drain();
  expect(lines.debug).toHaveBeenCalled();
  expect(lines.warn).not.toHaveBeenCalled();
});

test('a long note is cut between characters', () => {
  const text = '€'.repeat(1_000);
  const note = shortenNote(text);
  expect(Buffer.byteLength(note)).toBeLessThanOrEqual(1_024);
  expect(note).toMatch(/^€+…$/);
  expect(shortenNote('short')).toBe('short');
});
