import { describe, expect, test } from 'vitest';
import type { Image } from '../../../../src/api/image.ts';
import type { RemoteImage } from '../../../../src/http/call/services.ts';
import { aGateway } from './builders.ts';

const at = (name: string, kind?: 'image' | 'iso'): RemoteImage => ({
  name: `r.example.com/${name}`,
  ...(kind === undefined ? {} : { kind }),
});

/** The reference that a pull of this name takes, without its registry. */
async function pulled(word: 'image' | 'iso', name: string, remotes: readonly RemoteImage[]) {
  const gateway = aGateway({ remotes });
  await gateway.ask('POST', `/resources/${word}/pull`, { body: { [word]: name } });
  const image = gateway.writes()[0]?.given as Pick<Image, 'spec'> | undefined;
  return image?.spec.source.remote?.reference.replace('r.example.com/', '');
}

describe('a pull of a bare name takes', () => {
  test.each<[what: string, word: 'image' | 'iso', name: string, remotes: RemoteImage[], taken: string]>([
    ['the only tag', 'image', 'mojave.img', [at('team/mojave.img:1')], 'team/mojave.img:1'],
    [
      'latest, whatever stands first',
      'image',
      'mojave.img',
      [at('team/mojave.img:1'), at('team/mojave.img:latest'), at('team/mojave.img:2')],
      'team/mojave.img:latest',
    ],
    [
      'the tag that is named',
      'image',
      'mojave.img:2',
      [at('team/mojave.img:latest'), at('team/mojave.img:2'), at('team/mojave.img:1')],
      'team/mojave.img:2',
    ],
    [
      'a name in capitals, as every other row does',
      'image',
      '90GBigSur.img',
      [at('team/90gbigsur.img:latest')],
      'team/90gbigsur.img:latest',
    ],
    [
      'a name with what a repository cannot have',
      'image',
      'My Disk (1)',
      [at('team/my-disk-1:latest')],
      'team/my-disk-1:latest',
    ],
    [
      'the very name where another is like it',
      'image',
      'my_disk',
      [at('team/my-disk:latest'), at('team/my_disk:latest')],
      'team/my_disk:latest',
    ],
    [
      'an image and no ISO',
      'image',
      'setup',
      [at('store/iso/setup:latest', 'iso'), at('store/setup:latest', 'image')],
      'store/setup:latest',
    ],
    [
      'an ISO and no image',
      'iso',
      'setup',
      [at('store/setup:latest', 'image'), at('store/iso/setup:latest', 'iso')],
      'store/iso/setup:latest',
    ],
    ['what only a pull tells', 'iso', 'setup', [at('team/setup:latest')], 'team/setup:latest'],
  ])('%s', async (_what, word, name, remotes, taken) => {
    expect(await pulled(word, name, remotes)).toBe(taken);
  });
});

describe('a pull of a bare name is refused', () => {
  test.each<[what: string, name: string, remotes: RemoteImage[], refusal: object]>([
    [
      'where several repositories have it',
      'mojave.img',
      [at('a/mojave.img:latest'), at('b/mojave.img:1')],
      {
        reason: 'BadRequest',
        message:
          'image: "mojave.img" may be r.example.com/a/mojave.img:latest or r.example.com/b/mojave.img:1; give the one that is meant',
        details: { causes: [{ field: 'image', message: 'is ambiguous' }] },
      },
    ],
    [
      'where none of several tags is latest',
      'mojave.img',
      [at('a/mojave.img:1'), at('a/mojave.img:2')],
      {
        reason: 'BadRequest',
        message:
          'image: "mojave.img" may be r.example.com/a/mojave.img:1 or r.example.com/a/mojave.img:2; give the one that is meant',
      },
    ],
    [
      'with the first of very many',
      'mojave.img',
      Array.from({ length: 12 }, (_, tag) => at(`a/mojave.img:${tag}`)),
      { reason: 'BadRequest', message: expect.stringMatching(/mojave\.img:9 or 2 more; give/) },
    ],
    [
      'where nobody has the tag',
      'mojave.img:3',
      [at('a/mojave.img:latest')],
      { reason: 'NotFound', message: 'remote image not found: mojave.img:3' },
    ],
    [
      'where there are ISOs of the name alone',
      'mojave.img',
      [at('a/iso/mojave.img:latest', 'iso')],
      { reason: 'NotFound', message: 'remote image not found: mojave.img' },
    ],
    [
      'where nothing of it can be a name',
      '---',
      [at('a/mojave.img:latest')],
      { reason: 'NotFound', message: 'remote image not found: ---' },
    ],
  ])('%s', async (_what, name, remotes, refusal) => {
    await expect(pulled('image', name, remotes)).rejects.toMatchObject(refusal);
  });
});
