import { describe, expect, test } from 'vitest';
import type { Iso } from '../../../src/api/image.ts';
import { isos } from '../../../src/api/resources.ts';
import { createExpectations } from '../../../src/controller/expectations.ts';
import { addFinalizer, removeFinalizer } from '../../../src/controller/finalizer.ts';
import { applyStatus, isSameStatus } from '../../../src/controller/status.ts';
import { Svc3Error } from '../../../src/errors.ts';
import type { KubeClient } from '../../../src/kube/types.ts';
import { storedMeta } from '../../support/storedmeta.ts';

const conflict = new Svc3Error('Conflict', 'it has changed');
const gone = new Svc3Error('NotFound', 'it is gone');
const away = new Svc3Error('ServiceUnavailable', 'away');

function iso(resourceVersion: string, status?: Iso['status'], uid = 'uid'): Iso {
  const metadata = storedMeta({ name: 'tools', namespace: 'team', uid, resourceVersion });
  return { metadata, spec: {}, ...(status === undefined ? {} : { status }) } as Iso;
}

/** One object as kube-apiserver keeps it; the versions that writes of its status named. */
function serving(now: Iso | Svc3Error, failure?: Svc3Error) {
  const applied: { object: unknown; options: unknown }[] = [];
  const current = (): Iso => {
    if (now instanceof Svc3Error) throw now;
    return now;
  };
  const client = {
    get: async () => await Promise.resolve(current()),
    async apply(_resource: unknown, object: Iso, options: unknown) {
      applied.push({ object, options });
      if (failure !== undefined) throw failure;
      const found = await Promise.resolve(current());
      if (object.metadata.resourceVersion !== found.metadata.resourceVersion) throw conflict;
      return { ...found, status: object.status };
    },
  } as unknown as KubeClient;
  return { client, applied };
}

describe('a status', () => {
  const seen = iso('1', { phase: 'Ready' } as Iso['status']);
  const after = { phase: 'Failed' } as NonNullable<Iso['status']>;
  const write = ({ client }: ReturnType<typeof serving>) => applyStatus(client, isos, seen, after);

  test('is written over the version that was seen, of this very object', async () => {
    const server = serving(seen);
    expect(await write(server)).toEqual({ ...seen, status: after });
    expect(server.applied).toEqual([
      {
        object: {
          apiVersion: 'svc3.dev/v1',
          kind: 'ISO',
          metadata: { name: 'tools', namespace: 'team', uid: 'uid', resourceVersion: '1' },
          status: after,
        },
        options: { subresource: 'status' },
      },
    ]);
  });

  test('is written where something else of the object has changed', async () => {
    const now = { ...seen, metadata: { ...seen.metadata, resourceVersion: '2' } };
    expect(await write(serving(now))).toEqual({ ...now, status: after });
  });

  test.each<[string, Iso]>([
    ['the status itself has changed', iso('2', { phase: 'Failed' } as Iso['status'])],
    ['the object is another of its name', iso('2', seen.status, 'other')],
  ])('is not written where %s', async (_what, now) => {
    const server = serving(now);
    await expect(write(server)).rejects.toBe(conflict);
    expect(server.applied).toHaveLength(1);
  });

  test('of an object that is gone is nobody’s', async () => {
    expect(await write(serving(gone))).toBeUndefined();
    expect(await write(serving(gone, conflict))).toBeUndefined();
  });

  test('that cannot be written is told', async () => {
    await expect(write(serving(seen, away))).rejects.toBe(away);
    await expect(write(serving(away, conflict))).rejects.toBe(away);
  });

  test('is the same in whatever order its fields are', () => {
    expect(isSameStatus({ a: 1, b: [2] }, { b: [2], a: 1 })).toBe(true);
    expect(isSameStatus({ a: 1 }, { a: 2 })).toBe(false);
    expect(isSameStatus<object>(undefined, {})).toBe(false);
  });
});

describe('the finalizer', () => {
  const held = (...finalizers: string[]): Iso => {
    const one = iso('7');
    return { ...one, metadata: { ...one.metadata, finalizers } };
  };
  const patching = () => {
    const patches: unknown[][] = [];
    const patch = async (...given: unknown[]): Promise<Iso> => {
      patches.push(given);
      return iso('8');
    };
    return { client: { patch } as unknown as KubeClient, patches };
  };
  const patchOf = (finalizers: string[]) => [
    isos,
    { name: 'tools', namespace: 'team' },
    // The whole list is replaced: only where it is the one that was seen.
    { type: 'merge', body: { metadata: { uid: 'uid', resourceVersion: '7', finalizers } } },
  ];

  test('is added beside those of others, and taken away alone', async () => {
    const { client, patches } = patching();
    const key = 'team/tools';
    const expected = createExpectations<Iso>();
    await addFinalizer(client, isos, held('other/one'));
    await addFinalizer(client, isos, iso('7'));
    const all = held('other/one', 'svc3.dev/cleanup', 'other/two');
    await removeFinalizer(client, isos, all, { expected, key });
    expect(expected.current(key, all)).toEqual(iso('8'));
    expected.clear();
    expect(patches).toEqual([
      patchOf(['other/one', 'svc3.dev/cleanup']),
      patchOf(['svc3.dev/cleanup']),
      patchOf(['other/one', 'other/two']),
    ]);
  });

  test.each([
    ['written', async () => iso('7')],
    ['gone already', () => Promise.reject(new Svc3Error('NotFound', 'there is none'))],
  ])(
    'that was the last is the end of the object, whatever the cache shows: it was %s',
    async (_case, patch) => {
      const key = 'team/tools';
      const expected = createExpectations<Iso>();
      const last = held('svc3.dev/cleanup');
      await removeFinalizer({ patch } as unknown as KubeClient, isos, last, { expected, key });
      expect(expected.current(key, last)).toBeUndefined();
      expected.clear();
    },
  );
});
