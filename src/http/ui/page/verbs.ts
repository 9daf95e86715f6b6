import { powerCommands, powerVerbs, type PowerCommand } from '../../../wire/powercommands.ts';
import type { VmItem } from '../../../wire/vmschemas.ts';

/** What a command takes from a guest, where it takes anything. */
export const consequences: Readonly<Record<PowerCommand, string | undefined>> = {
  start: undefined,
  resume: undefined,
  suspend: undefined,
  stop: 'The guest shuts down; what does not end within its grace period is cut off. Its disk stays.',
  restart:
    'The guest shuts down and starts again; what does not end within its grace period is cut off. Its disk stays.',
  revert:
    'Everything that was written to the disk since the VM was deployed is lost: it starts again from its image.',
};

/** The commands that fit the state of the VM. */
export function fittingCommands({ status }: Pick<VmItem, 'status'>): PowerCommand[] {
  return powerCommands.filter((command) => powerVerbs[command].from.includes(status));
}
