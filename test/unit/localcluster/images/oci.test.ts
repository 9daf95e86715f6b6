import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { archiveOf, createImage, hasManifest, hasTags } from '../../../../src/localcluster/images/oci.ts';
import { createPauseImage } from '../../../../src/localcluster/images/pause.ts';

const files = [{ name: 'disk/disk.qcow2', content: Buffer.from('disk'), mode: 0o440, uid: 107, gid: 107 }];

describe('images made in memory', () => {
  test('the same files make the same digest', async () => {
    const one = await createImage({ files, architecture: 'amd64' });
    const other = await createImage({ files, architecture: 'amd64' });
    expect(one.manifest.digest).toBe(other.manifest.digest);
  });

  test('every part is named by the hash of its content', async () => {
    const image = await createImage({ files, architecture: 'amd64' });
    for (const part of [image.config, image.layer, image.manifest])
      expect(part.digest).toBe(`sha256:${createHash('sha256').update(part.content).digest('hex')}`);
  });

  test('the layer holds the folder, and the file with its owner', async () => {
    const { layer } = await createImage({ files, architecture: 'amd64' });
    const header = (block: number, from: number, length: number): string =>
      layer.content
        .toString('latin1', block * 512 + from, block * 512 + from + length)
        .replaceAll('\0', '')
        .trim();
    expect(header(0, 0, 100)).toMatch(/^disk\/?$/);
    expect(header(1, 0, 100)).toBe('disk/disk.qcow2');
    expect(Number.parseInt(header(1, 108, 8), 8)).toBe(107);
  });

  test('an archive names the image for containerd', async () => {
    const archive = await archiveOf(await createPauseImage(), 'localhost/svc3/pause:1');
    expect(archive.toString('latin1')).toContain('"io.containerd.image.name":"localhost/svc3/pause:1"');
  });
});

describe('what a registry has', () => {
  const hasOf = async (digests: Record<string, string>) => {
    const server = createServer((request, response) => {
      const digest = digests[request.url?.split('/manifests/')[1] ?? ''];
      if (digest === undefined) response.writeHead(404).end();
      else response.writeHead(200, { 'docker-content-digest': digest }).end();
    }).listen(0, '127.0.0.1');
    onTestFinished(() => void server.close());
    await once(server, 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const registry = { url, user: 'svc3', password: 'password' };
    return {
      manifest: await hasManifest(registry, 'svc3/guest', 'a1'),
      tags: await hasTags(registry, 'svc3/guest', ['a1', 'latest']),
    };
  };

  test.each<[string, Record<string, string>, object]>([
    ['nothing', {}, { manifest: false, tags: false }],
    ['the first of two tags', { a1: 'sha256:a' }, { manifest: true, tags: false }],
    [
      'another image under the second',
      { a1: 'sha256:a', latest: 'sha256:b' },
      { manifest: true, tags: false },
    ],
    ['one image under both', { a1: 'sha256:a', latest: 'sha256:a' }, { manifest: true, tags: true }],
  ])('%s', async (_, digests, has) => {
    expect(await hasOf(digests)).toEqual(has);
  });
});
