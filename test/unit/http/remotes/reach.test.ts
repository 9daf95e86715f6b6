import { describe, expect, test } from 'vitest';
import { withinReach } from '../../../../src/http/remotes/reach.ts';
import type { RemoteImage } from '../../../../src/http/call/services.ts';

const store = { url: 'https://store.example.com/infra', prefix: 'svc3' };

/** What the namespace `team` is shown of these. */
async function shown(items: readonly RemoteImage[], of = store): Promise<readonly RemoteImage[]> {
  const catalog = withinReach({ list: async () => ({ items, incomplete: ['one is missing'] }) }, of);
  const list = await catalog.list('team', new AbortController().signal);
  expect(list.incomplete).toEqual(['one is missing']);
  return list.items;
}

describe('of the image store a namespace is shown', () => {
  test.each<[string, string, 'image' | 'iso']>([
    ['its images', 'infra/svc3/team/debian:12', 'image'],
    ['its ISOs, one folder deeper', 'infra/svc3/team/iso/debian:12', 'iso'],
  ])('%s', async (_, path, kind) => {
    const name = `store.example.com/${path}`;
    expect(await shown([{ name }])).toEqual([{ name, kind }]);
  });

  test.each<[string, string]>([
    ['of another namespace', 'infra/svc3/other/debian:12'],
    ['of one whose name begins the same', 'infra/svc3/team2/debian:12'],
    ['that is svc3 itself', 'infra/svc3:3.0.0'],
    ['that is the runner', 'infra/images/svc3-runner:3.0.0'],
    ['that is an upload under way', 'infra/svc3/team/debian:upload-1'],
  ])('nothing %s', async (_, path) => {
    expect(await shown([{ name: `store.example.com/${path}` }])).toEqual([]);
  });

  test('what lies beside all that svc3 keeps, of unknown kind', async () => {
    const name = 'store.example.com/infra/images/debian:12';
    expect(await shown([{ name }])).toEqual([{ name }]);
  });

  test('no tags of uploads under way', async () => {
    const name = 'store.example.com/infra/svc3/team/debian:12';
    const [item] = await shown([{ name, tags: ['12', 'upload-1', 'latest'] }]);
    expect(item?.tags).toEqual(['12', 'latest']);
  });
});

describe('of another registry a namespace is shown', () => {
  test.each<[string, string]>([
    ['what looks like the path of a namespace', 'r.example.com:5000/infra/svc3/other/debian:12'],
    ['any other image', 'r.example.com:5000/debian:12'],
  ])('%s, of unknown kind', async (_, name) => expect(await shown([{ name }])).toEqual([{ name }]));

  test('nothing that is svc3 itself', async () => {
    expect(await shown([{ name: 'r.example.com:5000/team/svc3:3.0.0' }])).toEqual([]);
  });
});

test('without a path or prefix in the store only what is the namespace’s own is known', async () => {
  const bare = { url: 'https://store.example.com', prefix: '' };
  const names = ['store.example.com/team/debian:12', 'store.example.com/other/debian:12'];
  expect(
    await shown(
      names.map((name) => ({ name })),
      bare,
    ),
  ).toEqual([{ name: names[0], kind: 'image' }, { name: names[1] }]);
});
