import { readdir, readFile } from 'node:fs/promises';
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

/** SIGKILL. */
export function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It is gone already.
  }
}

/** Process ids of the children of a process. */
export async function childrenOf(parent: number): Promise<number[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const found = await Promise.all(
    pids.map(async (pid) => {
      const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
      return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]) === parent ? Number(pid) : undefined;
    }),
  );
  return found.filter((pid) => pid !== undefined);
}
