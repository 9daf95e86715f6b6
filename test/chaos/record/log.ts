/** The folder of a run: everything that was recorded, one JSON object per line, to read a finding by. */
import { createWriteStream, mkdirSync, writeFileSync, type WriteStream } from 'node:fs';
import { join } from 'node:path';

export interface RunLog {
  readonly folder: string;
  /** Appends to `<name>.jsonl`. */
  write(name: string, entry: object): void;
  /** Writes a whole file. */
  file(name: string, text: string): void;
  close(): Promise<void>;
}

export function createRunLog(folder: string): RunLog {
  mkdirSync(folder, { recursive: true });
  const streams = new Map<string, WriteStream>();
  const streamOf = (name: string): WriteStream => {
    const known = streams.get(name);
    if (known !== undefined) return known;
    const made = createWriteStream(join(folder, `${name}.jsonl`));
    streams.set(name, made);
    return made;
  };
  return {
    folder,
    write: (name, entry) => void streamOf(name).write(`${JSON.stringify(entry)}\n`),
    file: (name, text) => writeFileSync(join(folder, name), text),
    async close() {
      await Promise.all(
        [...streams.values()].map((stream) => new Promise<void>((resolve) => stream.end(resolve))),
      );
    },
  };
}
