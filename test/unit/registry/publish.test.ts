import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { RegistryClient } from '../../../src/registry/client.ts';
import { deleteVersions, publish } from '../../../src/registry/publish.ts';

const { signal } = new AbortController();
const manifest = { bytes: Buffer.from('{}'), mediaType: 'application/x' };
const called: unknown[][] = [];
let tagged: Record<string, string | undefined>;

/** A registry that notes what it is asked, each with the signal that would end it. */
const client = new Proxy({} as RegistryClient, {
  get: (_, name: string) =>
    vi.fn((...given: unknown[]) => {
      called.push([name, ...given]);
      const answers: Record<string, unknown> = {
        manifest,
        tags: Object.keys(tagged),
        digestOf: tagged[String(given[1])],
      };
      return Promise.resolve(answers[name]);
    }),
});

beforeEach(() => {
  called.length = 0;
  tagged = {};
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

describe('the versions of an image that is deleted', () => {
  test.each([
    ['with a signal', signal, { signal }],
    ['without one', undefined, {}],
  ])('are those that are known and those that have a tag, each once, %s', async (_s, given, passed) => {
    tagged = { latest: 'sha256:a', old: 'sha256:b', gone: undefined };
    await deleteVersions(client, 'team/web', ['sha256:a', 'sha256:c'], given);
    expect(called).toEqual([
      ['tags', 'team/web', passed],
      ...['latest', 'old', 'gone'].map((tag) => ['digestOf', 'team/web', tag, passed]),
      ...['a', 'c', 'b'].map((digest) => ['deleteManifest', 'team/web', `sha256:${digest}`, passed]),
    ]);
  });
});
