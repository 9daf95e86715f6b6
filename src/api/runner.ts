import { z } from 'zod';
import { printable } from '../errors.ts';
import { traceparentPattern } from './traceparent.ts';

/**
 * The contract between a VM's pod and the runner in it: what comes in as files, what the control endpoint answers.
 * Both ends carry a version; a reader understands its own version and the one before.
 */
export const runnerVersion = 1;

/** Where the pod mounts what the runner uses, and where its endpoint listens. */
export const runnerPaths = {
  /** Read-only image volume with `/disk/<file>.{qcow2,raw,img}`. */
  image: '/image',
  /** Read-only image volume of the CD with `/disk/<file>.iso`; only where `spec.iso`. */
  iso: '/iso',
  /** Overlay, state and exports: an emptyDir or the VM's claim. */
  state: '/var/lib/svc3',
  /** The claim of each data disk, in a folder of the disk's name. */
  disks: '/var/lib/svc3-disks',
  /** Sockets and the seed: a memory emptyDir. */
  run: '/run/vm',
  /** There once the runner has done what it began with (booted, or found that the VM stays off): what the startup probe waits for. */
  started: '/run/vm/started',
  /** The public control keys: the pod's annotation `svc3.dev/control-keys` through the downward API. */
  controlKeys: '/etc/svc3/podinfo/control-keys',
  /**
   * `RunnerSpec` without `GuestLists`: the pod's annotation `svc3.dev/runner-spec`. No environment variable: the kernel takes
   * none beyond 128 KiB, and the kubelet reads `$$` and `$(NAME)` in it as something else.
   */
  spec: '/etc/svc3/podinfo/runner-spec',
  /** Folder of the Secret with user data (`userDataKey`), where `RunnerSpec.userData` names one. */
  userData: '/etc/svc3/userdata',
  /** `GuestLists`: the pod's annotation `svc3.dev/effective`. */
  effective: '/etc/svc3/podinfo/effective',
} as const;

/** Key of the Secret that `spec.userData` names, and name of the file with its value. */
export const userDataKey = 'userData';

export const runnerPort = 8443;

/** Copies of its disk that a runner keeps at a time: a commit's and a save's. */
export const mostExports = 2;

/** Environment of the runner's container. */
export const runnerEnvironment = {
  /** The pod's UID by the downward API: tells a restart in place from a new pod on the same disk. */
  podUid: 'SVC3_POD_UID',
  /**
   * Bytes of ephemeral storage that the container may have, by the downward API: its limit, as a LimitRange gives one; where there is none what the node can
   * allocate, and 0 where the node counts none.
   */
  ephemeralStorage: 'SVC3_EPHEMERAL_STORAGE',
  /** Comma-separated PCI addresses, from the device plugin. */
  gpuAddresses: 'SVC3_GPU_PCI_ADDRESSES',
  /** Address to listen on; all of them where unset. */
  bind: 'SVC3_BIND_ADDRESS',
  logLevel: 'SVC3_LOG_LEVEL',
} as const;

/**
 * Words of a runner, cut off where they are longer than any honest ones: a guest that took over its runner says what it likes, and
 * the operator keeps what each one said. Conditions and Events have them, so there are no control characters in them: an honest runner
 * quotes the names of an image's files.
 */
const words = (longest: number) => z.string().transform((text) => printable(text.slice(0, longest)));
/** What a runner was told and says again: compared with what it was told, so it stays as it is. */
const echo = (longest: number) => z.string().transform((text) => text.slice(0, longest));
/** What becomes the reason of a condition: kube-apiserver refuses a status for any other. */
const conditionReason = z
  .string()
  .max(64)
  .regex(/^[A-Z][A-Za-z0-9]*$/);
const bytes = z.int().min(0);
const milliseconds = z.number().min(0).max(31_536_000_000);

export const RunnerPowerState = z.enum(['Running', 'Stopped', 'Suspended', 'Failed']);
export type RunnerPowerState = z.infer<typeof RunnerPowerState>;

