import type { Disk } from './vmconfig.ts';

/** Members of `disk` that say something of its claim. */
const ofClaim = ['storageClassName', 'whenDeleted'] as const;

const warningOf = (member: (typeof ofClaim)[number]) =>
  `disk.${member} has no effect: the disk is Ephemeral and goes with its pod; only one with disk.storage Persistent is on a claim`;

/**
 * The warnings of a VM of whose disk is said, by itself and its VMConfig together, what only one on a claim has, in `status.warnings` and of the API. Where
 * `storage` is said beside it the schema refuses that.
 */
export function withoutClaim(disk: Pick<Disk, 'storage' | (typeof ofClaim)[number]> = {}): string[] {
  if (disk.storage === 'Persistent') return [];
  return ofClaim.filter((member) => disk[member] !== undefined).map(warningOf);
}

/** Whether a warning of `status.warnings` is one of these. */
export function isOfEphemeralDisk(warning: string): boolean {
  return ofClaim.some((member) => warning === warningOf(member));
}
