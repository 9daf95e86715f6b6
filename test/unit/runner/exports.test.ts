import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pino from 'pino';
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { ejectedRefusal } from '../../../src/api/memory.ts';
import type { CopyStorage, RoomWatch } from '../../../src/runner/copyroom.ts';
import type { copyLive, copyStopped, CopyContext } from '../../../src/runner/diskcopy.ts';
import { createExports, type Exports } from '../../../src/runner/exports.ts';
import { createQueue } from '../../../src/runner/powerstate.ts';
import type { Supervisor } from '../../../src/runner/supervisor.ts';

let state: string;
let exports: Exports;
let isAsleep: boolean;
/** Why the disk was not opened. */
let refusal: Error | undefined;
/** What the guest that runs was started with, and whether its CD has been taken out since. */
let machine: object | undefined;
let isEjected: boolean;
/** Aborted when the memory of the guest is to be written, as its pod ends. */
let ending: AbortController;
/** The volume has less room than a guest needs. */
let short: PromiseWithResolvers<string>;
const copying = vi.fn<typeof copyStopped>();
const noGuest = () => Promise.reject(new Error('no guest runs'));
const untilShort = vi.fn((_storage: CopyStorage, { signal }: RoomWatch) =>
  Promise.race([short.promise, once(signal, 'abort').then(() => undefined)]),
);
const copies = { stopped: copying, live: noGuest, memory: noGuest, shortage: untilShort };
const noRoom = "the VM's storage has no room for the copy: the kubelet evicts";
const fileOf = (id: string) => join(state, 'exports', `${id}.qcow2`);
/** The header of a qcow2 file of 1 GiB. */
function overlay(): Buffer {
  const bytes = Buffer.alloc(512);
  bytes.write('QFI\xfb', 'latin1');
  bytes.writeUInt32BE(3, 4);
  bytes.writeUInt32BE(16, 20);
  bytes.writeBigUInt64BE(1n << 30n, 24);
  bytes.writeUInt32BE(104, 100);
  return bytes;
}

const stopped = { consistency: 'Stopped', message: 'the VM was stopped' };

beforeEach(async () => {
  state = await mkdtemp(join(tmpdir(), 'svc3-exports-'));
  await writeFile(join(state, 'disk.qcow2'), overlay());
  isAsleep = false;
  refusal = undefined;
  machine = undefined;
  isEjected = false;
  ending = new AbortController();
  short = Promise.withResolvers();
  const supervisor = {
    running: () => machine && { input: { gpuAddresses: [], spec: { architecture: 'amd64' }, ...machine } },
    status: {
      get current() {
        return { ejected: isEjected };
      },
    },
    isAsleep: () => isAsleep,
    diskRefusal: () => refusal,
    inTurn: (task: () => Promise<unknown>) => task(),
    holdDisk: () => undefined,
    holdGuest: () => undefined,
    copiesEnd: ending.signal,
  } as unknown as Supervisor;
  const storage = { folders: { state } as never, ephemeralStorageBytes: 1 };
  exports = createExports(supervisor, storage, pino({ level: 'silent' }), copies);
  copying.mockReset();
  copying.mockImplementation(async (_overlay: string, { target }: CopyContext) => {
    await writeFile(target, 'the disk');
    return stopped;
  });
});
afterEach(() => rm(state, { recursive: true }));

const ready = (id: string) =>
  vi.waitFor(() => expect(exports.get(id)).toMatchObject({ state: 'Ready', progress: 100 }));

test('a copy of a disk that was made on another image is refused with the words of the start', async () => {
  refusal = new Error('the disk was made on another image');
  await exports.start('a');
  await vi.waitFor(() =>
    expect(exports.get('a')).toMatchObject({
      state: 'Failed',
      message: 'the disk was made on another image',
    }),
  );
  expect(copying).not.toHaveBeenCalled();
});

describe('a copy with the memory', () => {
  const refusal = async () =>
    exports.start('a', undefined, true).then(
      () => undefined,
      (error: Error) => error,
    );

  test('is refused for now while no guest runs', async () => {
    expect(await refusal()).toMatchObject({
      reason: 'Conflict',
      message: expect.stringContaining('does not run'),
    });
  });

  test.each<[string, object, boolean, string]>([
    ['a card', { gpuAddresses: ['0000:01:00.0'] }, false, 'gpuPassthrough: '],
    ['data disks', { disks: [{ name: 'logs' }] }, true, 'disks: '],
    ['a CD', { iso: '/iso' }, false, 'eject it and start the VM again'],
    ['a CD that was taken out', { iso: '/iso' }, true, ejectedRefusal],
    ['a drive whose CD was taken out before it went on', { hasEmptyDrive: true }, true, ejectedRefusal],
  ])(
    'is refused for good while the guest is one that was started with %s',
    async (_what, input, ejected, words) => {
      machine = input;
      isEjected = ejected;
      expect(await refusal()).toMatchObject({ reason: 'Invalid', message: expect.stringContaining(words) });
    },
  );

  test('is made of one that was started after its CD was taken out', async () => {
    machine = {};
    isEjected = true;
    expect(await refusal()).toBeUndefined();
  });
});

