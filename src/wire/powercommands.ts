import type { PowerState } from '../api/vm.ts';

/** What `/api/v1` calls the states of a VM. */
export const vmStates = ['Pending', 'Running', 'Stopped', 'Suspended', 'Failed'] as const;
export type VmState = (typeof vmStates)[number];

/** What `/api/v1` may ask of a VM that is there. */
export const powerCommands = ['start', 'stop', 'restart', 'resume', 'suspend', 'revert'] as const;
export type PowerCommand = (typeof powerCommands)[number];

interface Verb {
  readonly from: readonly VmState[];
  readonly to: PowerState;
  /** Where the VM is what the command leads to, and this was asked for since and is not done yet, the command takes it back. */
  readonly takesBack: readonly PowerState[];
  readonly done: string;
}

/** From which observed state each command may be given, and what it leads to. */
export const powerVerbs: Readonly<Record<PowerCommand, Verb>> = {
  start: { from: ['Stopped', 'Failed'], to: 'Running', takesBack: ['Stopped'], done: 'started' },
  stop: {
    from: ['Running', 'Suspended', 'Failed'],
    to: 'Stopped',
    takesBack: ['Running', 'Suspended'],
    done: 'stopped',
  },
  restart: { from: ['Running', 'Failed'], to: 'Running', takesBack: [], done: 'restarted' },
  resume: { from: ['Suspended'], to: 'Running', takesBack: ['Suspended'], done: 'resumed' },
  suspend: { from: ['Running'], to: 'Suspended', takesBack: ['Running'], done: 'suspended' },
  revert: {
    from: ['Running', 'Stopped', 'Suspended', 'Failed'],
    to: 'Running',
    takesBack: [],
    done: 'reverted',
  },
};
