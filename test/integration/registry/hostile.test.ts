import type { ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createRegistryClient, type RegistryClient } from '../../../src/registry/client.ts';
import { locateDisk } from '../../../src/registry/disk.ts';
import { resolveImage } from '../../../src/registry/image.ts';
import { parseReference } from '../../../src/registry/reference.ts';
import {
  putImage,
  startHostileRegistry,
  zeros,
  type HostileRegistry,
} from '../../support/hostileregistry.ts';
import { digestOf } from '../../support/registry.ts';

/** What a reader may have taken of an answer without end, with what lies in buffers of the kernel on both sides. */
const littleBytes = 32 * 2 ** 20;

let registry: HostileRegistry;
let client: RegistryClient;

beforeAll(async () => {
  registry = await startHostileRegistry();
});

beforeEach(() => {
  const credentials = { username: 'alice', password: 'canary' };
  client = createRegistryClient({ registry: registry.address, scheme: 'http', credentials });
  registry.answers.clear();
  registry.requests.length = 0;
  Object.assign(registry.endless, { begun: 0, givenUp: 0, bytes: 0 });
});

afterEach(() => client.close());

afterAll(() => registry?.close());

const resolve = (repository = 'evil') =>
  resolveImage(client, parseReference(`${registry.address}/${repository}:1`));

const config = Buffer.from(JSON.stringify({ architecture: 'amd64' }));
const declared = { digest: digestOf(config), size: config.length };

function putConfig(bytes = config, digest = declared.digest): void {
  registry.answers.set(`/v2/evil/blobs/${digest}`, (_request, response) => void response.end(bytes));
}

async function nothingMoreIsRead(): Promise<void> {
  await expect.poll(() => registry.endless).toMatchObject({ begun: 1, givenUp: 1 });
  expect(registry.endless.bytes).toBeLessThan(littleBytes);
}

describe('an answer without end', () => {
  it.each<[string, string, (response: ServerResponse) => void, string]>([
    ['as a manifest', '/v2/evil/manifests/1', () => undefined, 'is larger than 4194304 bytes'],
    [
      'as a manifest that says its length',
      '/v2/evil/manifests/1',
      (response) => response.setHeader('content-length', 2 ** 40),
      'is larger than 4194304 bytes',
    ],
    [
      'as a configuration of 30 bytes',
      `/v2/evil/blobs/${declared.digest}`,
      () => undefined,
      `is larger than the ${declared.size} bytes it is declared with`,
    ],
  ])('%s is read as far as was declared', async (_, path, prepare, message) => {
    putImage(registry, 'evil', declared);
    registry.answers.set(path, (_request, response) => {
      prepare(response);
      return registry.withoutEnd(response);
    });
    await expect(resolve()).rejects.toMatchObject({
      reason: 'BadGateway',
      message: expect.stringContaining(message),
    });
    await nothingMoreIsRead();
  });

  it('of a token service is read as far as a token can be long', async () => {
    registry.answers.set('/v2/evil/manifests/1', (_request, response) => {
      const challenge = `Bearer realm="http://${registry.address}/token",service="s"`;
      response.writeHead(401, { 'www-authenticate': challenge }).end();
    });
    registry.answers.set('/token', (_request, response) => registry.withoutEnd(response));
    await expect(resolve()).rejects.toMatchObject({
      reason: 'BadGateway',
      message: `the token service of registry ${registry.address} sent more than 65536 bytes`,
    });
    await nothingMoreIsRead();
  });

  it('as an error is read as far as a sentence is long', async () => {
    registry.answers.set('/v2/evil/manifests/1', (_request, response) => {
      response.statusCode = 403;
      return registry.withoutEnd(response);
    });
    await expect(resolve()).rejects.toMatchObject({ reason: 'Forbidden' });
    await nothingMoreIsRead();
  });

  it('as the body of a redirect is not read', async () => {
    putConfig();
    putImage(registry, 'other', declared);
    registry.answers.set('/v2/evil/manifests/1', (_request, response) => {
      response.writeHead(307, { location: '/v2/other/manifests/1' });
      return registry.withoutEnd(response);
    });
    await expect(resolve()).resolves.toMatchObject({ architecture: 'amd64' });
    await nothingMoreIsRead();
  });

  it('instead of the part of a layer that was asked for is not read', async () => {
    putConfig();
    putImage(registry, 'evil', declared);
    const image = await resolve();
    registry.answers.set(`/v2/evil/blobs/${zeros}`, (_request, response) => {
      response.statusCode = 206;
      return registry.withoutEnd(response);
    });
    await expect(locateDisk(client, 'evil', image)).rejects.toThrow('more of a layer than asked for');
    await nothingMoreIsRead();
  });

  it.each(['tags', 'repositories'] as const)(
    'as a list of %s is read no further than a page is long',
    async (what) => {
      const path = what === 'tags' ? '/v2/evil/tags/list' : '/v2/_catalog';
      registry.answers.set(path, (_request, response) => registry.withoutEnd(response));
      await expect(what === 'tags' ? client.tags('evil') : client.repositories()).rejects.toThrow(
        'larger than',
      );
      await nothingMoreIsRead();
    },
  );
});

