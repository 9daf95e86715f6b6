import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Context } from '../../../src/cli/context.ts';
import { showSaving, showWork } from '../../../src/cli/longwork.ts';
import { Svc3Error } from '../../../src/errors.ts';
import type { DiskItem, Disks } from '../../../src/cli/service/types.ts';

const item = (given: Partial<DiskItem>): DiskItem =>
  ({ name: 'golden', state: 'Creating', ...given }) as DiskItem;

let shown: { items: DiskItem[]; lines: string[]; progress: string[]; interrupted: string[] };

function aContext({ format = 'table', signal = new AbortController().signal } = {}): Context {
  shown = { items: [], lines: [], progress: [], interrupted: [] };
  return {
    signal,
    namespace: async () => 'team',
    ifInterrupted: (message: string) => shown.interrupted.push(message),
    out: {
      format,
      item: async (_view: unknown, one: DiskItem) => shown.items.push(one),
      line: (text: string) => shown.lines.push(text),
      progress: (text: string) => shown.progress.push(text),
    },
  } as unknown as Context;
}

/** What the service says of the disk, look by look. */
let looks: (DiskItem | Svc3Error)[];
const disks = {
  async get() {
    const look = looks.shift() ?? item({ state: 'Ready' });
    if (look instanceof Svc3Error) throw look;
    return look;
  },
} as unknown as Disks;
const begun = item({});

