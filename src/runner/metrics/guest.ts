import { devices } from '../args.ts';
import type { GuestAgent } from '../agent.ts';
import type { Machine } from '../machine.ts';

/** What a guest says of itself. It may say anything, so that only numbers of it are taken. */
export interface GuestFigures {
  readonly agentUp: boolean;
  /** Memory that its programs can still have, in bytes. */
  readonly availableBytes: number | undefined;
  /** Of its root file system, in bytes. */
  readonly fileSystem: { readonly size: number; readonly used: number } | undefined;
}

const balloonPath = `/machine/peripheral/${devices.balloon}`;
/** How often the guest's driver is asked, in seconds. */
const pollingSeconds = 10;
/** What the driver does not know is 2^64-1. */
const largestBytes = 2 ** 60;

const polled = new WeakSet<Machine>();

export async function readGuestFigures(machine: Machine, timeoutMs: number): Promise<GuestFigures> {
  const [availableBytes, { agentUp, fileSystem }] = await Promise.all([
    readAvailable(machine, timeoutMs).catch(() => undefined),
    readFileSystem(machine.agent, timeoutMs),
  ]);
  return { agentUp, availableBytes, fileSystem };
}

/** Memory that programs of the guest can still have, in bytes; throws where it has no balloon device. */
export async function readAvailable(machine: Machine, timeoutMs: number): Promise<number | undefined> {
  const { qmp } = machine;
  if (!polled.has(machine)) {
    const property = { path: balloonPath, property: 'guest-stats-polling-interval', value: pollingSeconds };
    await qmp.execute('qom-set', property, { timeoutMs });
    polled.add(machine);
  }
  const asked = { path: balloonPath, property: 'guest-stats' };
  const answer = await qmp.execute<{ stats?: Record<string, unknown> }>('qom-get', asked, { timeoutMs });
  return bytesOf(answer.stats?.['stat-available-memory']);
}

interface FileSystemInfo {
  readonly mountpoint?: unknown;
  readonly type?: unknown;
  readonly 'used-bytes'?: unknown;
  readonly 'total-bytes'?: unknown;
}

async function readFileSystem(
  agent: GuestAgent,
  timeoutMs: number,
): Promise<Pick<GuestFigures, 'agentUp' | 'fileSystem'>> {
  if (!(await agent.isAnswering())) return { agentUp: false, fileSystem: undefined };
  const found = await agent
    .execute<FileSystemInfo[]>('guest-get-fsinfo', undefined, { timeoutMs })
    .catch(() => []);
  return { agentUp: true, fileSystem: Array.isArray(found) ? rootFileSystem(found) : undefined };
}

/** Nothing can be written to them, so all of them is always used. */
const readOnlyTypes: ReadonlySet<unknown> = new Set(['squashfs', 'erofs', 'iso9660', 'udf', 'cramfs']);

/** `/`, or `C:` of Windows. */
export function rootFileSystem(all: readonly FileSystemInfo[]): GuestFigures['fileSystem'] {
  const root = all.find((one) => one?.mountpoint === '/' || one?.mountpoint === 'C:\\');
  if (readOnlyTypes.has(root?.type)) return undefined;
  const size = bytesOf(root?.['total-bytes']);
  const used = bytesOf(root?.['used-bytes']);
  return size === undefined || used === undefined ? undefined : { size, used };
}

function bytesOf(value: unknown): number | undefined {
  return typeof value === 'number' && value >= 0 && value < largestBytes ? value : undefined;
}
