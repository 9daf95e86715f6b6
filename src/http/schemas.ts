import * as z from 'zod';

/** Schemas of requests and replies of `/api/v1` (api-contract.md); field names are exact. */

const dnsLabel = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const dnsSubdomain = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;
const vmNamePattern = /^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$/;

export const label = z
  .string()
  .regex(
    dnsLabel,
    'must be at most 63 lower-case letters, digits and "-", and begin and end with a letter or digit',
  );
export const subdomain = z
  .string()
  .regex(
    dnsSubdomain,
    'must be lower-case letters, digits, "-" and ".", and begin and end with a letter or digit',
  );
export const vmName = z
  .string()
  .regex(
    vmNamePattern,
    'must be at most 63 lower-case letters, digits and "-", begin with a letter and end with a letter or digit',
  );
const configName = z
  .string()
  .regex(
    /^[a-z]([-a-z0-9]{0,48}[a-z0-9])?$/,
    'must be at most 50 lower-case letters, digits and "-", begin with a letter and end with a letter or digit',
  );
const imageName = z
  .string()
  .regex(
    /^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$/,
    'must be at most 63 lower-case letters, digits, "-" and ".", and begin and end with a letter or digit',
  );
const imageReference = z
  .string()
  .max(512)
  .regex(
    /^([a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?|[^\s/]+\/\S+)$/,
    'must be the name of an image or an OCI reference',
  );
const size = z
  .string()
  .max(24)
  .regex(/^[0-9]+(\.[0-9]{1,3})?(k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$/, 'must be a size such as 120G');
export const tag = z
  .string()
  .regex(
    /^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$/,
    'must be 1 to 63 letters, digits, "-", "_" and ".", and begin and end with a letter or digit',
  );

export const nothing = z.object({});
export const namespaceParams = z.object({ namespace: label });
export const vmParams = namespaceParams.extend({ vm: subdomain });
export const vmConfigParams = namespaceParams.extend({ vmconfig: subdomain });
export const nodeParams = namespaceParams.extend({ name: subdomain });
export const imageParams = namespaceParams.extend({ image: subdomain });
export const isoParams = namespaceParams.extend({ iso: subdomain });
export const serviceAccountParams = namespaceParams.extend({ serviceaccount: subdomain });

/** `?wait=false`, in the spellings of a query. */
export const flag = z
  .enum(['true', 'false', '1', '0', ''])
  .transform((text) => text !== 'false' && text !== '0');
export const waitQuery = z.object({ wait: flag.optional() });

const cpu = z.int().min(1).max(256);
const memory = z.number().min(0).max(16_384);
const settings = {
  image: imageReference.optional(),
  cpu: cpu.optional(),
  memory: memory.optional().describe('GiB; 0 or absent: from cpu.'),
  gpuPassthrough: z.boolean().optional().describe('Absent: inherited.'),
  vncConsole: z.boolean().optional().describe('Absent: inherited.'),
  tag: z.union([tag, z.literal('')]).optional(),
  tagRequired: z.boolean().optional(),
  scheduler: z.enum(['default', 'most-allocated', '']).optional(),
  iso: z.union([imageReference, z.literal('')]).optional(),
  systemSerial: z
    .string()
    .max(64)
    .regex(/^[ -~]*$/, 'must be printable ASCII')
    .optional(),
  customVMMetadata: z
    .union([z.string().max(65_536), z.record(z.string().max(128), z.string().max(4096))])
    .optional()
    .describe('"name=value,name=value" or an object.'),
  netBoost: z.boolean().optional(),
  legacyIO: z.boolean().optional(),
  displayWidth: z.int().min(320).max(7680).optional(),
  displayHeight: z.int().min(200).max(4320).optional(),
  displayDPI: z.int().min(36).max(600).optional(),
  sshAuthorizedKeys: z
    .array(
      z
        .string()
        .min(1)
        .max(8192)
        .regex(/^[^\r\n]+$/),
    )
    .max(64)
    .optional(),
} as const;

export const deployBody = z.object({
  name: z
    .union([vmName, z.literal('')])
    .optional()
    .describe('Absent: vm- and 5 characters.'),
  shouldGenerateName: z.boolean().optional().describe('true: name is a prefix.'),
  vmConfig: configName.optional(),
  ...settings,
  node: z.union([subdomain, z.literal('')]).optional(),
  reservedPorts: z
    .string()
    .max(1024)
    .optional()
    .describe('NODE:VM[,NODE:VM], each with an optional /tcp or /udp.'),
  timeout: z.int().min(1).max(10_080).optional().describe('Minutes until the VM must run; default 10.'),
});

export const vmConfigBody = z.object({
  name: configName,
  ...settings,
  image: imageReference,
  nodeName: z.union([subdomain, z.literal('')]).optional(),
  type: z.enum(['amd64', 'arm64']).optional(),
});

export const execBody = z.object({ command: z.enum(['start', 'stop', 'resume', 'suspend', 'revert']) });
const description = z.string().max(1024);
export const saveBody = z.object({ imageName, description: description.optional() });
export const commitBody = z.object({ description: description.optional() }).optional();
export const generateBody = z.object({ name: imageName, size, description: description.optional() });
export const copyBody = z.object({ name: imageName, description: description.optional() });
export const descriptionBody = z.object({ description });
export const pullBody = z
  .object({ name: imageName.optional(), description: description.optional() })
  .optional();
export const pullParams = namespaceParams.extend({
  remoteimage: z
    .string()
    .min(1)
    .max(512)
    .regex(
      /^[^\s/]+\/\S+$/,
      'must be a URL-encoded OCI reference such as registry.example.com%2Fteam%2Fdebian:12',
    ),
});
export const pullIsoParams = namespaceParams.extend({ remoteiso: pullParams.shape.remoteimage });
const uploadId = z.string().regex(/^[0-9a-z-]{1,64}$/, 'must be the id of an upload');
export const imageUploadParams = imageParams.extend({ image: imageName, upload: uploadId });
export const isoUploadParams = isoParams.extend({ iso: imageName, upload: uploadId });
export const uploadState = z.object({
  upload: z.string(),
  offset: z.int().describe('Bytes that have come.'),
  size: z.int().optional().describe('Bytes of the whole file, where Upload-Length said it.'),
  complete: z.boolean(),
});
export const uploadQuery = z.object({
  name: imageName.optional(),
  description: description.optional(),
  fileName: z.string().max(255).optional(),
});
export const tagBody = z.object({ tag });
export const clusterNodeParams = z.object({ name: subdomain });
export const assignBody = z.object({
  namespace: label.optional().describe('Absent: VMs of every namespace.'),
});
export const gpuPassthroughBody = z.object({ allowed: z.boolean() });

export const registryAddBody = z.object({
  server: z.string().min(1).max(280),
  username: z
    .string()
    .min(1)
    .max(1024)
    .regex(/^[^:\p{Cc}]+$/u, 'must not contain a colon, a line break or another control character'),
  password: z
    .string()
    .min(1)
    .max(65_536)
    .regex(/^\P{Cc}+$/u, 'must not contain a line break or another control character'),
  allowInsecure: z.boolean().optional(),
  replace: z.boolean().optional(),
  verify: z.boolean().optional().describe('true: log in once and say in a Warning whether it was refused.'),
});
export const registryRemoveBody = z.object({ server: z.string().min(1).max(280) });

export const tokenBody = z
  .object({
    duration: z.string().max(64).optional().describe('e.g. 720h'),
    expirationSeconds: z.int().min(1).max(4_294_967_296).optional(),
    audiences: z.array(z.string().min(1).max(512)).max(16).optional(),
    apiVersion: z.string().optional(),
    kind: z.string().optional(),
    metadata: z.record(z.string(), z.unknown()).optional(),
    spec: z
      .object({
        expirationSeconds: z.int().min(1).max(4_294_967_296).optional(),
        audiences: z.array(z.string().min(1).max(512)).max(16).optional(),
      })
      .optional(),
    status: z.record(z.string(), z.unknown()).optional(),
  })
  .optional();

export const tunnelQuery = z.object({
  port: z
    .string()
    .regex(/^[1-9]\d{0,4}$/)
    .transform(Number)
    .pipe(z.int().min(1).max(65_535))
    .optional(),
  ticket: z.string().max(4096).optional(),
});

export const status = z.object({
  kind: z.literal('Status'),
  apiVersion: z.literal('v1'),
  metadata: z.object({}),
  status: z.enum(['Success', 'Failure']),
  message: z.string(),
  reason: z.string().optional(),
  details: z
    .object({
      group: z.string().optional(),
      kind: z.string().optional(),
      name: z.string().optional(),
      retryAfterSeconds: z.int().optional(),
      causes: z
        .array(z.object({ field: z.string(), message: z.string(), reason: z.string().optional() }))
        .optional(),
    })
    .optional(),
  code: z.int(),
});

const vmState = z.enum(['Pending', 'Running', 'Stopped', 'Suspended', 'Failed']);
export const vmItem = z.object({
  name: z.string(),
  namespace: z.string(),
  node: z.string().optional(),
  ip: z.string().optional(),
  cpu: z.int(),
  memory: z.string(),
  image: z.string().optional(),
  vmConfig: z.string().optional(),
  gpuPassthrough: z.boolean(),
  vncConsole: z.boolean(),
  ssh: z.int(),
  vnc: z.int().optional(),
  screenshare: z.int().optional(),
  deployDate: z.string().optional(),
  owner: z.string().optional(),
  architecture: z.string().optional(),
  status: vmState,
  message: z.string().optional(),
});
export const deployReply = z.object({
  name: z.string(),
  node: z.string().optional(),
  memory: z.string(),
  ip: z.string().optional(),
  ssh: z.int(),
  vnc: z.int().optional(),
  screenshare: z.int().optional(),
  status: vmState,
  message: z.string().optional(),
  portWarnings: z.string().optional(),
});
export const vmConfigItem = z.object({
  name: z.string(),
  namespace: z.string(),
  image: z.string().optional(),
  type: z.string().optional(),
  cpu: z.int().optional(),
  memory: z.number().optional(),
  gpuPassthrough: z.boolean().optional(),
  vncConsole: z.boolean().optional(),
  scheduler: z.enum(['default', 'most-allocated']).optional(),
  tag: z.string().optional(),
  tagRequired: z.boolean().optional(),
  iso: z.string().optional(),
  systemSerial: z.string().optional(),
  netBoost: z.boolean().optional(),
  legacyIO: z.boolean().optional(),
  nodeName: z.string().optional(),
  displayWidth: z.int().optional(),
  displayHeight: z.int().optional(),
  displayDPI: z.int().optional(),
  customVMMetadata: z.record(z.string(), z.string()).optional(),
  createdAt: z.string().optional(),
});
export const nodeItem = z.object({
  name: z.string(),
  namespace: z.string(),
  nodeIP: z.string(),
  availableCpu: z.int(),
  availableMemory: z.string(),
  availableGpu: z.int(),
  allocatableCpu: z.int(),
  allocatableMemory: z.string(),
  allocatableGpu: z.int(),
  nodeType: z.literal('WORKER'),
  phase: z.enum(['READY', 'NOT READY']),
  architecture: z.string(),
  tags: z.array(z.string()),
  gpuPassthrough: z.boolean(),
  gpuPassthroughReason: z.string().optional(),
});
export const imageItem = z.object({
  name: z.string(),
  namespace: z.string(),
  description: z.string().optional(),
  type: z.string().optional(),
  size: z.string().optional(),
  state: z.enum(['Ready', 'Updating', 'Failed']),
  errorMessage: z.string().optional(),
  progress: z.int().optional(),
  createdAt: z.string().optional(),
});
export const remoteItem = z.object({ name: z.string(), tags: z.array(z.string()).optional() });
export const registryItem = z.object({
  server: z.string(),
  username: z.string(),
  allowInsecure: z.boolean(),
  createdAt: z.string(),
});
export const serviceAccountItem = z.object({ name: z.string(), createdAt: z.string() });
export const tokenReply = z.object({ token: z.string(), expirationTimestamp: z.string() });
export const clusterInfo = z.object({
  apiDomain: z.string(),
  apiEndpoint: z.string(),
  certData: z.string(),
  gpuPassthroughEnabled: z.boolean(),
  version: z.string(),
});
export const consoleReply = z.object({
  ticket: z.string(),
  path: z.string(),
  page: z.string(),
  expirationTimestamp: z.string(),
});

export function listOf<T extends z.ZodType>(item: T) {
  return z.object({ items: z.array(item) });
}
