/** The QEMU processes of a cluster as the machine shows them: who runs, for which VM, in which pod, on which disks. */
import { readFileSync, readdirSync, readlinkSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { cgroupOf, hierarchies } from '../../../src/localcluster/shared/cgroup.ts';
import type { Places } from '../../../src/localcluster/shared/state.ts';
import type { GuestLife, History } from './history.ts';
import type { RunLog } from './log.ts';

/** A process in a container of the cluster. */
export interface PodProcess {
  readonly pid: number;
  readonly startTime: string;
  /** Whether it is the first process of its container. */
  readonly isFirst: boolean;
  readonly command: string;
  readonly podUid: string;
  readonly node: string;
}

/** Reads the processes of all pods of a cluster. */
export interface PodProcesses {
  scan(): PodProcess[];
}

export async function podProcesses(places: Places): Promise<PodProcesses> {
  const parent = cgroupOf(places);
  // Every process is in every hierarchy: one is enough.
  const root = (await hierarchies()).map((point) => join(point, parent)).find(exists);
  const known = new Map<string, PodProcess>();
  return {
    scan() {
      const found = root === undefined ? [] : pidsBelow(root, '').map((pid) => processOf(pid, known));
      const processes = found.filter((each) => each !== undefined);
      known.clear();
      for (const each of processes) known.set(`${each.pid}/${each.startTime}`, each);
      return processes;
    },
  };
}

interface Placed {
  readonly pid: number;
  readonly cgroup: string;
}

function pidsBelow(root: string, path: string): Placed[] {
  const folder = join(root, path);
  try {
    const own = readFileSync(join(folder, 'cgroup.procs'), 'utf8').split('\n').filter(Boolean);
    const below = readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isDirectory());
    return [
      ...own.map((pid) => ({ pid: Number(pid), cgroup: path })),
      ...below.flatMap(({ name }) => pidsBelow(root, join(path, name))),
    ];
  } catch {
    // The cgroup has gone meanwhile.
    return [];
  }
}

function processOf({ pid, cgroup }: Placed, known: ReadonlyMap<string, PodProcess>): PodProcess | undefined {
  const [, node, podUid] = /^([^/]+)\/.*\/pod([0-9a-f-]{36})\//.exec(`${cgroup}/`) ?? [];
  if (node === undefined || podUid === undefined) return undefined;
  try {
    const startTime = startTimeOf(pid);
    if (startTime === undefined) return undefined;
    const before = known.get(`${pid}/${startTime}`);
    // What a process is called changes once, when it is made: a shim's child is not yet what it will be.
    if (before !== undefined && before.command !== '' && !before.command.includes('runc')) return before;
    const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim();
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    return { pid, startTime, command, podUid, node, isFirst: /^NSpid:.*\s1$/m.test(status) };
  } catch {
    return undefined;
  }
}

/** Field 22 of /proc/<pid>/stat; undefined for a zombie. */
export function startTimeOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' ? undefined : fields[19];
  } catch {
    return undefined;
  }
}

/** Device and inode of what QEMU has open for writing under the name of a VM's disk, whatever folder that is a mount of. */
function disksOf(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
      const link = `/proc/${pid}/fd/${fd}`;
      if (!readlinkSync(link).endsWith('/disk.qcow2')) return [];
      const flags = /^flags:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/fdinfo/${fd}`, 'utf8'))?.[1] ?? '0';
      const { dev, ino } = statSync(link);
      return (Number.parseInt(flags, 8) & 3) === 0 ? [] : [`${dev}:${ino}`];
    });
  } catch {
    return [];
  }
}

function exists(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false }) !== undefined;
}

/** Brings the lives of guests up to what one scan shows. */
export function noteGuests(
  history: History,
  log: RunLog,
  processes: readonly PodProcess[],
  at: number,
): void {
  const seen = new Set<GuestLife>();
  for (const process of processes) {
    const vmUid = /^qemu-system-\S+ .*-uuid ([0-9a-f-]{36})/.exec(process.command)?.[1];
    if (vmUid === undefined) continue;
    seen.add(lifeOf(history, log, { ...process, vmUid }, at));
  }
  for (const life of history.guests) {
    if (life.until !== undefined || seen.has(life)) continue;
    life.until = at;
    log.write('guests', { end: life });
  }
}

function lifeOf(
  { guests }: History,
  log: RunLog,
  { pid, startTime, vmUid, podUid, node }: PodProcess & { vmUid: string },
  at: number,
): GuestLife {
  const disks = disksOf(pid);
  const known = guests.find(
    (life) => life.pid === pid && life.startTime === startTime && life.until === undefined,
  );
  if (known !== undefined) {
    known.lastSeen = at;
    known.disks = [...new Set([...known.disks, ...disks])];
    return known;
  }
  const life = { pid, startTime, vmUid, podUid, node, disks, since: at, lastSeen: at };
  guests.push(life);
  log.write('guests', { begin: life });
  return life;
}
