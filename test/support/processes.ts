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

/** How many other processes have a file open. */
export function processesThatHaveOpen(file: string): number {
  const hasOpen = (pid: string): boolean => {
    try {
      const folder = `/proc/${pid}/fd`;
      return readdirSync(folder).some((fd) => readlinkSync(`${folder}/${fd}`) === file);
    } catch {
      return false;
    }
  };
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && name !== String(process.pid));
  return pids.filter(hasOpen).length;
}