export const RunnerPort = z.object({
  /** Port of the pod, also below 1024: its network namespace has no privileged ports. */
  podPort: z.int().min(1).max(65535),
  guestPort: z.int().min(1).max(65535),
  protocol: z.enum(['TCP', 'UDP']).default('TCP'),
});
export type RunnerPort = z.infer<typeof RunnerPort>;

/** SSH, screen sharing and the mappings of `spec.ports`. */
const mostPorts = 64;

/** `POST /v1/ports`: all ports that are to lead into the guest; the others are closed. */
export const PortsRequest = z.object({ ports: z.array(RunnerPort).max(mostPorts) });
export type PortsRequest = z.infer<typeof PortsRequest>;

/** What may be long of a VM's settings: no second copy of it fits into the pod's annotations. */
export const GuestLists = z.object({
  metadata: z.array(z.object({ name: z.string(), value: z.string() })).default([]),
  sshAuthorizedKeys: z.array(z.string()).default([]),
});

/** How long a guest that need not answer is waited for, where nothing else is said. */
export const defaultReadinessSeconds = 180;

/** `spec.readiness`; with none of the members it is SSH or guest agent, whichever answers first. */
export const RunnerReadiness = z.object({
  tcp: z.object({ port: z.int().min(1).max(65535) }).optional(),
  http: z.object({ port: z.int().min(1).max(65535), path: z.string() }).optional(),
  guestAgent: z.object({}).optional(),
  none: z.object({}).optional(),
  timeoutSeconds: z.int().min(1).default(defaultReadinessSeconds),
});
export type RunnerReadiness = z.infer<typeof RunnerReadiness>;

