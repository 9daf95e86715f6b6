import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { ImageStatus } from '../../../../src/api/image.ts';
import type { Condition } from '../../../../src/api/object.ts';
import type { Disk } from '../../../../src/controllers/image/caches.ts';
import { Reporter } from '../../../../src/controllers/image/reporter.ts';
import { Svc3Error } from '../../../../src/errors.ts';
import { anImage } from './builders.ts';

const apply = vi.fn();
const event = vi.fn();
const wrote = vi.fn();
const logged = vi.fn();
let now = 0;
let reporter: Reporter;

beforeEach(() => {
  for (const mock of [apply, event, wrote, logged]) mock.mockReset();
  apply.mockImplementation(async (_resource, object: object) => object);
  now = 1_000_000;
  const parts = { client: { apply }, recorder: { event }, expected: { wrote }, monotonic: () => now };
  reporter = new Reporter({ ...parts, kind: 'Image', log: { warn: logged } } as never);
});

const said = (type: string, status: Condition['status'], reason: string, message = ''): Condition => ({
  type,
  status,
  reason,
  message,
  lastTransitionTime: '2026-01-01T00:00:00Z',
});
const working = (progress: number): ImageStatus => ({
  progress,
  conditions: [said('Ready', 'False', 'Working', 'a worker pod is at work')],
});
const ready: ImageStatus = { digest: 'sha256:a', conditions: [said('Ready', 'True', 'Stored')] };
const disk = (status?: ImageStatus): Disk => anImage({ blank: { size: '1Gi' } }, status);
const told = () => event.mock.calls.map(([, { type, reason }]) => `${type} ${reason}`);

describe('the status of a disk', () => {
  test('is written, and expected in the cache', async () => {
    await reporter.report(disk(), ready);
    expect(apply.mock.calls[0]?.[1]).toMatchObject({
      metadata: { name: 'disk', uid: 'uid-1' },
      status: ready,
    });
    expect(wrote).toHaveBeenCalledWith('team/disk', expect.objectContaining({ status: ready }));
  });

  test('is not written where it says the same', async () => {
    await reporter.report(disk(ready), structuredClone(ready));
    expect(apply).not.toHaveBeenCalled();
  });

  test('says how far it is every five seconds, and anything else at once', async () => {
    await reporter.report(disk(), working(1));
    now += 4_999;
    await reporter.report(disk(working(1)), working(20));
    expect(apply).toHaveBeenCalledTimes(1);
    await reporter.report(disk(working(1)), ready);
    expect(apply).toHaveBeenCalledTimes(2);
    now += 5_000;
    await reporter.report(disk(working(1)), working(40));
    expect(apply).toHaveBeenCalledTimes(3);
  });

  test('of another disk of the name waits for nobody', async () => {
    await reporter.report(disk(), working(1));
    reporter.forget('uid-1');
    await reporter.report(disk(working(1)), working(2));
    expect(apply).toHaveBeenCalledTimes(2);
  });

  test('that nobody reads any more is told to nobody', async () => {
    apply.mockRejectedValue(new Svc3Error('NotFound', 'gone'));
    await reporter.report(disk(), ready);
    expect([wrote.mock.calls, event.mock.calls]).toEqual([[], []]);
  });
});

describe('events of a disk', () => {
  const failed = (message: string): ImageStatus => ({
    conditions: [said('Ready', 'False', 'RegistryUnreachable', message)],
  });
  const stalled: ImageStatus = {
    conditions: [said('Ready', 'False', 'NoDisk'), said('Stalled', 'True', 'NoDisk', 'it is a text')],
  };
  const committed = (status: Condition['status'], reason: string): ImageStatus => ({
    ...ready,
    conditions: [...(ready.conditions ?? []), said('Committed', status, reason)],
  });

  test.each<[string, ImageStatus | undefined, ImageStatus, string[]]>([
    ['tell that it is ready', working(90), ready, ['Normal Stored']],
    ['tell what went wrong', working(1), failed('refused'), ['Warning RegistryUnreachable']],
    [
      'tell it again when it is something else',
      failed('refused'),
      failed('no route'),
      ['Warning RegistryUnreachable'],
    ],
    ['tell it once', failed('refused'), { ...failed('refused'), progress: 3 }, []],
    ['tell what a person has to mend', working(1), stalled, ['Warning NoDisk']],
    ['tell nothing of work that goes on', undefined, working(1), []],
    [
      'tell that a commit failed, though the version before is ready',
      ready,
      committed('False', 'CommitFailed'),
      ['Warning CommitFailed'],
    ],
    ['tell nothing of a commit that goes on', ready, committed('Unknown', 'Committing'), []],
  ])('%s', async (_what, before, after, events) => {
    await reporter.report(disk(before), after);
    expect(told()).toEqual(events);
  });

  test('may warn of something that no status says', () => {
    reporter.warn(disk(), 'Odd', 'what is odd');
    expect(event).toHaveBeenCalledWith(expect.objectContaining({ kind: 'Image' }), {
      type: 'Warning',
      reason: 'Odd',
      message: 'what is odd',
    });
  });
});

test('a warning is in the log as well: of a namespace that goes no event is taken', () => {
  reporter.warn(disk(), 'KeptInStore', 'it stays');
  expect(told()).toEqual(['Warning KeptInStore']);
  const fields = { controller: 'image', namespace: 'team', name: 'disk', reason: 'KeptInStore' };
  expect(logged).toHaveBeenCalledWith(fields, 'it stays');
});
