/** Condition types of all kinds. `Stalled` and `Reconciling` mean what kstatus says. */
export const conditionTypes = {
  ready: 'Ready',
  scheduled: 'Scheduled',
  prepared: 'Prepared',
  booted: 'Booted',
  committed: 'Committed',
  portsMapped: 'PortsMapped',
  warmStart: 'WarmStart',
  restartRequired: 'RestartRequired',
  stalled: 'Stalled',
  reconciling: 'Reconciling',
} as const;
export type ConditionType = (typeof conditionTypes)[keyof typeof conditionTypes];

/** For milliseconds what is missing may still come by itself: it was applied later, or its list is being read. */
export const applyOrderMs = 60_000;

/** Reasons of a VM for which nothing goes on until somebody acts, and the age of the VM in milliseconds from which that is said. */
export const waitsForPerson: ReadonlyMap<string, number> = new Map([
  ['GuestStopped', 0],
  ['ImagePullDenied', 0],
  ['PodConflict', 0],
  ['ArchitectureMismatch', 0],
  ['ConfigNotFound', applyOrderMs],
  ['PoolNotFound', applyOrderMs],
  ['UserDataMissing', applyOrderMs],
  ['ImageNotFound', applyOrderMs],
  ['ImageFailed', applyOrderMs],
  // Something else still uses the Image or ISO.
  ['ImageTerminating', applyOrderMs],
]);

/** The same of a VMPool; the time is that since it is not Ready. */
export const poolWaitsForPerson: ReadonlyMap<string, number> = new Map([
  ['ImagePullDenied', 0],
  ['ArchitectureMismatch', 0],
  ['ConfigNotFound', applyOrderMs],
  ['ImageNotFound', applyOrderMs],
  ['ImageFailed', applyOrderMs],
  // The Image stays as long as the pool names it.
  ['ImageTerminating', applyOrderMs],
]);

/** Reasons of an Image or ISO that is not ready for which nothing goes on until somebody acts. */
export const diskWaitsForPerson: ReadonlySet<string> = new Set([
  'AwaitingUpload',
  'UploadAbandoned',
  'RegistryDenied',
  'SourceNotFound',
  'SourceDeleted',
  'MemoryRefused',
  'DiskRefused',
  'UploadLost',
  'StoreMissing',
]);

/** Of these, those that are the last word on what is to be made: another VM of the same name has another disk. */
export const diskRefusals: ReadonlySet<string> = new Set([
  'DiskRefused',
  'MemoryRefused',
  'SourceDeleted',
  'UploadLost',
]);

/** Of these, those that are an upload that is still to come. */
export const diskWaitsForUpload: ReadonlySet<string> = new Set(['AwaitingUpload', 'UploadAbandoned']);

/** Reasons of a VM's Ready condition that is True: the power state that was requested. */
export const readyReasons: ReadonlySet<string> = new Set([
  'Running',
  'GuestNotAnswering',
  'Stopped',
  'Suspended',
]);

/** Reasons for which a VM is Stalled in one thing and goes on in all others. */
export const stalledInPart: ReadonlySet<string> = new Set(['GPUPassthroughDisabled']);

/** Reasons of Normal Events that tell of a start: they are kept however many Events there are, as Warnings are. */
export const startReasons: ReadonlySet<string> = new Set(['Scheduled', 'Booted']);
