import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Takes one finished line of text for the user. */
export type Progress = (line: string) => void;

/** What a running step tells about how far it is, e.g. "312 of 1,204 packages". */
export interface Step {
  at(position: string): void;
}

/** How often a step that takes long says that it is still alive. */
const reportEveryMs = 10_000;

/** Long steps, each with a line at its start, while it runs and at its end; durations are kept for the next time. */
export interface Steps {
  run<T>(name: string, work: (step: Step) => Promise<T>): Promise<T>;
}

/** `dir` keeps `durations.json`; a missing or broken one only means that nothing is known about last time. */
export function createSteps(dir: string, progress: Progress): Steps {
  return {
    async run(name, work) {
      const last = (await readDurations(dir))[name];
      const usual = last === undefined ? '' : ` (${seconds(last)} last time)`;
      progress(`${name}${usual}`);
      const started = performance.now();
      let position = '';
      const timer = setInterval(() => {
        progress(
          `${name}: ${position}${position === '' ? '' : ', '}${seconds(performance.now() - started)}${usual}`,
        );
      }, reportEveryMs);
      try {
        const result = await work({ at: (text) => (position = text) });
        const tookMs = performance.now() - started;
        progress(`${name}: done in ${seconds(tookMs)}`);
        await storeDuration(dir, name, tookMs);
        return result;
      } finally {
        clearInterval(timer);
      }
    },
  };
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
}

async function readDurations(dir: string): Promise<Record<string, number>> {
  try {
    const parsed: unknown = JSON.parse(await readFile(join(dir, 'durations.json'), 'utf8'));
    return typeof parsed === 'object' && parsed !== null ? (parsed as Record<string, number>) : {};
  } catch {
    return {};
  }
}

async function storeDuration(dir: string, name: string, ms: number): Promise<void> {
  await mkdir(dir, { recursive: true });
  const durations = { ...(await readDurations(dir)), [name]: Math.round(ms) };
  const temporary = join(dir, `durations.${process.pid}.tmp`);
  await writeFile(temporary, `${JSON.stringify(durations, undefined, 2)}\n`);
  await rename(temporary, join(dir, 'durations.json'));
}
