import { beforeEach, describe, expect, test, vi } from 'vitest';
import { type ErrorReason, Svc3Error } from '../../../src/errors.ts';
import type { RegistryClient } from '../../../src/registry/client.ts';
import { deleteVersions, publish } from '../../../src/registry/publish.ts';

const { signal } = new AbortController();
const manifest = { bytes: Buffer.from('{}'), mediaType: 'application/x' };
const called: unknown[][] = [];
let tagged: Record<string, string | undefined>;
/** Digests that have lost their tags. */
let untagged: string[];
/** Why what is called is not done, by its second argument. */
let refused: Record<string, Svc3Error>;

/** A registry that notes what it is asked, each with the signal that would end it. */
const client = new Proxy({} as RegistryClient, {
  get: (_, name: string) =>
    vi.fn((...given: unknown[]) => {
      called.push([name, ...given]);
      const refusal = ['deleteManifest', 'manifest'].includes(name) ? refused[String(given[1])] : undefined;
      if (refusal !== undefined) return Promise.reject(refusal);
      const answers: Record<string, unknown> = {
        manifest,
        tags: Object.keys(tagged),
        digestOf: untagged.find((digest) => digest === given[1]) ?? tagged[String(given[1])],
      };
      return Promise.resolve(answers[name]);
    }),
});

beforeEach(() => {
  called.length = 0;
  tagged = {};
  untagged = [];
  refused = {};
});

describe('a version that is published', () => {
  test.each([
    ['with a signal', signal, { signal }],
    ['without one', undefined, {}],
  ])('is the newest from then on, %s', async (_sentence, given, passed) => {
    await publish(client, 'team/web', 'sha256:a', given);
    expect(called).toEqual([
      ['manifest', 'team/web', 'sha256:a', passed],
      ['putManifest', 'team/web', 'latest', manifest.bytes, manifest.mediaType, passed],
    ]);
  });
});

test('a version that is gone right after it was put is a fault of the registry, not of where it came from', async () => {
  refused = { 'sha256:a': new Svc3Error('NotFound', 'registry r answered 404') };
  await expect(publish(client, 'team/web', 'sha256:a')).rejects.toMatchObject({
    reason: 'BadGateway',
    message: 'the registry has lost what it had taken: registry r answered 404',
  });
});

describe('the versions of an image that is deleted', () => {
  test.each([
    ['with a signal', signal, { signal }],
    ['without one', undefined, {}],
  ])('are those that have a tag, each once, and at last the known one, %s', async (_s, given, passed) => {
    tagged = { latest: 'sha256:a', old: 'sha256:b', new: 'sha256:a', gone: undefined };
    expect(await deleteVersions(client, 'team/web', 'sha256:a', given)).toBe(true);
    expect(called).toEqual([
      ['tags', 'team/web', passed],
      ...['latest', 'old', 'new', 'gone'].map((tag) => ['digestOf', 'team/web', tag, passed]),
      ...['b', 'a'].map((digest) => ['deleteManifest', 'team/web', `sha256:${digest}`, passed]),
    ]);
  });

  const deleted = () => called.filter(([what]) => what === 'deleteManifest').map((call) => call[2]);

  test.each<[string, string | undefined, string[]]>([
    ['with the known one, which has lost its tags', 'sha256:c', ['sha256:a', 'sha256:b', 'sha256:c']],
    ['where none is known', undefined, ['sha256:a', 'sha256:b']],
  ])('go all %s', async (_sentence, known, all) => {
    tagged = { latest: 'sha256:a', old: 'sha256:b' };
    untagged = ['sha256:c'];
    expect(await deleteVersions(client, 'team/web', known)).toBe(true);
    expect(deleted()).toEqual(all);
  });

  test('stay where the known one is not there: they are of another image of the name', async () => {
    tagged = { latest: 'sha256:b', gone: undefined };
    expect(await deleteVersions(client, 'team/web', 'sha256:a')).toBe(false);
    expect(deleted()).toEqual([]);
  });

  test.each<[ErrorReason, string[]]>([
    ['MethodNotAllowed', ['sha256:a', 'sha256:b', 'sha256:c']],
    ['BadRequest', ['sha256:a', 'sha256:b', 'sha256:c']],
    ['BadGateway', ['sha256:a']],
  ])(
    'of which one is refused (%s) are asked for as long as the registry answers, and the known one stays',
    async (reason, all) => {
      tagged = { one: 'sha256:a', two: 'sha256:b', three: 'sha256:c', latest: 'sha256:d' };
      refused = { 'sha256:a': new Svc3Error(reason, 'no'), 'sha256:c': new Svc3Error(reason, 'neither') };
      await expect(deleteVersions(client, 'team/web', 'sha256:d')).rejects.toBe(refused['sha256:a']);
      expect(deleted()).toEqual(all);
    },
  );

  test('that are gone but for the known one go on going', async () => {
    tagged = { gone: undefined };
    expect(await deleteVersions(client, 'team/web', 'sha256:a')).toBe(true);
    expect(deleted()).toEqual(['sha256:a']);
  });
});
