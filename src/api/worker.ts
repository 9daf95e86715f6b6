import { z } from 'zod';
import { errorTable, type ErrorReason } from '../errors.ts';
import { maxFlagsLength } from './hostcpu.ts';

/** Words between operator and worker pod. Nothing here is secret: the pod's environment shows it. */

const RegistryAccess = z.object({
  scheme: z.enum(['http', 'https']),
  /** Only where the administrator allowed it: the certificate is not verified. */
  skipVerify: z.boolean(),
});

export const WorkSource = z.discriminatedUnion('type', [
  /** An image of any registry; of several under one reference that of the architecture, where somebody said one. */
  z.object({
    type: z.literal('remote'),
    reference: z.string(),
    architecture: z.enum(['amd64', 'arm64']).optional(),
  }),
  /** What an upload left in the store: an image under no name yet. */
  z.object({ type: z.literal('upload'), reference: z.string() }),
  /** The flat copy that a runner made; the ticket is in the environment, from a Secret. */
  z.object({
    type: z.literal('export'),
    address: z.string(),
    port: z.int(),
    fingerprint: z.string(),
    path: z.string(),
    /** Folder of the parts of the memory, where the image is to have it. */
    memoryPath: z.string().optional(),
  }),
]);
export type WorkSource = z.infer<typeof WorkSource>;

/** `SVC3_WORK`: one disk to be fetched, inspected and put into the store. */
export const WorkSpec = z.object({
  version: z.literal(1),
  kind: z.enum(['Image', 'ISO']),
  source: WorkSource,
  target: z.object({ registry: z.string(), repository: z.string(), tag: z.string() }),
  /** How each registry is reached, by `host[:port]`; others by https. */
  registries: z.record(z.string(), RegistryAccess),
  /** Architecture where the source does not say. */
  architecture: z.enum(['amd64', 'arm64']),
  limits: z.object({
    /** Largest virtual size of a disk. */
    virtualBytes: z.number(),
    /** Largest file, and most bytes that a layer may unpack to. */
    fileBytes: z.number(),
  }),
  /** Port of `GET /progress`; 0: none. */
  port: z.int(),
});
export type WorkSpec = z.infer<typeof WorkSpec>;

const workFailures = [
  'DiskRefused',
  'SourceNotFound',
  'UploadLost',
  'RegistryDenied',
  'RegistryUnreachable',
  'WorkerFailed',
] as const;

/** The memory beside a disk in the store. The kubelet keeps 4096 bytes of a worker's last words. */
const StoredMemory = z.object({
  /** Of the guest's memory. */
  bytes: z.number().int().min(0),
  cpuModel: z.string().max(256),
  cpuFlags: z.string().max(maxFlagsLength).optional(),
  cpu: z.number().int().min(1),
  accelerator: z.enum(['kvm', 'tcg']),
  qemu: z.string().max(64),
  stoppedMs: z.number().int().min(0).optional(),
});

/** The request to a registry that the work failed with. */
const FailedRequest = z.object({
  /** `host` or `host:port`. */
  registry: z.string().max(261),
  /** `Unreachable`, or what the answer means. */
  reason: z.enum(['Unreachable', ...(Object.keys(errorTable) as ErrorReason[])]),
});

/** The worker's last words, its termination message. */
export const WorkResult = z.discriminatedUnion('result', [
  z.object({
    result: z.literal('Done'),
    digest: z.string().regex(/^sha256:[0-9a-f]{64}$/),
    /** Virtual size in bytes. */
    size: z.number().int().min(0),
    storedSize: z.number().int().min(0),
    format: z.enum(['qcow2', 'raw', 'iso']),
    architecture: z.enum(['amd64', 'arm64']),
    memory: StoredMemory.optional(),
  }),
  z.object({
    result: z.literal('Failed'),
    reason: z.enum(workFailures),
    message: z.string().max(1024),
    /** It is only counted: one that cannot be read hides nothing of the rest. */
    failedRequest: FailedRequest.optional().catch(undefined),
  }),
]);
export type WorkResult = z.infer<typeof WorkResult>;
export type StoredMemory = z.infer<typeof StoredMemory>;
export type WorkDone = Extract<WorkResult, { result: 'Done' }>;
export type WorkFailed = Extract<WorkResult, { result: 'Failed' }>;

export const workerEnvironment = {
  work: 'SVC3_WORK',
  /** One-time ticket of an export. */
  ticket: 'SVC3_EXPORT_TICKET',
  logLevel: 'SVC3_LOG_LEVEL',
  /** The kubelet's file; only tests say another. */
  terminationLog: 'SVC3_TERMINATION_LOG',
  scratch: 'SVC3_SCRATCH',
  dockerConfig: 'SVC3_DOCKER_CONFIG',
} as const;

export const workerPaths = {
  scratch: '/var/lib/svc3',
  /** File of the mounted pull Secret. */
  dockerConfig: '/etc/svc3/registry/.dockerconfigjson',
  terminationLog: '/dev/termination-log',
} as const;
