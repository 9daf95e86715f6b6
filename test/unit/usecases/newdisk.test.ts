import { expect, test } from 'vitest';
import { imageAnnotations, type Image } from '../../../src/api/image.ts';
import { images } from '../../../src/api/resources.ts';
import { Svc3Error } from '../../../src/errors.ts';
import type { KubeClient } from '../../../src/kube/types.ts';
import {
  copyDisk,
  describeDisk,
  makeBlank,
  pullDisk,
  type CopyEnvironment,
} from '../../../src/usecases/newdisk.ts';
import { anImage } from '../controllers/image/builders.ts';

const reference = 'registry.example.com/team/debian:12';
const going = { deletionTimestamp: '2026-11-01T10:00:00Z' };

/** What is done with Images, and what of it kube-apiserver is asked; it refuses with `refusal`. */
function disks({ source = anImage({ upload: {} }), refusal }: { source?: Image; refusal?: Svc3Error } = {}) {
  const written: unknown[] = [];
  const write = async (_resource: unknown, ...asked: unknown[]) => {
    written.push(...asked);
    if (refusal !== undefined) throw refusal;
    return source;
  };
  const caller = { create: write, patch: write } as unknown as KubeClient;
  const environment: CopyEnvironment = {
    caller,
    resource: images,
    field: 'image',
    source: async () => source,
  };
  return { environment, written };
}

test('an empty disk says for which guests it is', async () => {
  const { environment, written } = disks();
  await makeBlank(environment, 'team', { name: 'blank', size: '10G', architecture: 'arm64' });
  await makeBlank(environment, 'team', { name: 'blank', size: '10G', description: 'empty' });
  expect(written).toEqual([
    {
      metadata: {
        name: 'blank',
        namespace: 'team',
        annotations: { [imageAnnotations.architecture]: 'arm64' },
      },
      spec: { source: { blank: { size: '10G' } } },
    },
    {
      metadata: { name: 'blank', namespace: 'team', annotations: {} },
      spec: { description: 'empty', source: { blank: { size: '10G' } } },
    },
  ]);
});

test('a copy lies beside what it is made from', async () => {
  const { environment, written } = disks();
  await copyDisk(environment, { name: 'more', description: 'the same' });
  expect(written).toEqual([
    {
      metadata: { name: 'more', namespace: 'team' },
      spec: { description: 'the same', source: { image: { name: 'disk' } } },
    },
  ]);
});

test('what is being deleted is not copied', async () => {
  const { environment, written } = disks({ source: anImage({ upload: {} }, undefined, going) });
  await expect(copyDisk(environment, { name: 'more' })).rejects.toMatchObject({
    reason: 'Conflict',
    message: 'image disk is being deleted: a copy comes too late',
  });
  expect(written).toEqual([]);
});

test.each([
  ['the last part of its reference', undefined, 'debian'],
  ['the name that it is given', 'golden', 'golden'],
])('a disk that is pulled has %s', async (_what, name, named) => {
  const { environment, written } = disks();
  await pullDisk(environment, 'team', { reference, name });
  expect(written).toEqual([
    { metadata: { name: named, namespace: 'team' }, spec: { source: { remote: { reference } } } },
  ]);
});

test.each(['image', 'iso'] as const)(
  'a reference of an %s without a name in it is refused',
  async (field) => {
    const { environment } = disks();
    const pulled = pullDisk({ ...environment, field }, 'team', { reference: 'registry.example.com/_' });
    await expect(pulled).rejects.toMatchObject({
      reason: 'Invalid',
      details: { causes: [{ field: `remote${field}` }] },
    });
  },
);

test.each([
  ['registry.example.com/Team/Debian:12', 'the repository has to be lower case'],
  ['https://registry.example.com/team/debian:12', 'leave the scheme out'],
  [`registry.example.com/team/debian@sha512:${'a'.repeat(128)}`, 'the digest has to be sha256'],
  ['registry.example.com:99999/team/debian:12', 'the port must be between 1 and 65535'],
  ['a..b/team/debian:12', '"a..b" is not a host name or address'],
])('%s is no reference, and no disk is made of it', async (text, why) => {
  for (const field of ['image', 'iso'] as const) {
    const { environment, written } = disks();
    const pulled = pullDisk({ ...environment, field }, 'team', { reference: text, name: 'golden' });
    await expect(pulled).rejects.toMatchObject({
      reason: 'Invalid',
      message: expect.stringContaining(`remote${field}: "${text}" is not an image reference: ${why}`),
      details: { causes: [{ field: `remote${field}` }] },
    });
    expect(written).toEqual([]);
  }
});

test('a description changes nothing else', async () => {
  const { environment, written } = disks();
  await describeDisk(environment, { name: 'disk', namespace: 'team' }, 'golden');
  expect(written).toEqual([
    { name: 'disk', namespace: 'team' },
    { type: 'merge', body: { spec: { description: 'golden' } } },
  ]);
});

test('what kube-apiserver refuses is said in the words of the request, whatever is done', async () => {
  const fields = [
    'metadata.name',
    'spec.description',
    'spec.source.image.name',
    'spec.source.remote.reference',
  ];
  const causes = fields.map((field) => ({ field, message: 'may not be so' }));
  const refusal = new Svc3Error('Invalid', 'Image.svc3.dev "disk" is invalid: …', { details: { causes } });
  const { environment } = disks({ refusal });
  const message = ['name', 'description', 'image', 'remoteimage']
    .map((field) => `${field}: may not be so`)
    .join('; ');
  for (const done of [
    makeBlank(environment, 'team', { name: 'blank', size: '10G' }),
    copyDisk(environment, { name: 'more' }),
    pullDisk(environment, 'team', { reference }),
    describeDisk(environment, { name: 'disk', namespace: 'team' }, 'golden'),
  ])
    await expect(done).rejects.toMatchObject({ reason: 'Invalid', message });
});