describe('what does not fit', () => {
  it.each([
    ['another configuration of the same length', Buffer.from('{"architecture":"arm64"}')],
    ['a shorter configuration', Buffer.from('{}')],
    ['nothing', Buffer.alloc(0)],
  ])('%s than its digest says is refused', async (_, bytes) => {
    putImage(registry, 'evil', declared);
    putConfig(bytes);
    await expect(resolve()).rejects.toMatchObject({
      reason: 'BadGateway',
      message: `the configuration of evil does not match its size and digest ${declared.digest}`,
    });
  });

  it.each(['digest', 'size'])('a member of an index whose %s is another is refused', async (what) => {
    putConfig();
    const { digest, size } = putImage(registry, 'evil', declared);
    const other = what === 'digest' ? zeros : digest;
    registry.answers.set(
      `/v2/evil/manifests/${other}`,
      registry.answers.get('/v2/evil/manifests/1') ?? (() => undefined),
    );
    const member = {
      mediaType: 'application/vnd.oci.image.manifest.v1+json',
      digest: other,
      size: what === 'size' ? size - 1 : size,
      platform: { architecture: 'amd64', os: 'linux' },
    };
    const type = 'application/vnd.oci.image.index.v1+json';
    registry.put('/v2/evil/manifests/2', { schemaVersion: 2, manifests: [member] }, type);
    await expect(resolveImage(client, parseReference(`${registry.address}/evil:2`))).rejects.toMatchObject({
      reason: 'BadGateway',
    });
  });

  it.each<[string, Record<string, unknown>, string]>([
    ['a size that no number holds', { config: { ...declared, size: 1e300 } }, 'config.size'],
    ['a negative size', { config: { ...declared, size: -1 } }, 'config.size'],
    ['a broken size', { config: { ...declared, size: 0.5 } }, 'config.size'],
    [
      'a digest that leads elsewhere',
      { config: { ...declared, digest: '../../other/blobs/x' } },
      'config.digest',
    ],
    ['layers that are no list', { layers: { length: 2 } }, 'layers'],
    ['layers of nothing', { layers: [null] }, 'layers.0'],
    ['another version', { schemaVersion: 1 }, 'schemaVersion'],
    [
      'layers of more bytes than there are',
      { layers: [{ ...declared, size: 2 ** 53 - 1 }, declared] },
      'claim to have',
    ],
  ])('a manifest with %s is no image', async (_, wrong, named) => {
    putConfig();
    putImage(registry, 'evil', declared, wrong);
    await expect(resolve()).rejects.toMatchObject({
      reason: 'Invalid',
      message: expect.stringContaining(named),
    });
    expect(registry.requests.filter((each) => each.includes('other'))).toEqual([]);
  });

  it.each([
    ['two million lists in each other', Buffer.from('['.repeat(2_000_000))],
    ['a million objects', Buffer.from(`[${'{},'.repeat(1_000_000)}{}]`)],
    ['packed', gzipSync(Buffer.alloc(2 ** 28))],
  ])('a manifest that is %s is not taken apart', async (_, bytes) => {
    registry.answers.set('/v2/evil/manifests/1', (_request, response) => {
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(bytes);
    });
    await expect(resolve()).rejects.toMatchObject({
      reason: 'BadGateway',
      message: expect.stringContaining('a manifest that is not JSON'),
    });
  });

  it.each([
    ['configuration', 'an architecture that is none', { architecture: 'x'.repeat(100_000) }],
    ['configuration', 'an architecture that is none', { architecture: ['amd64'] }],
  ])('a %s with %s is refused in a short sentence', async (_, named, document) => {
    const bytes = Buffer.from(JSON.stringify(document));
    const wrong = { digest: digestOf(bytes), size: bytes.length };
    putImage(registry, 'evil', wrong);
    putConfig(bytes, wrong.digest);
    await expect(resolve()).rejects.toThrow(new RegExp(`^the configuration of evil names ${named}$`));
  });

  it('a location that is none is an error of the registry', async () => {
    for (const location of ['http://', 'file:///etc/passwd', 'gopher://a/']) {
      registry.answers.set('/v2/evil/manifests/1', (_request, response) => {
        response.writeHead(307, { location }).end();
      });
      await expect(resolve()).rejects.toMatchObject({ reason: 'BadGateway' });
    }
  });
});

describe('a list', () => {
  it('whose pages lead in a circle ends with what is wanted', async () => {
    registry.answers.set('/v2/_catalog', (_request, response) => {
      const repositories = Array.from({ length: 100 }, (_, index) => `r${index}`);
      response.writeHead(200, { link: '</v2/_catalog?last=r>; rel="next"' });
      response.end(JSON.stringify({ repositories }));
    });
    expect(await client.repositories({ limit: 250 })).toHaveLength(250);
    expect(registry.requests).toHaveLength(3);
  });

  it.each([{ tags: 'all' }, { tags: { length: 1 } }, { tags: 1 }])(
    'that is %j is an error of the registry',
    async (body) => {
      registry.answers.set(
        '/v2/evil/tags/list',
        (_request, response) => void response.end(JSON.stringify(body)),
      );
      await expect(client.tags('evil')).rejects.toMatchObject({ reason: 'BadGateway' });
    },
  );
});
