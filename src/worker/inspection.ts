import { open, stat } from 'node:fs/promises';
import { Svc3Error } from '../errors.ts';
import { detectFormat } from './diskformat.ts';
import { headerBytes, readQcow2Header } from './qcow2header.ts';
import { qemuImg, type Tool, type ToolLimits } from './qemuimg.ts';

export interface Inspected {
  readonly format: 'qcow2' | 'raw' | 'iso';
  /** Bytes that a guest sees. */
  readonly virtualSize: number;
}

export interface InspectionOptions {
  readonly kind: 'Image' | 'ISO';
  readonly maxVirtualSize: number;
  readonly signal: AbortSignal;
  readonly toolLimits?: ToolLimits;
  /** Default: qemu-img itself. */
  readonly tool?: Tool;
}

interface CheckReport {
  corruptions?: number;
  'image-end-offset'?: number;
}

/**
 * Inspects an untrusted disk file: its format by its own bytes, whether it would make QEMU open other files, whether it is
 * whole.
 *
 * @throws Invalid with a sentence.
 */
export async function inspect(path: string, options: InspectionOptions): Promise<Inspected> {
  const { kind, maxVirtualSize } = options;
  const { size } = await stat(path);
  const head = await readHead(path);
  const format = detectFormat(head, kind);
  if (format === 'iso') return { format, virtualSize: size };
  if (format === 'raw') {
    if (size > maxVirtualSize)
      throw new Svc3Error(
        'Invalid',
        `the disk has ${size} bytes, the largest that is taken has ${maxVirtualSize}`,
      );
    return { format, virtualSize: Math.ceil(size / 512) * 512 };
  }
  const { virtualSize, clusterSize } = readQcow2Header(head, { fileSize: size, maxVirtualSize });
  await check(path, size + clusterSize, options);
  return { format, virtualSize };
}

async function readHead(path: string): Promise<Buffer> {
  const file = await open(path);
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(headerBytes), 0, headerBytes, 0);
    return buffer.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
}

/**
 * The header has been found harmless, so qemu-img opens this file and no other. Leaks (exit code 3) waste room only.
 *
 * @param below the end of the last cluster in use has to lie below this: the file's size and a cluster more, since
 * compressed data may end within its cluster.
 */
async function check(path: string, below: number, options: InspectionOptions): Promise<void> {
  const { signal, toolLimits, tool = qemuImg } = options;
  const { code, output } = await tool(['check', '-f', 'qcow2', '--output=json', path], {
    signal,
    accept: [0, 2, 3],
    ...(toolLimits === undefined ? {} : { limits: toolLimits }),
  });
  judgeCheck({ code, output, below });
}

/** @throws Invalid where `qemu-img check` found damage, or the end of the image at `below` or beyond. */
export function judgeCheck({ code, output, below }: { code: number; output: string; below: number }): void {
  const report = JSON.parse(output === '' ? '{}' : output) as CheckReport;
  if (code === 2) throw new Svc3Error('Invalid', `the qcow2 file is damaged in ${report.corruptions} places`);
  if ((report['image-end-offset'] ?? 0) >= below)
    throw new Svc3Error('Invalid', 'the qcow2 file ends before its data does; it is cut off');
}
