/** Layers of images: the same files give the same bytes, whenever and wherever. */
import { spawn } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { mediaTypes } from '../registry/client.ts';
import { digesting } from '../registry/digest.ts';
import type { Descriptor } from '../registry/manifest.ts';

export interface Layer {
  /** The compressed layer. */
  readonly file: string;
  readonly descriptor: Descriptor;
  /** Digest of the layer without compression. */
  readonly diffId: string;
}

/** What everybody may read and nobody but root may change; a checkout's own modes depend on who made it. */
export const readableByAll = 'u=rwX,go=rX';

/** Packs what is in a folder into `file`: sorted, owned by root, with no time but the epoch. `mode` replaces that of the files. */
export async function packLayer(
  folder: string,
  file: string,
  { signal, mode }: { signal: AbortSignal; mode?: string },
): Promise<Layer> {
  const parameters = [
    ...(mode === undefined ? [] : [`--mode=${mode}`]),
    '--create',
    '--sort=name',
    '--format=gnu',
    '--mtime=@0',
    '--owner=0',
    '--group=0',
    '--numeric-owner',
  ];
  const tar = spawn('tar', [...parameters, `--directory=${folder}`, '.'], {
    stdio: ['ignore', 'pipe', 'inherit'],
    signal,
  });
  const ended = new Promise<void>((resolve, reject) => {
    tar.once('error', reject);
    tar.once('close', (code) => (code === 0 ? resolve() : reject(new Error(`tar ended with ${code}`))));
  });
  const plain = digesting();
  const compressed = digesting();
  const packed = pipeline(tar.stdout, plain, createGzip({ level: 6 }), compressed, createWriteStream(file), {
    signal,
  });
  await Promise.all([packed, ended]);
  return {
    file,
    descriptor: { mediaType: mediaTypes.ociLayerGzip, digest: compressed.digest(), size: compressed.size() },
    diffId: plain.digest(),
  };
}
