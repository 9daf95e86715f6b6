import type { RunnerReason } from '../api/runner.ts';

/** Why the VM does not run: a reason of the contract and a sentence for the condition. */
export class RunnerFailure extends Error {
  override readonly name = 'RunnerFailure';
  readonly reason: RunnerReason;

  constructor(reason: RunnerReason, message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}

/** Reasons that nothing in the life of this pod can heal: QEMU is not started again. */
const lasting: ReadonlySet<RunnerReason> = new Set([
  'DiskMissing',
  'DiskTooLarge',
  'ImageInvalid',
  'IsoMissing',
  'ArchitectureUnsupported',
  'FirmwareMissing',
  'GpuMissing',
] as const);

export function isLasting(reason: RunnerReason): boolean {
  return lasting.has(reason);
}

export interface MachineExit {
  readonly code: number | null;
  readonly signal: string | null;
  /** The last lines of QEMU's standard error. */
  readonly stderr: string;
  /** The kernel killed a process of the container for memory while QEMU ran. */
  readonly outOfMemory: boolean;
}

/** What to do where KVM does not work: a pod keeps its accelerator as long as it lives, so the label counts for the next one. */
export const emulateInstead =
  'label it svc3.dev/accelerator=tcg and then delete the pod (an Ephemeral disk is lost with it), or repair its virtualisation';

const signs: readonly [RegExp, RunnerReason, string][] = [
  [/vfio.*Device or resource busy|Device or resource busy.*vfio/is, 'GpuBusy', 'a GPU of the node is in use'],
  // A card left by its last guest in a state from which no reset brings it back reads as all ones, or stays asleep.
  [
    /vfio.*(?:Unknown PCI header type '127'|stuck in D3|cannot reset|failed to reset)/is,
    'GpuFailed',
    'a GPU of the node does not reset; a reboot of the node may help',
  ],
  [/VFIO_MAP_DMA.*Cannot allocate memory/is, 'GpuFailed', "the guest's memory cannot be locked for the GPU"],
  [/vfio|iommu/i, 'GpuFailed', 'a GPU cannot be handed to the guest'],
  [/kvm/i, 'AcceleratorFailed', `KVM does not work on this node; ${emulateInstead}`],
  [/Could not set up host forwarding rule/i, 'PortInUse', 'a mapped port is taken'],
  [/Failed to get "(write|shared)/i, 'DiskInUse', 'the disk is in use by another process'],
  [/No space left on device|Disk quota exceeded/i, 'StorageFull', "the VM's storage is full"],
  [
    /Cannot allocate memory|cannot set up guest memory/i,
    'OutOfMemory',
    'there is not enough memory for the guest',
  ],
];

/** What an exit that nobody asked for means. */
export function diagnoseExit(exit: MachineExit, started: boolean): RunnerFailure {
  const words = lastLine(exit.stderr);
  if (exit.outOfMemory)
    return new RunnerFailure('OutOfMemory', "QEMU was killed: the pod's memory limit was reached");
  const sign = started ? undefined : signs.find(([pattern]) => pattern.test(exit.stderr));
  if (sign !== undefined) return new RunnerFailure(sign[1], `${sign[2]}: ${words}`);
  const how = exit.signal === null ? `ended with code ${exit.code}` : `was killed by ${exit.signal}`;
  const reason = started ? 'QemuCrashed' : 'StartFailed';
  return new RunnerFailure(reason, `QEMU ${how}${words === '' ? '' : `: ${words}`}`);
}

function lastLine(text: string): string {
  const lines = text.split('\n').filter((line) => line.trim() !== '' && !/warning:/i.test(line));
  return (lines.at(-1) ?? '').replace(/^qemu-system-\w+: /, '').slice(0, 500);
}
