import { describe, expect, test } from 'vitest';
import type { Pod, PodStatus } from '../../../../src/api/core.ts';
import { workerView } from '../../../../src/controllers/image/workerview.ts';
import { done } from './builders.ts';
import { storedMeta } from '../../../support/storedmeta.ts';

const pod = (status: PodStatus, deletionTimestamp?: string): Pod => ({
  metadata: storedMeta({
    name: 'w',
    annotations: { 'svc3.dev/pulls-with': 'this' },
    ...(deletionTimestamp === undefined ? {} : { deletionTimestamp }),
  }),
  spec: { containers: [] },
  status,
});

function ended(exitCode: number, message: string, more: Partial<PodStatus> = {}): Pod {
  const state = { terminated: { exitCode, message, ...(exitCode === 137 ? { reason: 'OOMKilled' } : {}) } };
  return pod({
    phase: exitCode === 0 ? 'Succeeded' : 'Failed',
    containerStatuses: [{ name: 'worker', ready: false, restartCount: 0, image: '', imageID: '', state }],
    ...more,
  });
}

const view = (one: Pod, pullsWith = 'this') => workerView(one, 5, pullsWith);

function waits(reason: string): Pod {
  const waiting = { reason, message: 'why' };
  const container = { name: 'worker', ready: false, restartCount: 0, image: '', imageID: '' };
  return pod({ phase: 'Pending', containerStatuses: [{ ...container, state: { waiting } }] });
}

