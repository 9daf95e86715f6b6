import { createHash } from 'node:crypto';
import { open } from 'node:fs/promises';
import { messageOf } from '../errors.ts';
import { RunnerFailure } from './failure.ts';

/** Bytes that are read at the beginning of a file, where header and tables are, and at its end. */
const edgeBytes = 2 ** 20;
/** What is read in between. */
const samples = 64;
const sampleBytes = 64 * 1024;

/**
 * What tells the disk of an image from that of another one where no digest does: how many bytes its file has, and a SHA-256 of its first and last MiB
 * and of 64 samples of 64 KiB at even distances in between. 6 MiB are read at most, however large it is. Two builds of an image differ in nearly all
 * that is compressed, and else in the tables of their file systems, which are spread over the disk.
 *
 * @throws RunnerFailure ImageInvalid where the file cannot be read
 */
export async function imageStampOf(path: string): Promise<string> {
  try {
    return await stampOf(path);
  } catch (cause) {
    throw new RunnerFailure('ImageInvalid', `the image's disk cannot be read: ${messageOf(cause)}`, {
      cause,
    });
  }
}

async function stampOf(path: string): Promise<string> {
  const file = await open(path);
  try {
    const { size } = await file.stat();
    const hash = createHash('sha256');
    for (const { at, length } of piecesOf(size)) {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, at);
      hash.update(buffer.subarray(0, bytesRead));
    }
    return `${size}:${hash.digest('hex')}`;
  } finally {
    await file.close();
  }
}

interface Piece {
  readonly at: number;
  readonly length: number;
}

/** The whole of a small file. */
function piecesOf(size: number): Piece[] {
  const between = size - 2 * edgeBytes;
  if (between <= samples * sampleBytes) return [{ at: 0, length: size }];
  const distance = (between - sampleBytes) / (samples - 1);
  const spread = Array.from({ length: samples }, (_, i) => ({
    at: edgeBytes + Math.floor(i * distance),
    length: sampleBytes,
  }));
  return [{ at: 0, length: edgeBytes }, ...spread, { at: size - edgeBytes, length: edgeBytes }];
}
