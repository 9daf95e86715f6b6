import type { PowerCommand } from '../../../wire/powercommands.ts';
import type { VmItem } from '../../../wire/vmschemas.ts';
import type { Answer } from './api.ts';

/** What a command takes from a guest, where it takes anything. */
const consequences: Readonly<Record<PowerCommand, string | undefined>> = {
  start: undefined,
  resume: undefined,
  suspend: undefined,
  stop: 'The guest shuts down; what does not end within its grace period is cut off. Its disk stays.',
  restart:
    'The guest shuts down and starts again; what does not end within its grace period is cut off. Its disk stays.',
  revert:
    'Everything that was written to the disk since the VM was deployed is lost: it starts again from its image.',
};
const staysDown =
  'The guest has shut itself down. It stays down until the VM is started: no new pod of the VM starts it any more, as one does now. Its disk stays.';

/** What is to be said before a command is given; undefined where it takes nothing away. */
export function consequenceOf(
  command: PowerCommand,
  { status, guestStopped }: Pick<VmItem, 'status' | 'guestStopped'>,
): string | undefined {
  if (command !== 'stop' || status !== 'Stopped') return consequences[command];
  return guestStopped === true ? staysDown : undefined;
}

type Deletion = Pick<VmItem, 'status' | 'suspendedTo' | 'mayBeSuspended' | 'deletes'>;

/** What is to be said before a VM is deleted: of its guest, and of its disks. */
export function meaningOfDeletion(vm: Deletion): { readonly guest: string; readonly disks: string } {
  const { deletes = [] } = vm;
  const named = new Intl.ListFormat('en').format(deletes.map(diskWords));
  return {
    guest: endOfGuest(vm),
    disks:
      deletes.length === 0
        ? 'A Persistent disk stays in its PersistentVolumeClaim.'
        : `Deleted with it, as its settings say: ${named}. Any other Persistent disk stays in its PersistentVolumeClaim.`,
  };
}

function endOfGuest({ status, suspendedTo, mayBeSuspended }: Deletion): string {
  if (suspendedTo === 'Disk')
    return 'The VM is gone for good, and so is the memory of its guest, which does not shut down before: a disk that stays is as after a power cut. To have the guest shut down, stop the VM first.';
  if (mayBeSuspended === true)
    return 'The VM is gone for good. Its guest may have been suspended when its pod was ended: that memory is lost, and a disk that stays may be as after a power cut. To have the guest shut down, let the VM run again first.';
  return `${status === 'Stopped' ? 'The' : 'The guest shuts down and the'} VM is gone for good, with everything on an Ephemeral disk that was not saved.`;
}

/**
 * Settings that the form of a change does not offer: what never changes (docs/vmchanges.md), other names of the same, the size of the disk, which
 * the server takes from nobody here, and the list of data disks: nobody sees here which the VM has, and a list takes out what it does not name.
 */
export const leftOutOfChange: ReadonlySet<string> = new Set([
  'vmConfig',
  'vmConfigNamespace',
  'pool',
  'image',
  'architecture',
  'hostname',
  'subdomain',
  'sshNodePort',
  'screenshareNodePort',
  'disk.storage',
  'disk.storageClassName',
  'disk.claimName',
  'disk.size',
  'diskStorage',
  'diskSize',
  'disks',
  // Replaced as a whole: what is not named in them would go.
  'affinity',
  'readiness',
]);

/** What a VM of a pool says itself: its template fixes all else, the disk too (docs/pools.md). */
const ownOfPool: ReadonlySet<string> = new Set(['customVMMetadata', 'sshAuthorizedKeys', 'timeout']);

/** The settings that the form of a change offers of a VM; undefined: all that it does not leave out. */
export function offeredOfChange({ pool }: Pick<VmItem, 'pool'>): ReadonlySet<string> | undefined {
  return pool === undefined ? undefined : ownOfPool;
}

/** Whether `svc3 vm resize` grows the disk that the VM boots from. */
export function canGrow({ pool }: Pick<VmItem, 'pool'>): boolean {
  return pool === undefined;
}

/** What is said of a change that the server has taken: what of it waits, and what was asked for and is not so. */
export function outcomeOfChange({
  status,
  body: { name, restartRequired = '' },
  warnings,
}: Answer<Pick<VmItem, 'name' | 'restartRequired'>>): string {
  const isSeen = status === 200;
  const done = isSeen
    ? `The change of ${name} was accepted`
    : `The change of ${name} was accepted; the operator has not looked at it yet`;
  return [done, isSeen ? restartRequired : '', ...warnings]
    .filter((text) => text !== '')
    .map((text) => (text.endsWith('.') ? text : `${text}.`))
    .join(' ');
}

/** A disk by the name of its field. */
function diskWords(field: string): string {
  const [, name] = /^disks\[(.*)\]$/.exec(field) ?? [];
  return name === undefined ? 'the disk that it boots from' : `data disk ${name}`;
}
