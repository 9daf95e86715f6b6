import { devices } from '../args.ts';
import type { Machine } from '../machine.ts';

/** What a guest's balloon driver said of its memory. */
export interface AvailableMemory {
  /** What programs of the guest can still have. */
  readonly bytes: number;
  /** When the driver said it, in seconds since 1970. */
  readonly saidAt: number;
}

const balloonPath = `/machine/peripheral/${devices.balloon}`;
/** How often the guest's driver is asked, in seconds. */
const pollingSeconds = 10;
/** What the driver does not know is 2^64-1. */
const largestBytes = 2 ** 60;

const polled = new WeakSet<Machine>();

interface GuestStats {
  readonly stats?: Readonly<Record<string, unknown>>;
  readonly 'last-update'?: unknown;
}

/**
 * Undefined where the driver has said nothing yet; throws where the machine has no balloon device. QEMU answers with what it has: the guest
 * is not waited for.
 */
export async function readAvailable(
  machine: Machine,
  timeoutMs: number,
): Promise<AvailableMemory | undefined> {
  const { qmp } = machine;
  if (!polled.has(machine)) {
    const property = { path: balloonPath, property: 'guest-stats-polling-interval', value: pollingSeconds };
    await qmp.execute('qom-set', property, { timeoutMs });
    polled.add(machine);
  }
  // By its last name alone: QEMU reads what is sent to a monitor byte by byte, with a turn of its loop for each.
  const asked = { path: devices.balloon, property: 'guest-stats' };
  return availableMemory(await qmp.execute<GuestStats>('qom-get', asked, { timeoutMs }));
}

export function availableMemory({ stats, 'last-update': saidAt }: GuestStats): AvailableMemory | undefined {
  const bytes = guestBytes(stats?.['stat-available-memory']);
  return bytes === undefined || typeof saidAt !== 'number' ? undefined : { bytes, saidAt };
}

/** A guest may say anything. */
export function guestBytes(value: unknown): number | undefined {
  return typeof value === 'number' && value >= 0 && value < largestBytes ? value : undefined;
}