describe('a copy of the disk', () => {
  test('is made once per id, and says its digest', async () => {
    await exports.start('a');
    await exports.start('a');
    await ready('a');
    expect(copying).toHaveBeenCalledTimes(1);
    expect(exports.get('a')).toMatchObject({ size: 8, sha256: expect.stringMatching(/^[0-9a-f]{64}$/) });
    expect(existsSync(fileOf('a'))).toBe(true);
  });

  test('that is given up while its digest is made is told why', async () => {
    copying.mockImplementationOnce(async (_overlay, { target }) => {
      await writeFile(target, 'the disk');
      ending.abort(new Error('the pod of the VM is being ended'));
      return stopped;
    });
    await exports.start('a');
    const failed = { state: 'Failed', message: 'the pod of the VM is being ended' };
    await vi.waitFor(() => expect(exports.get('a')).toMatchObject(failed));
  });

  test('that failed is told in words, leaves nothing, and begins anew', async () => {
    copying.mockImplementationOnce(async (_overlay, { target }) => {
      await writeFile(target, 'half');
      throw new Error('write: No space left on device');
    });
    await exports.start('a');
    await vi.waitFor(() =>
      expect(exports.get('a')).toMatchObject({
        state: 'Failed',
        message: "the VM's storage has no room for the copy",
      }),
    );
    expect(existsSync(`${fileOf('a')}.part`)).toBe(false);
    await exports.start('a');
    await ready('a');
  });

  test('is not made of a guest that sleeps: what it has in its memory is not on the disk', async () => {
    isAsleep = true;
    await exports.start('a');
    await vi.waitFor(() =>
      expect(exports.get('a')).toMatchObject({
        state: 'Failed',
        message: 'the VM is suspended on its disk, which is saved once it goes on',
      }),
    );
    expect(copying).not.toHaveBeenCalled();
    isAsleep = false;
    await exports.start('a');
    await ready('a');
    // One that is there stays good.
    isAsleep = true;
    expect(await exports.start('a')).toMatchObject({ state: 'Ready' });
  });

  test('is given up while it is made, once the pod ends; one that is there can be fetched', async () => {
    await exports.start('a');
    await ready('a');
    copying.mockImplementationOnce(async (_overlay, { signal }) => {
      await once(signal, 'abort');
      throw signal.reason;
    });
    await exports.start('b');
    await vi.waitFor(() => expect(copying).toHaveBeenCalledTimes(2));
    ending.abort(new Error('the pod of the VM is being ended'));
    const given = { state: 'Failed', message: 'the pod of the VM is being ended' };
    await vi.waitFor(() => expect(exports.get('b')).toMatchObject(given));
    const { signal } = await exports.open('a', exports.ticket('a').ticket);
    expect(signal.aborted).toBe(false);
    await exports.start('c');
    await vi.waitFor(() => expect(exports.get('c')).toMatchObject(given));
    expect(copying).toHaveBeenCalledTimes(2);
  });

  test('is given up while it is made, once it takes room that it must not, and says why', async () => {
    copying.mockImplementationOnce(async (_overlay, { target, signal }) => {
      await writeFile(target, 'half');
      await once(signal, 'abort');
      throw signal.reason;
    });
    await exports.start('a');
    await vi.waitFor(() => expect(existsSync(`${fileOf('a')}.part`)).toBe(true));
    short.resolve(noRoom);
    await vi.waitFor(() => expect(exports.get('a')).toMatchObject({ state: 'Failed', message: noRoom }));
    expect(untilShort.mock.lastCall?.[0]).toEqual({
      folder: state,
      ephemeralStorageBytes: 1,
      podLimitBytes: undefined,
    });
    expect(existsSync(`${fileOf('a')}.part`)).toBe(false);
  });

  test('keeps to the limit of the pod that was said with it', async () => {
    await exports.start('a', undefined, false, 40);
    await ready('a');
    expect(untilShort.mock.lastCall?.[0]).toMatchObject({ podLimitBytes: 40 });
  });

  test('is given up while it waits to be fetched, too, and whoever fetches it is told', async () => {
    await exports.start('a');
    await ready('a');
    const { ticket } = exports.ticket('a');
    const { signal } = await exports.open('a', ticket);
    short.resolve(noRoom);
    await vi.waitFor(() => expect(exports.get('a')).toMatchObject({ state: 'Failed', message: noRoom }));
    expect([existsSync(fileOf('a')), signal.aborted]).toEqual([false, true]);
    await expect(exports.open('a', ticket)).rejects.toMatchObject({ reason: 'Unauthorized' });
    // When there is room again it is made anew.
    short = Promise.withResolvers();
    await exports.start('a');
    await ready('a');
  });

  test('is the only one that is being made, and one of a few', async () => {
    const go = Promise.withResolvers<void>();
    copying.mockImplementationOnce(async (_overlay, { target }) => {
      await go.promise;
      await writeFile(target, 'x');
      return stopped;
    });
    await exports.start('a');
    await expect(exports.start('b')).rejects.toMatchObject({ reason: 'Conflict' });
    go.resolve();
    await ready('a');
    await exports.start('b');
    await ready('b');
    await expect(exports.start('c')).rejects.toMatchObject({ reason: 'Conflict' });
    await exports.delete('a');
    await exports.start('c');
    await ready('c');
  });

  describe('that nobody came back to delete', () => {
    const start = async (id: string, owner: string) => {
      await exports.start(id, owner);
      await ready(id);
    };
    const isThere = (id: string) => {
      try {
        return exports.get(id).id === id && existsSync(fileOf(id));
      } catch {
        return false;
      }
    };
    const deliver = async (id: string) => {
      const { ticket } = exports.ticket(id);
      (await exports.open(id, ticket)).used();
    };

    test('makes room for the next one of the same owner, however many there were', async () => {
      await start('other', 'another image');
      for (const id of ['one', 'two', 'three']) await start(id, 'image');
      expect(['other', 'one', 'two', 'three'].map(isThere)).toEqual([true, false, false, true]);
    });

    test('is ended for the next one of the same owner, also while it is made', async () => {
      copying.mockImplementationOnce(async (_overlay, { target, signal }) => {
        await writeFile(target, 'half');
        signal.throwIfAborted();
        await new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => reject(signal.reason as Error));
        });
        return stopped;
      });
      await exports.start('one', 'image');
      await start('two', 'image');
      expect(['one', 'two'].map(isThere)).toEqual([false, true]);
      expect(existsSync(`${fileOf('one')}.part`)).toBe(false);
    });

    test('makes room for others once it was delivered whole, and not before', async () => {
      await start('one', 'image');
      await start('two', 'second');
      await expect(exports.start('three', 'third')).rejects.toMatchObject({ reason: 'Conflict' });
      await deliver('one');
      await start('three', 'third');
      expect(['one', 'two', 'three'].map(isThere)).toEqual([false, true, true]);
    });

    test('makes room for others when nobody has fetched it for as long as a ticket is good', async () => {
      vi.useFakeTimers({ toFake: ['Date'] });
      onTestFinished(() => void vi.useRealTimers());
      await start('one', 'image');
      vi.setSystemTime(Date.now() + 3_600_001);
      await start('two', 'second');
      await start('three', 'third');
      expect(['one', 'two', 'three'].map(isThere)).toEqual([false, true, true]);
      // One with a ticket is fetched yet.
      vi.setSystemTime(Date.now() + 3_000_000);
      exports.ticket('two');
      exports.ticket('three');
      vi.setSystemTime(Date.now() + 3_000_000);
      await expect(exports.start('four', 'fourth')).rejects.toMatchObject({ reason: 'Conflict' });
    });

    test('that failed makes room', async () => {
      copying.mockRejectedValueOnce(new Error('no'));
      await exports.start('one', 'image');
      await vi.waitFor(() => expect(exports.get('one').state).toBe('Failed'));
      await start('two', 'second');
      await start('three', 'third');
      expect(['two', 'three'].map(isThere)).toEqual([true, true]);
    });
  });

  test('that is deleted while it is made is ended, and leaves nothing', async () => {
    copying.mockImplementationOnce(async (_overlay, { target, signal }) => {
      await writeFile(target, 'half');
      // It may have been deleted since its file is seen.
      signal.throwIfAborted();
      await new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason as Error));
      });
      return stopped;
    });
    await exports.start('a');
    await vi.waitFor(() => expect(existsSync(`${fileOf('a')}.part`)).toBe(true));
    await exports.delete('a');
    expect([existsSync(fileOf('a')), existsSync(`${fileOf('a')}.part`)]).toEqual([false, false]);
    expect(() => exports.get('a')).toThrow('there is no export a');
  });

  test('that is deleted in the moment it is done leaves nothing either', async () => {
    let deleted: Promise<void> | undefined;
    copying.mockImplementationOnce(async (_overlay, { target }) => {
      await writeFile(target, 'the disk');
      deleted = exports.delete('a');
      return stopped;
    });
    await exports.start('a');
    await vi.waitFor(() => expect(deleted).toBeDefined());
    await deleted;
    expect([existsSync(fileOf('a')), existsSync(`${fileOf('a')}.part`)]).toEqual([false, false]);
  });

  test('that is deleted before its turn is not made', async () => {
    const turn = Promise.withResolvers<void>();
    const supervisor = {
      running: () => undefined,
      isAsleep: () => false,
      diskRefusal: () => undefined,
      inTurn: (task: () => Promise<unknown>) => turn.promise.then(task),
      holdDisk: () => undefined,
      copiesEnd: ending.signal,
    } as unknown as Supervisor;
    const folders = { state } as never;
    const waiting = createExports(supervisor, { folders }, pino({ level: 'silent' }), copies);
    await waiting.start('a');
    await waiting.delete('a');
    turn.resolve();
    await vi.waitFor(() => expect(existsSync(join(state, 'exports'))).toBe(false));
    expect(copying).not.toHaveBeenCalled();
  });
});

