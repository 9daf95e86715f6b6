import { createWriteStream } from 'node:fs';
import { open, rename, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { addAbortSignal, Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { isSvc3Error, messageOf, Svc3Error } from '../errors.ts';
import { command, type Command } from './command.ts';
import { isMissing } from './config.ts';
import type { Context } from './context.ts';
import { described, disksOf, nouns, plurals, samples, type Kind } from './diskkind.ts';
import { architectureOption, descriptionOption, longWorkOptions, showWork } from './longwork.ts';
import { aborted } from './sleep.ts';
import { usageError } from './usage.ts';

export function uploadCommand(kind: Kind): Command {
  return command({
    path: [kind, 'upload'],
    summary: `Upload a file as an ${nouns[kind]}`,
    description:
      'It needs the HTTP API. With - the file comes from standard input. A file goes on where its connection broke.',
    arguments: {
      file: { summary: 'File, or - for standard input' },
      name: { summary: `Name of the ${nouns[kind]}` },
    },
    options: { ...descriptionOption, ...architectureOption, ...longWorkOptions },
    examples: [
      {
        line: `svc3 ${kind} upload ./disk.${kind === 'iso' ? 'iso' : 'qcow2'} ${samples[kind]} --wait`,
        summary: 'From a file',
      },
      {
        line: `curl -s https://example.com/disk | svc3 ${kind} upload - ${samples[kind]}`,
        summary: 'From a pipe',
      },
    ],
    async run(context, { arguments: { file, name }, options: { description, architecture, wait } }) {
      const { disks, ns } = await disksOf(context, kind);
      const { body, size, reopen } = await contentOf(context, file);
      const tell = (sent: number) => context.out.progress(`${name}: ${amount(sent, size)} sent`);
      const filename = file === '-' ? name : path.basename(file);
      const { signal } = context;
      context.ifInterrupted(
        `the upload to ${kind} ${name} is given up, unless all of it had come: svc3 ${kind} get ${name} shows whether there is such an ${kind}, and what it waits for`,
      );
      const begun = await disks.upload(ns, {
        name,
        ...described(description),
        ...(architecture === undefined ? {} : { architecture }),
        ...(size === undefined ? {} : { size }),
        body: addAbortSignal(signal, counting(body, tell)),
        ...(reopen === undefined
          ? {}
          : {
              reopen: async (start) => {
                signal.throwIfAborted();
                const rest = counting(await reopen(start), (sent) => tell(start + sent));
                return addAbortSignal(signal, rest);
              },
            }),
        filename,
        signal,
      });
      await showWork(context, kind, { begun, disks, wait });
    },
  });
}

/** The same bytes, and how many went by. A listener would set the stream going before somebody reads it. */
function counting(body: Readable, onBytes: (sent: number) => void): Readable {
  async function* counted(): AsyncGenerator<Uint8Array> {
    let sent = 0;
    for await (const chunk of body as AsyncIterable<Uint8Array>) {
      sent += chunk.length;
      onBytes(sent);
      yield chunk;
    }
  }
  const outer = Readable.from(counted(), { objectMode: false });
  // One that nobody has read from ends nothing of what it was made of.
  return outer.once('close', () => body.destroy());
}

interface Content {
  readonly body: Readable;
  readonly size?: number;
  /** Undefined for what can be read once. */
  readonly reopen?: (start: number) => Promise<Readable>;
}

async function contentOf({ environment }: Context, file: string): Promise<Content> {
  if (file === '-') return { body: Readable.from(environment.stdin, { objectMode: false }) };
  try {
    const handle = await open(file, 'r');
    const found = await handle.stat();
    if (found.isDirectory()) {
      await handle.close();
      throw usageError(`FILE: ${file} is a folder`);
    }
    // A pipe or a device does not say how much it has, and gives it once.
    if (!found.isFile()) return { body: handle.createReadStream() };
    const { size } = found;
    const reopen = async (start: number) => (await open(file, 'r')).createReadStream({ start });
    return { body: handle.createReadStream(), size, reopen };
  } catch (error) {
    if (isSvc3Error(error)) throw error;
    if (isMissing(error)) throw new Svc3Error('NotFound', `FILE: ${file} does not exist`, { cause: error });
    throw new Svc3Error('BadRequest', `FILE: ${messageOf(error)}`, { cause: error });
  }
}

export function downloadCommand(kind: Kind): Command {
  return command({
    path: [kind, 'download'],
    summary: `Download the disk of an ${nouns[kind]}`,
    description:
      'It needs the HTTP API. A download goes on where its connection broke, and its bytes are checked. Where it cannot go on, or is damaged, no file is left.',
    arguments: {
      name: { summary: `Name of the ${nouns[kind]}`, complete: plurals[kind] },
      file: { summary: 'File to write, or - for standard output' },
    },
    options: { force: { kind: 'flag', summary: 'Overwrite the file' } },
    onlyShows: true,
    examples: [
      {
        line: `svc3 ${kind} download ${samples[kind]} ./disk.${kind === 'iso' ? 'iso' : 'qcow2'}`,
        summary: 'Into a file',
      },
    ],
    async run(context, { arguments: { name, file }, options }) {
      const { disks, ns } = await disksOf(context, kind);
      const target = file === '-' ? 'stream' : await targetOf(file);
      if (target === 'file' && !options.force)
        throw usageError(`FILE: ${file} exists; --force overwrites it`);
      const { body, size, digest } = await disks.download(ns, name);
      if (file === '-') {
        await printed(context, body);
        return;
      }
      const path = target === 'stream' ? file : `${file}.${process.pid}.part`;
      await save(context, { body, file, path, ...(size === undefined ? {} : { size }) });
      const check = digest === undefined ? 'the server named no SHA-256' : `checked: SHA-256 ${digest}`;
      await context.out.done(kind, name, `Downloaded ${kind} ${name} to ${file} (${check})`);
    },
  });
}

/** No faster than whoever reads it. */
async function printed({ environment: { stdout }, signal }: Context, body: Readable): Promise<void> {
  for await (const chunk of addAbortSignal(signal, body) as AsyncIterable<Uint8Array>) {
    if (stdout.write(chunk) || stdout.once === undefined) continue;
    const drained = new Promise<void>((resolve) => stdout.once?.('drain', resolve));
    await Promise.race([drained, aborted(signal)]);
  }
}

/** @param path - where the bytes go until they are whole; the file itself, where that is a pipe or a device, which nothing may replace */
async function save(
  { out, signal }: Context,
  { body, file, path: draft, size }: { body: Readable; file: string; path: string; size?: number },
): Promise<void> {
  let received = 0;
  body.on('data', (chunk: Uint8Array) => {
    received += chunk.length;
    out.progress(`${path.basename(file)}: ${amount(received, size)}`);
  });
  try {
    const flags = draft === file ? 'r+' : 'w';
    await pipeline(body, createWriteStream(draft, { flags, mode: 0o644 }), { signal });
    if (size !== undefined && received !== size)
      throw new Svc3Error('BadGateway', `the download broke off after ${received} of ${size} bytes`);
    if (draft !== file) await rename(draft, file);
  } catch (error) {
    if (draft !== file) await rm(draft, { force: true });
    throw isSvc3Error(error)
      ? error
      : new Svc3Error('BadGateway', `cannot write ${file}: ${messageOf(error)}`, { cause: error });
  }
}

/** What is at the place of the file: nothing, a file, or a pipe or device that takes bytes as they come. */
async function targetOf(file: string): Promise<'nothing' | 'file' | 'stream'> {
  try {
    const found = await stat(file);
    if (found.isDirectory()) throw usageError(`FILE: ${file} is a folder`);
    return found.isFile() ? 'file' : 'stream';
  } catch (error) {
    if (isMissing(error)) return 'nothing';
    if (isSvc3Error(error)) throw error;
    throw new Svc3Error('BadRequest', `FILE: ${messageOf(error)}`, { cause: error });
  }
}

/** How much of a file there is; in MiB where its size is not known. */
function amount(bytes: number, size: number | undefined): string {
  return size === undefined
    ? `${(bytes / 1024 ** 2).toFixed(1)} MiB`
    : `${Math.floor((bytes * 100) / Math.max(1, size))}%`;
}
