import { z } from 'zod';

/** The CPU of a node as its kernel describes it. */
export const HostCpu = z.object({
  model: z.string().max(256),
  /** Its features, sorted. */
  flags: z.array(z.string().max(64)).max(1024),
});
export type HostCpu = z.infer<typeof HostCpu>;

/** Reads `/proc/cpuinfo`; all CPUs of a node are taken for the same as the first. Never fails: what is not there is empty. */
export function parseCpuInfo(text: string): HostCpu {
  const value = (name: string) => new RegExp(`^${name}\\s*: (.*)$`, 'm').exec(text)?.[1]?.trim() ?? '';
  const flags = wordsIn(value('flags') || value('Features'));
  const model = value('model name') || [value('CPU implementer'), value('CPU part')].join(' ').trim();
  return { model: model.slice(0, 256), flags: flags.slice(0, 1024).map((flag) => flag.slice(0, 64)) };
}

/** Most characters of the features of a CPU as a status has them: those of 2026 have some 1,800. */
export const maxFlagsLength = 3_000;

/** The features as a status has them: names with a blank between them. */
export function flagsOf(text: string | undefined): string[] {
  return wordsIn(text ?? '');
}

function wordsIn(text: string): string[] {
  return text
    .split(' ')
    .filter((word) => word !== '')
    .toSorted();
}