describe('a verb that comes while a guest that runs is copied', () => {
  /** Exports of a guest that runs, whose copies are made so, and a verb of its VM. */
  function aGuestThatRuns(live: typeof copyLive) {
    const inTurn = createQueue();
    const supervisor = {
      running: () => ({ machine: {} }),
      isAsleep: () => false,
      diskRefusal: () => undefined,
      inTurn,
      holdDisk: () => undefined,
      holdGuest: () => undefined,
      copiesEnd: ending.signal,
    } as unknown as Supervisor;
    const log = pino({ level: 'silent' });
    const copying = createExports(supervisor, { folders: { state } as never }, log, { ...copies, live });
    return { copying, verb: (carryOut = () => undefined) => inTurn(async () => carryOut()) };
  }

  test('waits until the copy has begun and the guest goes on, and not for all of it', async () => {
    const begun = Promise.withResolvers<void>();
    const copied = Promise.withResolvers<void>();
    const done: string[] = [];
    const { copying, verb } = aGuestThatRuns(async (_machine, { target, onGoesOn }) => {
      await writeFile(target, 'the disk');
      await begun.promise;
      done.push('the guest goes on');
      onGoesOn();
      await copied.promise;
      return stopped;
    });
    await copying.start('a');
    const carriedOut = verb(() => void done.push('the verb'));
    await vi.waitFor(() => expect(existsSync(`${fileOf('a')}.part`)).toBe(true));
    begun.resolve();
    await carriedOut;
    expect(done).toEqual(['the guest goes on', 'the verb']);
    expect(copying.get('a').state).toBe('Copying');
    copied.resolve();
    await vi.waitFor(() => expect(copying.get('a').state).toBe('Ready'));
  });

  test('waits no longer for a copy that has failed', async () => {
    const { copying, verb } = aGuestThatRuns(noGuest);
    await copying.start('a');
    await verb();
    expect(copying.get('a').state).toBe('Failed');
  });
});