/** Everything the runner must know of its VM. Written by the operator when it makes the pod, in two files. */
export const RunnerSpec = z.object({
  version: z.int().default(runnerVersion),
  vm: z.object({ namespace: z.string(), name: z.string(), uid: z.string() }),
  /**
   * The guest waits for a VM that claims it: once it is ready it is paused, or runs on. Until then `vm` names the pod, and the runner's
   * callers name the pod's UID in place of a VM's.
   */
  standby: z.enum(['Suspended', 'Running']).optional(),
  /** Of the guest; the VM's name where it is unset. */
  hostname: z.string().optional(),
  /** Name of the Secret whose key `userDataKey` the kubelet mounts into `runnerPaths.userData`, once it is there. */
  userData: z.string().optional(),
  architecture: z.enum(['amd64', 'arm64']).default('amd64'),
  /** `auto`: kvm where /dev/kvm can be opened for writing, else tcg. */
  accelerator: z.enum(['auto', 'kvm', 'tcg']).default('auto'),
  /** `auto`: by the image's boot sector; arm64 is always UEFI. */
  firmware: z.enum(['auto', 'bios', 'uefi']).default('auto'),
  cpu: z.int().min(1),
  memoryMiB: z.int().min(32),
  /** The request at the time the pod was made; what the runner has written down wins after a restart in place. */
  powerState: z.enum(['Running', 'Stopped', 'Suspended']).default('Running'),
  /** The value of `spec.revertRequest` that a fresh overlay already answers. */
  revertRequest: z.string().optional(),
  /** The value of `spec.startRequest` that the first boot in this pod answers. */
  startRequest: z.string().optional(),
  /** The value of `spec.restartRequest` that the first boot in this pod answers. */
  restartRequest: z.string().optional(),
  ports: z.array(RunnerPort).default([]),
  /** Serve the guest's screen. Ignored for an x86 VM with GPU passthrough (spec: GPU passthrough rule 4). */
  vncConsole: z.boolean().default(true),
  /** Serve it on this TCP port of the pod as well, raw and without a password (chart value `vnc.hostPort`). */
  vncPort: z.int().min(5900).max(65535).optional(),
  readiness: RunnerReadiness.default({ timeoutSeconds: defaultReadinessSeconds }),
  /** Serve metrics of the VM at this TCP port of the pod (chart value `vmMetrics.enabled`). */
  metricsPort: z.int().min(1).max(65535).optional(),
  /** The trace of this start, for the lines of the log; nothing is sent anywhere. */
  traceparent: z.string().regex(traceparentPattern).optional().catch(undefined),
  /** Since when the VM waited for this pod, and when that was made: for metrics, in milliseconds since 1970 by the operator's clock. */
  waitedSinceMs: z.int().min(0).optional().catch(undefined),
  madeAtMs: z.int().min(0).optional().catch(undefined),
  gpuPassthrough: z.boolean().default(false),
  iso: z.boolean().default(false),
  /** virtio-net where true, an emulated Intel card (e1000) where false. */
  netBoost: z.boolean().default(true),
  /** Disks on SATA instead of virtio, for guests without virtio drivers. */
  legacyIO: z.boolean().default(false),
  display: z
    .object({ width: z.int().optional(), height: z.int().optional(), dpi: z.int().optional() })
    .optional(),
  systemSerial: z.string().optional(),
  ...GuestLists.shape,
  /** The operator has recorded that svc3 saved the image with the memory in it: the guest may go on from that. */
  warm: z.boolean().default(false),
  /** Digest of the image: an overlay made on another one is refused instead of being ruined. Without it the content of the image is compared (`imageStampOf`). */
  imageDigest: z.string().optional(),
  /** Smallest size of the disk; a bigger image stays as it is (grow only). */
  diskBytes: z.int().positive().optional(),
  /** The largest disk that the volume has room for, where it is the node's own storage. */
  diskLimitBytes: z.int().positive().optional(),
  /** Data disks: `disk.img` in the folder of the name. One with `bytes` is made where it is missing, and grown. */
  disks: z
    .array(
      z.object({
        name: z.string().regex(/^[a-z0-9-]{1,20}$/),
        format: z.enum(['raw', 'qcow2']).default('raw'),
        bytes: z.int().positive().optional(),
      }),
    )
    .default([]),
  /** The guest's time to shut down; the pod's terminationGracePeriodSeconds is 10 more. */
  graceSeconds: z.int().min(1).default(60),
  /** What the end of the pod is for the guest; with Suspend its memory is written to the volume of the disk. */
  onEviction: z.enum(['Shutdown', 'Suspend']).default('Shutdown'),
  /** The time for that, before `graceSeconds` begin; the pod's terminationGracePeriodSeconds has both. */
  suspendSeconds: z.int().min(0).default(0),
  /** What to do when QEMU crashes or the guest panics; a guest that powers itself off stays off in any case. */
  restart: z
    .object({ policy: z.enum(['OnFailure', 'Never']).default('OnFailure'), limit: z.int().min(0).default(5) })
    .default({ policy: 'OnFailure', limit: 5 }),
});
export type RunnerSpec = z.infer<typeof RunnerSpec>;
/** What a writer of it may leave out. */
export type RunnerSpecInput = z.input<typeof RunnerSpec>;

/** Why a VM is not simply running; the operator shows them as condition reasons. */
export const RunnerReason = z.enum([
  'Requested',
  'GuestShutdown',
  'GuestPanicked',
  'QemuCrashed',
  'OutOfMemory',
  'DiskFull',
  'AcceleratorFailed',
  'DiskMissing',
  'ImageInvalid',
  'IsoMissing',
  'UserDataMissing',
  'ArchitectureUnsupported',
  'FirmwareMissing',
  'GpuMissing',
  'GpuBusy',
  'GpuFailed',
  'PortInUse',
  'DiskInUse',
  'DiskTooLarge',
  'StorageFull',
  'SuspendedStateLost',
  'StartFailed',
  'Starting',
  'ShuttingDown',
]);
export type RunnerReason = z.infer<typeof RunnerReason>;

/** How the guest of an image with memory, with its own memory on its disk, or of a pool was started; the operator shows them as reasons of condition `WarmStart`. */
export const WarmStartReason = z.enum([
  'StartedFromMemory',
  'IdentityShared',
  'MemoryUsed',
  'MemoryMissing',
  'AcceleratorDiffers',
  'CpuDiffers',
  'QemuDiffers',
  'MachineDiffers',
  'MemoryNotLoaded',
  'DiskChanged',
  'NotSuspended',
  'HookFailed',
]);
export type WarmStartReason = z.infer<typeof WarmStartReason>;

