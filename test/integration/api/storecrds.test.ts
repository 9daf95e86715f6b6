import { beforeAll, describe, expect, test } from 'vitest';
import { images, isos, registryCredentials } from '../../../src/api/resources.ts';
import type { KubeObject, Resource } from '../../../src/api/object.ts';
import type { KubeClient } from '../../../src/kube/types.ts';
import { trial, type Spec, type Trial } from './trial.ts';

let client: KubeClient;
let namespace: string;
let object: Trial['object'];
let dryRun: Trial['dryRun'];

beforeAll(async () => {
  ({ client, namespace, object, dryRun } = await trial('storecrds'));
});

const imageNameRule = (kind: string) =>
  `metadata.name: Invalid value: the name of an ${kind} has at most 63 characters a-z, 0-9, - and . with no two signs side by side`;

describe('Image and ISO', () => {
  const sources = 'exactly one of remote, image, vm, blank, upload is required';
  test.each<[string, Resource<KubeObject>, string, Spec]>([
    ['a pulled Image', images, 'debian-12.5', { source: { remote: { reference: 'r.example.com/a/b:1' } } }],
    ['a copied Image', images, 'a', { source: { image: { name: 'b' } } }],
    ['a saved Image', images, 'a', { source: { vm: { name: 'b', mode: 'Save' } } }],
    ['a blank Image', images, 'a', { source: { blank: { size: '120G' } } }],
    ['an uploaded Image', images, 'a', { description: 'mine', source: { upload: {} } }],
    ['an uploaded ISO', isos, 'a', { source: { upload: {} } }],
  ])('%s is taken as it is written', async (_, resource, name, spec) => {
    expect(((await dryRun(resource, name, spec)) as { spec?: Spec }).spec).toEqual(spec);
  });

  test.each<[string, Resource<KubeObject>, string, Spec, string]>([
    ['an Image without a source', images, 'a', {}, 'spec.source: Required value'],
    ['an Image with an empty source', images, 'a', { source: {} }, `spec.source: Invalid value: ${sources}`],
    [
      'an Image with two sources',
      images,
      'a',
      { source: { upload: {}, blank: { size: '1G' } } },
      `spec.source: Invalid value: ${sources}`,
    ],
    [
      'an ISO saved from a VM',
      isos,
      'a',
      { source: { vm: { name: 'b', mode: 'Save' } } },
      'exactly one of remote, image, upload is required',
    ],
    [
      'a blank disk without a size',
      images,
      'a',
      { source: { blank: {} } },
      'spec.source.blank.size: Required value',
    ],
    [
      'a blank disk of 65 Ti',
      images,
      'a',
      { source: { blank: { size: '65Ti' } } },
      'size must be between 1Mi and 64Ti',
    ],
    [
      'a remote without a registry',
      images,
      'a',
      { source: { remote: { reference: 'debian' } } },
      'spec.source.remote.reference: Invalid value',
    ],
    ['a name with two dots', images, 'a..b', { source: { upload: {} } }, 'metadata.name'],
    ['a name with a dash beside a dot', images, 'a.-b', { source: { upload: {} } }, 'metadata.name'],
    ['a name with two dashes', images, 'a--b', { source: { upload: {} } }, imageNameRule('Image')],
    ['an ISO name of 64 characters', isos, 'a'.repeat(64), { source: { upload: {} } }, imageNameRule('ISO')],
  ])('%s is refused with the field named', async (_, resource, name, spec, message) => {
    await expect(dryRun(resource, name, spec)).rejects.toMatchObject({
      reason: 'Invalid',
      message: expect.stringContaining(message) as string,
    });
  });

  test('the source of an Image never changes; a commit leaves it alone', async () => {
    await client.create(images, object('base', { source: { upload: {} } }) as never);
    const change = (spec: Spec) =>
      client.patch(images, { name: 'base', namespace }, { type: 'merge', body: { spec } });
    await expect(change({ source: { upload: null, blank: { size: '1G' } } })).rejects.toThrow(
      'spec.source: Forbidden: source cannot change after creation; delete the Image and create it again',
    );
    const commit = { vm: 'a', request: '1' };
    expect((await change({ commit })).spec).toMatchObject({ source: { upload: {} }, commit });
    expect((await change({ commit: { request: '2' } })).spec.commit).toEqual({ vm: 'a', request: '2' });
  });

  test('the source of an ISO never changes', async () => {
    await client.create(isos, object('base', { source: { upload: {} } }) as never);
    const source = { upload: null, image: { name: 'other' } };
    await expect(
      client.patch(isos, { name: 'base', namespace }, { type: 'merge', body: { spec: { source } } }),
    ).rejects.toThrow(
      'spec.source: Forbidden: source cannot change after creation; delete the ISO and create it again',
    );
  });
});

