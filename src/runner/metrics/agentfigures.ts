import type { GuestAgent } from '../agent.ts';
import type { Machine } from '../machine.ts';
import { guestBytes } from './memory.ts';

/** What the guest's agent said when it was last asked. */
export interface AgentFigures {
  readonly agentUp: boolean;
  readonly fileSystems: FileSystems | undefined;
}

/** Those of a guest that may grow full. */
export interface FileSystems {
  readonly root?: FileSystem;
  /** Of those on further disks, the one that is fullest. */
  readonly data?: FileSystem;
  /** When the agent said it, in seconds since 1970. */
  readonly saidAt: number;
}

/** In bytes. */
export interface FileSystem {
  readonly size: number;
  readonly used: number;
}

export interface AgentReader {
  /** What is known of the guest that runs; never waits for it. Undefined until it has been asked. Each call is a scrape. */
  figures(machine: Machine): AgentFigures | undefined;
}

/**
 * The agent is asked behind the back of every tenth scrape: its answer costs several times what all else of a scrape does, under emulation
 * most of all. With a scrape in 30 s that is every five minutes.
 */
const scrapesPerQuestion = 10;
/** Where scrapes are rarer the next one after this time asks, so that what the agent said is never too old by that alone. */
const questionAfterMs = 5 * 60_000;
/** Longer than three questions in a row that a busy guest has left without an answer, with a scrape in 30 s. */
const tooOldMs = 15 * 60_000;
const answerWithinMs = 2_000;

interface Known {
  readonly machine: Machine;
  figures: AgentFigures | undefined;
  /** By the clock that is never set. */
  saidAtMs: number;
  /** When it was asked last, by the same clock. */
  askedAtMs: number;
  /** It is asked again by the first scrape after this moment, and by the last of these. */
  dueAtMs: number;
  scrapesToGo: number;
  isAsked: boolean;
  /** Questions in a row that found no agent. */
  failures: number;
}

/** Follows the guest of each machine that it is asked about; it forgets what the one before said. */
export function createAgentReader({
  monotonicMs = () => performance.now(),
  wallMs = () => Date.now(),
  random = () => Math.random(),
} = {}): AgentReader {
  let known: Known | undefined;

  async function ask(one: Known): Promise<void> {
    const said = await readFileSystems(one.machine.agent);
    const isFirst = one.figures?.agentUp !== true;
    if (said.agentUp) {
      one.failures = 0;
      // Guests that were started together are not asked together for ever.
      wait(one, isFirst ? random() : 1);
    } else {
      // A guest that boots has an agent soon, and one that has none costs little.
      wait(one, Math.min(2 ** one.failures / scrapesPerQuestion, 1));
      one.failures += 1;
    }
    if (said.fileSystems === undefined)
      one.figures = { agentUp: said.agentUp, fileSystems: one.figures?.fileSystems };
    else {
      one.saidAtMs = monotonicMs();
      one.figures = { agentUp: true, fileSystems: { ...said.fileSystems, saidAt: wallMs() / 1000 } };
    }
    one.isAsked = false;
  }

  return {
    figures(machine) {
      if (known?.machine !== machine) known = firstOf(machine);
      known.scrapesToGo -= 1;
      if (!known.isAsked && (known.scrapesToGo <= 0 || monotonicMs() >= known.dueAtMs)) {
        known.isAsked = true;
        known.askedAtMs = monotonicMs();
        void ask(known);
      }
      const { figures, saidAtMs } = known;
      return figures !== undefined && monotonicMs() - saidAtMs > tooOldMs
        ? { ...figures, fileSystems: undefined }
        : figures;
    },
  };
}

/** A machine whose agent is asked behind the first scrape. */
function firstOf(machine: Machine): Known {
  return {
    machine,
    figures: undefined,
    saidAtMs: 0,
    askedAtMs: 0,
    dueAtMs: 0,
    scrapesToGo: 1,
    isAsked: false,
    failures: 0,
  };
}

