import { readFileSync, readdirSync, readlinkSync } from 'node:fs';

/** Command names of the processes whose working folder is `dir` or below it. */
export function processesIn(dir: string): string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        const folder = readlinkSync(`/proc/${pid}/cwd`);
        const isInside = folder === dir || folder.startsWith(`${dir}/`);
        return isInside ? [readFileSync(`/proc/${pid}/comm`, 'utf8').trim()] : [];
      } catch {
        return [];
      }
    });
}