describe('RegistryCredential', () => {
  const full = '2001:0db8:0000:0000:0000:0000:0000:0001';
  const spec = (server: string, allowInsecure?: boolean): Spec => ({
    server,
    secretRef: { name: 'a' },
    ...(allowInsecure === undefined ? {} : { allowInsecure }),
  });

  test.each([
    ['https://registry.example.com', 'registry.example.com.443'],
    ['https://registry.example.com:443', 'registry.example.com.443'],
    ['https://registry.example.com:5000', 'registry.example.com.5000'],
    ['https://Registry.Example.COM', 'registry.example.com.443'],
    ['https://127.0.0.1:5000', '127.0.0.1.5000'],
    ['https://localhost', 'localhost.443'],
    ['https://docker.io', 'index.docker.io.443'],
    ['https://index.docker.io', 'index.docker.io.443'],
    ['https://registry-1.docker.io:443', 'index.docker.io.443'],
    ['https://my-docker.io', 'my-docker.io.443'],
    [`https://[${full}]`, '2001-0db8-0000-0000-0000-0000-0000-0001.443'],
    [`https://[${full}]:5000`, '2001-0db8-0000-0000-0000-0000-0000-0001.5000'],
  ])('%s goes by the name %s and no other', async (server, name) => {
    const created = (await dryRun(registryCredentials, name, spec(server))) as { spec?: Spec };
    expect(created.spec).toEqual({ ...spec(server), allowInsecure: false });
    await expect(dryRun(registryCredentials, 'other', spec(server))).rejects.toMatchObject({
      reason: 'Invalid',
      message: expect.stringContaining(
        `metadata.name: Invalid value: the name of the RegistryCredential for ${server} is ${name}`,
      ) as string,
    });
  });

  test('http:// needs allowInsecure, and its port is 80', async () => {
    const insecure = 'spec.allowInsecure: Invalid value: must be true for an http:// server';
    await expect(
      dryRun(registryCredentials, 'r.example.com.80', spec('http://r.example.com')),
    ).rejects.toThrow(insecure);
    await expect(
      dryRun(registryCredentials, 'r.example.com.80', spec('http://r.example.com', true)),
    ).resolves.toBeDefined();
  });

  test.each([
    ['no scheme', 'r.example.com'],
    ['another scheme', 'ftp://r.example.com'],
    ['a trailing slash', 'https://r.example.com/'],
    ['a path', 'https://r.example.com/v2'],
    ['a user name', 'https://me@r.example.com'],
    ['a port with a leading zero', 'https://r.example.com:0443'],
    ['a port of 65536', 'https://r.example.com:65536'],
    ['a port of 99999', 'https://r.example.com:99999'],
    ['a shortened IPv6 address', 'https://[2001:db8::1]:5000'],
    ['an upper-case IPv6 address', `https://[${full.toUpperCase()}]`],
    ['a blank', 'https://r.example.com '],
    ['nothing', ''],
  ])('a server with %s is refused with the field named', async (_, server) => {
    await expect(dryRun(registryCredentials, 'r.example.com.443', spec(server))).rejects.toMatchObject({
      reason: 'Invalid',
      message: expect.stringContaining('spec.server') as string,
    });
  });

  test('the name holds over a change: another port is refused, another scheme of the same port is not', async () => {
    const name = 'r.example.com.5000';
    await client.create(registryCredentials, object(name, spec('https://r.example.com:5000')) as never);
    const change = (server: string) =>
      client.patch(
        registryCredentials,
        { name, namespace },
        { type: 'merge', body: { spec: { server, allowInsecure: true } } },
      );
    await expect(change('https://r.example.com:5001')).rejects.toThrow(`is r.example.com.5001`);
    await expect(change('http://r.example.com:5000')).resolves.toBeDefined();
  });
});