/** @param share - of what otherwise lies between two questions, from 0 to 1 */
function wait(one: Known, share: number): void {
  one.scrapesToGo = Math.ceil(share * scrapesPerQuestion);
  one.dueAtMs = one.askedAtMs + share * questionAfterMs;
}

interface FileSystemInfo {
  readonly mountpoint?: unknown;
  readonly type?: unknown;
  readonly 'used-bytes'?: unknown;
  readonly 'total-bytes'?: unknown;
  /** Where it lies: several disks under one logical volume, none under what is in memory or on the network. */
  readonly disk?: unknown;
}

type SaidFileSystems = Omit<FileSystems, 'saidAt'>;

/** One question where all is well. An agent that may not say it, or whose file systems are frozen, answers all the same. */
async function readFileSystems(
  agent: GuestAgent,
): Promise<{ agentUp: boolean; fileSystems?: SaidFileSystems | undefined }> {
  const options = { timeoutMs: answerWithinMs };
  try {
    const found = await agent.execute<FileSystemInfo[]>('guest-get-fsinfo', undefined, options);
    return { agentUp: true, fileSystems: Array.isArray(found) ? fileSystemsIn(found) : undefined };
  } catch {
    return { agentUp: await agent.isAnswering() };
  }
}

/** Nothing can be written to them, so all of them is always used. */
const readOnlyTypes: ReadonlySet<string> = new Set(['squashfs', 'erofs', 'iso9660', 'udf', 'cdfs', 'cramfs']);

/** Undefined where there is none that could be written. */
export function fileSystemsIn(all: readonly FileSystemInfo[]): SaidFileSystems | undefined {
  const rootInfo = all.find((one) => one?.mountpoint === '/' || one?.mountpoint === 'C:\\');
  const root = sizesOf(rootInfo);
  const data = fullestBeside(rootInfo, all);
  if (root === undefined && data === undefined) return undefined;
  return { ...(root === undefined ? {} : { root }), ...(data === undefined ? {} : { data }) };
}

/** None where the guest does not say on which disk its root file system is: every other one could be there too. */
function fullestBeside(
  root: FileSystemInfo | undefined,
  all: readonly FileSystemInfo[],
): FileSystem | undefined {
  const ofRoot = disksOf(root);
  if (ofRoot.length === 0) return undefined;
  const further = all.filter((one) => {
    const disks = disksOf(one);
    return disks.length > 0 && !disks.some((disk) => ofRoot.includes(disk));
  });
  const known = further.map(sizesOf).filter((one) => one !== undefined);
  const fullness = ({ used, size }: FileSystem) => used / size;
  return known.filter(({ size }) => size > 0).toSorted((a, b) => fullness(b) - fullness(a))[0];
}

function sizesOf(one: FileSystemInfo | undefined): FileSystem | undefined {
  if (typeof one?.type === 'string' && readOnlyTypes.has(one.type.toLowerCase())) return undefined;
  const size = guestBytes(one?.['total-bytes']);
  const used = guestBytes(one?.['used-bytes']);
  return size === undefined || used === undefined ? undefined : { size, used };
}

interface DiskAddress {
  readonly 'pci-controller'?: unknown;
  readonly 'bus-type'?: unknown;
  readonly bus?: unknown;
  readonly target?: unknown;
  readonly unit?: unknown;
}

/** The address of each disk of a file system: names and serial numbers of disks are known to agents with udev only. */
function disksOf(one: FileSystemInfo | undefined): string[] {
  if (!Array.isArray(one?.disk)) return [];
  return (one.disk as (DiskAddress | null)[])
    .filter((disk) => disk !== null && typeof disk === 'object')
    .map((disk) =>
      JSON.stringify([disk['pci-controller'], disk['bus-type'], disk.bus, disk.target, disk.unit]),
    );
}