describe('a worker pod', () => {
  test('that is done tells what it made', () => {
    expect(view(ended(0, JSON.stringify(done)))).toEqual({ phase: 'Done', result: done });
  });

  test('that refused a disk tells why', () => {
    const failure = { result: 'Failed', reason: 'DiskRefused', message: 'no' };
    expect(view(ended(1, JSON.stringify(failure)))).toMatchObject({ phase: 'Failed', failure });
  });

  test.each<[string, object | undefined, object | undefined]>([
    ['as it said', { registry: 'r.example.com', reason: 'Forbidden' }, undefined],
    ['unless nobody knows its reason', { registry: 'r.example.com', reason: 'Sleeping' }, {}],
    ['unless its name is none', { registry: 'r'.repeat(300), reason: 'Forbidden' }, {}],
  ])('names the registry that it failed with, %s', (_what, failedRequest, read = { failedRequest }) => {
    const failure = { result: 'Failed', reason: 'RegistryDenied', message: 'no' };
    const worker = view(ended(1, JSON.stringify({ ...failure, failedRequest })));
    expect(worker).toEqual({ phase: 'Failed', failure: { ...failure, ...read }, finishedAt: 5 });
  });

  test.each<[string, Pod, string]>([
    ['ran out of memory', ended(137, ''), 'the worker pod failed: it ran out of memory'],
    ['ended without a word', ended(3, ''), 'the worker pod failed'],
    ['left lines of its log', ended(1, 'first\nlast'), 'the worker pod failed: last'],
    [
      'was evicted',
      pod({ phase: 'Failed', reason: 'Evicted', message: 'the node is full' }),
      'the node is full',
    ],
    ['claims to be done and is not', ended(0, '{"result":"Done","digest":"x"}'), 'the worker pod failed'],
  ])('that %s has failed', (_what, ending, message) => {
    expect(view(ending)).toMatchObject({
      phase: 'Failed',
      failure: { reason: 'WorkerFailed', message: expect.stringContaining(message) },
    });
  });

  test.each([
    ['Evicted', 'Pod ephemeral local storage usage exceeds the total limit of containers 40Gi. '],
    ['DeadlineExceeded', 'Pod was active on the node longer than the specified deadline'],
    ['Terminated', 'Pod was terminated in response to imminent node shutdown.'],
  ])('that its kubelet stopped (%s) tells why, not that it was stopped', (reason, message) => {
    const failure = { result: 'Failed', reason: 'WorkerFailed', message: 'the worker was told to stop' };
    const words = JSON.stringify(failure);
    expect(view(ended(1, words, { reason, message }))).toMatchObject({
      phase: 'Failed',
      failure: { reason: 'WorkerFailed', message: `the worker pod failed: ${message.trim()}` },
    });
    expect(view(ended(1, words, { reason }))).toMatchObject({
      failure: { message: `the worker pod failed: ${reason}` },
    });
    expect(view(ended(1, words, { phase: 'Running', reason, message }))).toMatchObject({ failure });
    expect(view(ended(1, words))).toMatchObject({ failure });
  });

  test.each([
    ['a verdict on its disk', { reason: 'DiskRefused' }],
    ['what a registry said', { reason: 'RegistryUnreachable' }],
    [
      'the request that it failed with',
      { reason: 'WorkerFailed', failedRequest: { registry: 'r.example.com', reason: 'Unreachable' } },
    ],
  ])('that its kubelet stopped after %s tells that', (_what, more) => {
    const failure = { result: 'Failed', message: 'no', ...more };
    const worker = view(
      ended(1, JSON.stringify(failure), { reason: 'Evicted', message: 'the node is full' }),
    );
    expect(worker).toMatchObject({ phase: 'Failed', failure });
  });

  test('that cannot start says what it waits for', () => {
    const waiting = { reason: 'ImagePullBackOff', message: 'no such image' };
    const status = {
      name: 'worker',
      ready: false,
      restartCount: 0,
      image: '',
      imageID: '',
      state: { waiting },
    };
    expect(view(pod({ phase: 'Pending', containerStatuses: [status] }))).toMatchObject({
      phase: 'Waiting',
      message: 'waiting for the worker pod: ImagePullBackOff: no such image',
    });
    const unscheduled = {
      type: 'PodScheduled',
      status: 'False' as const,
      message: '0/1 nodes are available',
    };
    expect(view(pod({ phase: 'Pending', conditions: [unscheduled] }))).toMatchObject({
      message: 'waiting for the worker pod: 0/1 nodes are available',
    });
  });

  test.each<[string, string | undefined, boolean | undefined, string]>([
    ['a node', undefined, undefined, 'kube-scheduler has not chosen a node for it yet'],
    [
      'its sandbox',
      'n1',
      true,
      'node n1 has not prepared its volumes and network yet; the Events of pod w say more',
    ],
    [
      'its sandbox or its image',
      'n1',
      false,
      'node n1 has not prepared its volumes and network yet, or pulls its image; the Events of pod w say more',
    ],
    [
      'its container',
      'n1',
      undefined,
      'node n1 pulls its image or creates its container; the Events of pod w say more',
    ],
  ])('that waits for %s longer than usual says so', (_what, nodeName, isCertain, words) => {
    const unprepared = isCertain === undefined ? undefined : { forMs: 0, isCertain };
    const waiting = waits('ContainerCreating');
    const creationTimestamp = '2026-11-01T10:00:00Z';
    const one: Pod = {
      metadata: { ...waiting.metadata, creationTimestamp },
      spec: { containers: [], ...(nodeName === undefined ? {} : { nodeName }) },
      ...(waiting.status && { status: waiting.status }),
    };
    const created = Date.parse(creationTimestamp);
    const message = 'waiting for the worker pod';
    expect(workerView(one, created + 29_999, 'this', unprepared)).toMatchObject({
      phase: 'Waiting',
      message,
    });
    expect(workerView(one, created + 30_000, 'this', unprepared)).toMatchObject({
      phase: 'Waiting',
      message: `${message}: ${words}`,
    });
  });

  test.each(['ErrImagePull', 'ImagePullBackOff', 'ErrImageNeverPull', 'CreateContainerError'])(
    'that cannot start (%s) is outdated where another would be pulled otherwise',
    (reason) => {
      expect(view(waits(reason), 'other')).toEqual({ phase: 'Outdated' });
      expect(view(waits(reason))).toMatchObject({ phase: 'Waiting' });
      const ofBefore = waits(reason);
      expect(view({ ...ofBefore, metadata: storedMeta({ name: 'w' }) })).toEqual({ phase: 'Outdated' });
    },
  );

  test('that is on its way or at work is not outdated', () => {
    expect(view(waits('ContainerCreating'), 'other')).toMatchObject({ phase: 'Waiting' });
    expect(view(pod({ phase: 'Pending' }), 'other')).toMatchObject({ phase: 'Waiting' });
    expect(view(ended(0, JSON.stringify(done)), 'other')).toMatchObject({ phase: 'Done' });
    const going = pod(waits('ErrImagePull').status ?? {}, '1970-01-01T00:00:10Z');
    expect(view(going, 'other')).toMatchObject({ phase: 'Deleting' });
  });

  test('that runs is at work, and one that is being deleted is ending', () => {
    const running = {
      name: 'worker',
      ready: true,
      restartCount: 0,
      image: '',
      imageID: '',
      state: { running: {} },
    };
    const status: PodStatus = { phase: 'Running', podIP: '10.0.0.9', containerStatuses: [running] };
    expect(view(pod(status))).toMatchObject({ phase: 'Running', address: '10.0.0.9' });
    expect(view(pod(status, '1970-01-01T00:00:10Z'))).toEqual({ phase: 'Deleting', lostAt: 70_000 });
  });
});