describe('a ticket', () => {
  test('is for a copy that is done, and opens it until it is used, or there is another', async () => {
    copying.mockImplementationOnce(() => new Promise(() => undefined));
    await exports.start('slow');
    expect(() => exports.ticket('slow')).toThrow('export slow is Copying');
  });

  test('opens the copy until it is used up or replaced', async () => {
    await exports.start('a');
    await ready('a');
    const first = exports.ticket('a').ticket;
    const { size, used } = await exports.open('a', first);
    expect(size).toBe(8);
    await exports.open('a', first);
    const second = exports.ticket('a').ticket;
    await expect(exports.open('a', first)).rejects.toMatchObject({ reason: 'Unauthorized' });
    used();
    const { used: usedUp } = await exports.open('a', second);
    usedUp();
    await expect(exports.open('a', second)).rejects.toMatchObject({ reason: 'Unauthorized' });
  });

  test.each(['', 'x', 'AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'])(
    'that is wrong opens nothing: "%s"',
    async (ticket) => {
      await exports.start('a');
      await ready('a');
      await expect(exports.open('a', ticket)).rejects.toMatchObject({ reason: 'Unauthorized' });
      exports.ticket('a');
      await expect(exports.open('a', ticket)).rejects.toMatchObject({ reason: 'Unauthorized' });
    },
  );

  test('ends after an hour', async () => {
    await exports.start('a');
    await ready('a');
    const { ticket } = exports.ticket('a');
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 3_600_001 });
    try {
      await expect(exports.open('a', ticket)).rejects.toMatchObject({ reason: 'Unauthorized' });
    } finally {
      vi.useRealTimers();
    }
  });
});

test('what an earlier life left is taken away', async () => {
  await mkdir(join(state, 'exports'));
  await writeFile(fileOf('old'), 'x');
  await exports.clear();
  expect(existsSync(fileOf('old'))).toBe(false);
});