/** `GET /v1/state`. Readers accept unknown reasons and members of a newer runner. */
export const RunnerState = z.object({
  version: z.int(),
  vmUid: words(64),
  powerState: RunnerPowerState,
  /** The guest has answered what `spec.readiness` asks since the last boot. */
  guestReachable: z.boolean(),
  /** `spec.readiness` is met; undefined from a runner that does not know the member. */
  guestReady: z.boolean().optional(),
  /** What is known of the guest's answers since it was booted. */
  readiness: z.enum(['Waiting', 'Answering', 'NotAnswering', 'Unchecked']).optional().catch(undefined),
  reason: words(64).optional(),
  message: words(1024).optional(),
  /** Failed, but the runner starts QEMU again by itself. */
  retrying: z.boolean().default(false),
  /** Crashes since the last 10 quiet minutes. */
  restarts: z.int().default(0),
  /** Whether the guest has ever run on this disk; undefined from a runner that does not know the member. */
  guestStarted: z.boolean().optional(),
  /** Only of a guest that no VM has claimed: whether it waits already. */
  standby: z.enum(['Preparing', 'Idle']).optional().catch(undefined),
  /** Only of a guest that had a memory to go on from, or whose hook has failed: how it was started last. */
  warmStart: z
    .object({ fromMemory: z.boolean(), reason: conditionReason, message: words(1024) })
    .optional()
    .catch(undefined),
  /** A guest of a pool is being told whose it is: `warmStart` is not final before that is over. Undefined else, and from a runner that does not know the member. */
  introducing: z.literal(true).optional().catch(undefined),
  /**
   * The boot with which the runner's life in this pod began, and how long its phases took, in milliseconds: those that are over. Undefined
   * where there was none, where another one has begun since, and from a runner that does not know the member.
   */
  firstStart: z
    .object({
      /** Milliseconds since 1970, by the node's clock. */
      startedAtMs: z.int().min(0),
      diskMs: milliseconds.optional(),
      machineMs: milliseconds.optional(),
      guestMs: milliseconds.optional(),
    })
    .optional()
    .catch(undefined),
  /** Verb in progress. */
  busy: words(64).optional(),
  /** The last `revertRequest` that was carried out. */
  revertRequest: echo(64).optional(),
  /** The last `startRequest` that was carried out; undefined from a runner that does not know the member. */
  startRequest: echo(64).optional(),
  /** The last `restartRequest` that a boot has answered. */
  restartRequest: echo(64).optional(),
  /** Version of the settings that were told with the last start; undefined where none were since the pod was made. */
  settingsVersion: echo(64).optional(),
  /** Virtual size of the disk in bytes. */
  diskSize: bytes.optional(),
  /** Ports that lead into the guest, or will once it runs; undefined from a runner whose ports stay as they are. */
  ports: z.array(RunnerPort).max(mostPorts).optional().catch(undefined),
  /** Why some of those that were asked for are not among them. */
  portsMessage: words(512).optional(),
  vncConsole: z.boolean().default(false),
  iso: z.boolean().default(false),
  /** `Memory`: a suspended guest is lost with its pod. `Disk`: QEMU has ended, and the guest goes on from the volume of its disk. */
  suspendKind: words(64).optional(),
  accelerator: words(64).optional(),
  /** Goes up with every change; long polls wait for the next one. */
  revision: z.int().default(0),
});
export type RunnerState = z.infer<typeof RunnerState>;

/** The settings of a VM that need no other pod: a boot has them as they are told with its verb. */
export const BootSettings = z.object({
  cpu: RunnerSpec.shape.cpu,
  memoryMiB: RunnerSpec.shape.memoryMiB,
  vncConsole: z.boolean(),
  netBoost: z.boolean(),
  legacyIO: z.boolean(),
  display: RunnerSpec.shape.display,
  systemSerial: z.string().optional(),
  readiness: RunnerReadiness,
  ...GuestLists.shape,
});
export type BootSettings = z.infer<typeof BootSettings>;