beforeEach(() => {
  looks = [];
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

/** What comes of it within two minutes, without the wait. */
async function soon<T>(work: Promise<T>): Promise<T> {
  const [result] = await Promise.allSettled([work, vi.advanceTimersByTimeAsync(120_000)]);
  if (result.status === 'rejected') throw result.reason;
  return result.value;
}

describe('work on a disk', () => {
  test('is shown as it begins where nobody waits', async () => {
    looks = [item({ state: 'Failed' })];
    await showWork(aContext(), 'image', { begun, disks, wait: false });
    expect(shown.items).toEqual([begun]);
    expect(looks).toHaveLength(1);
  });

  test('is shown at its end where somebody waits, with how far it is', async () => {
    looks = [item({}), item({ progress: 40 }), item({ state: 'Ready' })];
    await soon(showWork(aContext(), 'image', { begun, disks, wait: true }));
    expect(shown.items).toEqual([item({ state: 'Ready' })]);
    expect(shown.progress).toEqual(['image golden: Creating', 'image golden: 40%']);
  });

  test('says before it waits what becomes of it when one stops', async () => {
    looks = [item({ state: 'Ready' })];
    await soon(showWork(aContext(), 'iso', { begun, disks, wait: true }));
    expect(shown.interrupted).toEqual([
      'no longer waiting; iso golden goes on being made: svc3 iso get golden shows it, svc3 iso delete golden ends it',
    ]);
  });

  test.each<[string, Partial<DiskItem>, string]>([
    ['that failed', { state: 'Failed', errorMessage: 'no such tag' }, 'image golden: no such tag'],
    ['that failed without a word', { state: 'Failed' }, 'image golden: failed'],
    ['whose commit failed', { state: 'Ready', errorMessage: 'store full' }, 'image golden: store full'],
  ])('%s is an error', async (_what, state, message) => {
    looks = [item(state)];
    await expect(soon(showWork(aContext(), 'image', { begun, disks, wait: true }))).rejects.toThrow(message);
  });

  const asked = item({ commitRequest: 'one' });
  const overtaken = item({ state: 'Ready', commitRequest: 'two' });

  test('that another commit has taken the place of is none that was done', async () => {
    looks = [asked, ...Array.from({ length: 20 }, () => overtaken)];
    const waiting = soon(showWork(aContext(), 'image', { begun: asked, disks, wait: true }));
    await expect(waiting).rejects.toMatchObject({
      reason: 'Conflict',
      message: 'another commit of image golden came in between',
    });
    expect(shown.items).toEqual([]);
  });

  test('that is a commit is told to go on, and not to be ended with the image of before it', async () => {
    const goesOn = 'the commit of image golden goes on: svc3 image get golden shows it';
    looks = [new Svc3Error('Unauthorized', 'the token has expired')];
    const waiting = soon(showWork(aContext(), 'image', { begun: asked, disks, wait: true }));
    await expect(waiting).rejects.toThrow(`the token has expired; ${goesOn}`);
    expect(shown.interrupted).toEqual([`no longer waiting; ${goesOn}`]);
  });

  test('that was withdrawn is none that was done', async () => {
    looks = [asked, ...Array.from({ length: 20 }, () => item({ state: 'Ready' }))];
    const waiting = soon(showWork(aContext(), 'image', { begun: asked, disks, wait: true }));
    await expect(waiting).rejects.toMatchObject({
      reason: 'Conflict',
      message: 'the commit of image golden was withdrawn',
    });
    expect(shown.items).toEqual([]);
  });

  test.each(['zero', undefined])(
    'is none that was done where one stops while a replica shows the image before it (%s)',
    async (commitRequest) => {
      const stopping = new AbortController();
      const before = item({ state: 'Ready', ...(commitRequest === undefined ? {} : { commitRequest }) });
      const behind = {
        async get() {
          stopping.abort();
          return before;
        },
      } as unknown as Disks;
      const { signal } = stopping;
      const waiting = showWork(aContext({ signal }), 'image', { begun: asked, disks: behind, wait: true });
      await expect(soon(waiting)).rejects.toMatchObject({ reason: 'Timeout' });
      expect(shown.items).toEqual([]);
    },
  );

  test.each(['zero', undefined])(
    'is waited for where a replica of the api is a moment behind (%s)',
    async (commitRequest) => {
      const before = item({ state: 'Ready', ...(commitRequest === undefined ? {} : { commitRequest }) });
      const end = item({ state: 'Ready', commitRequest: 'one' });
      looks = [before, before, asked, end];
      await soon(showWork(aContext(), 'image', { begun: asked, disks, wait: true }));
      expect(shown.items).toEqual([end]);
    },
  );

  test('on an image that was deleted is not that on another of its name', async () => {
    const first = item({ createdAt: '2026-11-01T10:00:00Z' });
    looks = Array.from({ length: 20 }, () => item({ state: 'Ready', createdAt: '2026-11-01T10:00:07Z' }));
    const waiting = soon(showWork(aContext(), 'image', { begun: first, disks, wait: true }));
    await expect(waiting).rejects.toMatchObject({
      reason: 'NotFound',
      message: 'image golden was deleted before it was ready',
    });
  });

  test('goes on being that of a save although somebody commits to the image since', async () => {
    looks = [overtaken];
    await soon(showWork(aContext(), 'image', { begun, disks, wait: true }));
    expect(shown.items).toEqual([overtaken]);
  });

  const away = new Svc3Error('ServiceUnavailable', 'cannot reach https://svc3.example.com');

  test('goes on being waited for where the server is away for a while', async () => {
    looks = [item({}), away, new Svc3Error('TooManyRequests', 'later'), item({ state: 'Ready' })];
    await soon(showWork(aContext(), 'image', { begun, disks, wait: true }));
    expect(shown.items).toEqual([item({ state: 'Ready' })]);
  });

  test.each([
    [
      'has been away for a minute',
      Array.from({ length: 100 }, () => away),
      'cannot reach https://svc3.example.com; image golden goes on being made: svc3 image get golden shows it, svc3 image delete golden ends it',
    ],
    [
      'takes the token no more',
      [new Svc3Error('Unauthorized', 'the token has expired')],
      'the token has expired; image golden goes on being made: svc3 image get golden shows it, svc3 image delete golden ends it',
    ],
    ['has no such image any more', [new Svc3Error('NotFound', 'not found')], 'not found'],
  ])('says that it goes on where the server %s', async (_what, given, message) => {
    looks = given;
    const waiting = soon(showWork(aContext(), 'image', { begun, disks, wait: true }));
    await expect(waiting).rejects.toMatchObject({ reason: given[0]?.reason, message });
  });

  test('that one no longer waits for is an error, for scripts that go on', async () => {
    const stopping = new AbortController();
    stopping.abort();
    const waiting = showWork(aContext({ signal: stopping.signal }), 'image', { begun, disks, wait: true });
    await expect(waiting).rejects.toMatchObject({
      reason: 'Timeout',
      message: 'stopped waiting for image golden',
    });
  });
});

describe('saving the disk of a VM', () => {
  const saving = (format: string, wait: boolean) =>
    showSaving(aContext({ format }), 'web', { begun, images: disks, wait });

  test('is said to go on, to people who do not wait for it', async () => {
    await saving('table', false);
    expect(shown.lines).toEqual(['The disk of VM web is being saved; a deletion of the VM waits for it.']);
    await saving('wide', false);
    expect(shown.lines).toHaveLength(1);
  });

  const memory = { size: '4Gi', cpuModel: 'max', accelerator: 'tcg', qemu: '10.0.3', stoppedMs: 43 } as const;

  test('with its memory is told at its end with how long the guest was stopped', async () => {
    looks = [item({ state: 'Ready', memory })];
    await soon(saving('table', true));
    expect(shown.lines).toEqual(['The guest of VM web was stopped for 43 ms.']);
    looks = [item({ state: 'Ready', memory: { ...memory, stoppedMs: 2345 } })];
    await soon(saving('wide', true));
    expect(shown.lines).toEqual(['The guest of VM web was stopped for 2.3 s.']);
  });

  test('with its memory says nothing of that to programs, and where nobody has measured it', async () => {
    looks = [item({ state: 'Ready', memory })];
    await soon(saving('json', true));
    expect(shown.lines).toEqual([]);
    const { stoppedMs: _stoppedMs, ...unmeasured } = memory;
    looks = [item({ state: 'Ready', memory: unmeasured })];
    await soon(saving('table', true));
    expect(shown.lines).toEqual([]);
  });

  test('is said to go on neither to programs nor at its end', async () => {
    for (const [format, wait] of [
      ['json', false],
      ['name', false],
      ['table', true],
    ] as const) {
      await soon(saving(format, wait));
      expect(shown.lines).toEqual([]);
    }
  });
});
