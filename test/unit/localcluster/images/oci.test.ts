import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { archiveOf, createImage } from '../../../../src/localcluster/images/oci.ts';
import { createPauseImage } from '../../../../src/localcluster/images/pause.ts';
import type { Blob } from '../../../../src/registry/artifact.ts';

const files = [{ name: 'disk/disk.qcow2', content: Buffer.from('disk'), mode: 0o440, uid: 107, gid: 107 }];

describe('images made in memory', () => {
  test('the same files make the same digest', async () => {
    const one = await createImage({ files, architecture: 'amd64' });
    const other = await createImage({ files, architecture: 'amd64' });
    expect(one.descriptor.digest).toBe(other.descriptor.digest);
  });

  test('every part is named by the hash of its content', async () => {
    const image = await createImage({ files, architecture: 'amd64' });
    for (const { bytes, descriptor } of [...image.blobs, image])
      expect(descriptor.digest).toBe(`sha256:${createHash('sha256').update(bytes).digest('hex')}`);
  });

  test('the layer holds the folder, and the file with its owner', async () => {
    const [layer] = (await createImage({ files, architecture: 'amd64' })).blobs as [Blob, Blob];
    const header = (block: number, from: number, length: number): string =>
      layer.bytes
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