export const PowerAction = z.enum(['start', 'stop', 'restart', 'suspend', 'resume', 'revert']);
export type PowerAction = z.infer<typeof PowerAction>;

/** `POST /v1/power`. */
export const PowerRequest = z.object({
  action: PowerAction,
  /** For revert: carried out once per value; the same value again is answered without doing it again. */
  revertRequest: z.string().max(256).optional(),
  /** For start: carried out once per value; the same value again is answered without doing it again. */
  startRequest: z.string().max(256).optional(),
  /** For restart: carried out once per value. A start answers it as well. */
  restartRequest: z.string().max(256).optional(),
  /** For start and restart: what this boot and those after it in the pod have, under a version of the caller's. */
  settings: z.object({ version: z.string().max(64), values: BootSettings }).optional(),
  /** For suspend: where the memory of the guest is to be. To `Disk` a guest that is suspended in memory goes as well. */
  suspendTo: z.enum(['Memory', 'Disk']).optional(),
  /** For revert: leave the VM stopped afterwards. */
  stopped: z.boolean().optional(),
});
export type PowerRequest = z.infer<typeof PowerRequest>;

/** `POST /v1/claim`: the guest becomes that of this VM. The same VM may ask again; no other ever does with success. */
export const ClaimRequest = z.object({
  /** Of the pod that is meant. */
  podUid: z.string().min(1).max(64),
  vm: RunnerSpec.shape.vm,
  /** What the guest is told, and has from its next start. */
  settings: z.object({ version: z.string().max(64), values: BootSettings }),
});
export type ClaimRequest = z.infer<typeof ClaimRequest>;

/** `POST /v1/resize`: the requested size in bytes and what the guest made of it. */
export const ResizeRequest = z.object({ bytes: z.int().positive() });
export const ResizeReply = z.object({
  diskSize: bytes,
  /** The guest's file system has grown too. */
  fileSystemGrown: z.boolean(),
  message: words(1024),
});
export type ResizeReply = z.infer<typeof ResizeReply>;

const exportId = z.string().regex(/^[a-z0-9][a-z0-9-]{0,62}$/);

/** `POST /v1/exports`: `id` is the caller's (of the piece of work), so that asking twice is one export. */
export const ExportRequest = z.object({
  id: exportId,
  /** Whose it is (the Image's UID): it needs none but the last one that it asked for. */
  owner: exportId.optional(),
  /** With the memory of the guest, which has to run. */
  memory: z.boolean().default(false),
  /**
   * Bytes of ephemeral storage beyond which the kubelet evicts the pod, as whoever sees the pod says: the runner cannot tell a limit from what its node can allocate
   * (`runnerEnvironment.ephemeralStorage`). Left out where the pod has none, and by an older operator; an older runner ignores it.
   */
  podLimitBytes: bytes.optional(),
});

export const RunnerExport = z.object({
  id: words(63),
  state: z.enum(['Copying', 'Ready', 'Failed']),
  /** 0–100. */
  progress: z.number().min(0).max(100),
  /** How the copy is consistent: the guest's file systems frozen, the guest paused, or not running. */
  consistency: words(64).optional(),
  message: words(1024).optional(),
  /** Bytes of the qcow2 file, once Ready. */
  size: bytes.optional(),
  virtualSize: bytes.optional(),
  /** sha256 of the file in hex, once Ready. */
  sha256: words(64).optional(),
  /** How long the guest was stopped for its memory, in milliseconds; undefined where that was not asked for. */
  stoppedMs: z.int().min(0).optional(),
});
export type RunnerExport = z.infer<typeof RunnerExport>;

/** `POST /v1/exports/{id}/ticket`: good for one whole transfer from `path` (Range to go on after a cut). */
export const ExportTicket = z.object({
  ticket: z.string().max(1024),
  path: z.string().max(1024),
  /** Folder of the parts of the memory (`memoryParts`), which are good for one transfer each with the same ticket. */
  memoryPath: z.string().max(1024).optional(),
  expiresAt: words(64),
});
export type ExportTicket = z.infer<typeof ExportTicket>;
