import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { KubeObject } from '../../../../src/api/object.ts';
import { waitAnnotated, waitGone, waitSeen } from '../../../../src/http/call/visible.ts';
import type { Watchers } from '../../../../src/http/call/watchers.ts';
import { storedMeta } from '../../../support/storedmeta.ts';

const until = vi.fn<Watchers<KubeObject>['until']>();
const changes = { until } as unknown as Watchers<KubeObject>;
const { signal } = new AbortController();
const metadata = storedMeta({ name: 'web', namespace: 'team', uid: 'u', generation: 3 });

/** What is waited for, of which object, and the signal that ends it. */
const [key, isOver, end] = [0, 1, 2].map((at) => () => until.mock.calls[0]?.[at]) as unknown as [
  () => object,
  () => (found: KubeObject | undefined) => boolean,
  () => AbortSignal,
];

beforeEach(() => void until.mockReset().mockResolvedValue(undefined));

describe('what was written', () => {
  test('is waited for until the cache has it, or what came after', async () => {
    let show = (): void => undefined;
    until.mockReturnValue(new Promise((resolve) => (show = () => resolve(undefined))));
    let isSeen = false;
    const waiting = waitSeen(changes, { metadata }, signal).then(() => (isSeen = true));
    await new Promise((resolve) => setImmediate(resolve));
    expect(isSeen).toBe(false);
    show();
    await waiting;
    expect(key()).toEqual({ name: 'web', namespace: 'team' });
    const found = (more: object): boolean => isOver()({ metadata: { ...metadata, ...more } });
    expect([found({}), found({ generation: 4 })]).toEqual([true, true]);
    expect([found({ generation: 2 }), found({ generation: undefined }), found({ uid: 'other' })]).toEqual([
      false,
      false,
      false,
    ]);
    expect(isOver()(undefined)).toBe(false);
  });

  test('is not there in an object that shows no generation, also of the first', async () => {
    await waitSeen(changes, { metadata: { ...metadata, generation: 1 } }, signal);
    expect(isOver()({ metadata: { ...metadata, generation: undefined } } as never)).toBe(false);
  });

  test('without a generation is there as soon as the object is', async () => {
    const { generation: _generation, ...bare } = metadata;
    await waitSeen(changes, { metadata: bare }, signal);
    expect(isOver()({ metadata: bare })).toBe(true);
  });
});

test('an annotation that was written is waited for, whatever the generation is', async () => {
  const written = { ...metadata, annotations: { upload: 'new' } };
  await waitAnnotated(changes, { metadata: written }, 'upload', signal);
  expect(key()).toEqual({ name: 'web', namespace: 'team' });
  const found = (more: object): boolean => isOver()({ metadata: { ...metadata, ...more } });
  const annotations = { upload: 'new', other: 'x' };
  expect([found({ annotations }), found({ annotations, generation: undefined })]).toEqual([true, true]);
  expect([
    found({}),
    found({ annotations: { upload: 'old' } }),
    found({ annotations, uid: 'other' }),
  ]).toEqual([false, false, false]);
  expect([isOver()(undefined), isOver()({})]).toEqual([false, false]);
});

test('what was deleted is waited for until it is gone, or about to be', async () => {
  await waitGone(changes, { name: 'web', namespace: 'team' }, signal);
  expect(key()).toEqual({ name: 'web', namespace: 'team' });
  expect(isOver()(undefined)).toBe(true);
  expect(isOver()({ metadata })).toBe(false);
  expect(isOver()({ metadata: { ...metadata, deletionTimestamp: '2026-01-01T00:00:00Z' } })).toBe(true);
});

describe.each([
  ['written', (given: AbortSignal) => waitSeen(changes, { metadata }, given)],
  ['annotated', (given: AbortSignal) => waitAnnotated(changes, { metadata }, 'upload', given)],
  ['deleted', (given: AbortSignal) => waitGone(changes, { name: 'web', namespace: 'team' }, given)],
])('what was %s', (_what, wait) => {
  test('is waited for no longer than a second, and by nobody who has gone', async () => {
    const timeout = vi.spyOn(AbortSignal, 'timeout');
    const given = new AbortController();
    await wait(given.signal);
    expect(timeout).toHaveBeenCalledWith(1_000);
    expect(end().aborted).toBe(false);
    given.abort();
    expect(end().aborted).toBe(true);
    timeout.mockRestore();
  });

  test('is done, seen or not', async () => {
    until.mockRejectedValue(new Error('over'));
    await expect(wait(signal)).resolves.toBeUndefined();
  });
});
