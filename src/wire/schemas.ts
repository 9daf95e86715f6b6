import * as z from 'zod';
import { Architecture } from '../api/vmconfig.ts';
import { imageName, label, subdomain, tag } from './names.ts';

/**
 * Schemas of requests and replies of `/api/v1` (contract: "General"); field names are exact. Types of the bodies are inferred from
 * them. The id of a schema is its name in the OpenAPI documents.
 */

/** Of a disk, as a quantity. */
export const size = z
  .string()
  .max(24)
  .regex(/^[0-9]+(\.[0-9]{1,3})?(k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$/, 'must be a size such as 120G');
export const nothing = z.object({});
export const namespaceParams = z.object({ namespace: label });
export const vmParams = namespaceParams.extend({ vm: subdomain });
export const vmConfigParams = namespaceParams.extend({ vmconfig: subdomain });
export const vmPoolParams = namespaceParams.extend({ vmpool: subdomain });
export const nodeParams = namespaceParams.extend({ name: subdomain });
export const imageParams = namespaceParams.extend({ image: subdomain });
export const isoParams = namespaceParams.extend({ iso: subdomain });
export const serviceAccountParams = namespaceParams.extend({ serviceaccount: subdomain });

/** `?wait=false`, in the spellings of a query. */
export const flag = z
  .enum(['true', 'false', '1', '0', ''])
  .transform((text) => text !== 'false' && text !== '0');
/** `?wait=reachable` waits longer. */
export const deployWaitQuery = z.object({ wait: z.literal('reachable').or(flag).optional() });
export const waitQuery = z.object({ wait: flag.optional() });
export const meantUid = z
  .string()
  .max(64)
  .optional()
  .describe('UID of the one that is meant: another one of its name is refused (409).');
export const meantQuery = z.object({ uid: meantUid });
export const itemUid = z.string().optional().describe('Another one of the same name has another one.');
/** What tells later what has become of something that was accepted. */
export const acceptedRequest = z
  .string()
  .describe('For ?request= of GET of the VM, whose outcome says what has become of this request.');
export const vmQuery = z.object({
  request: z
    .string()
    .max(4096)
    .optional()
    .describe('request of a reply to exec or PATCH: outcome of this reply says what has become of that.'),
});
export const changeQuery = waitQuery.extend({ uid: meantUid });
export const deletionQuery = waitQuery.extend({
  uid: meantUid,
  deleteDisk: flag
    .optional()
    .describe('Whether a Persistent disk goes with the VM, whatever disk.whenDeleted says.'),
});
export const explanationQuery = z.object({
  nodes: flag
    .optional()
    .describe('false: without what placement says of every node, which takes lists of the whole cluster.'),
});

/** Free text of an image or ISO. */
export const description = z.string().max(1024);
/** Of a disk of which nothing else says it. */
const architecture = Architecture.optional().describe(
  'For which guests the disk is; absent: amd64, or what the Image or ISO says that waits for the upload.',
);
export const generateBody = z
  .object({ name: imageName, size, description: description.optional(), architecture })
  .meta({ id: 'ImageGenerateRequest' });
export const copyBody = z
  .object({ name: imageName, description: description.optional() })
  .meta({ id: 'CopyRequest' });
export const descriptionBody = z.object({ description }).meta({ id: 'DescriptionRequest' });
export const pullBody = z
  .object({ name: imageName.optional(), description: description.optional() })
  .meta({ id: 'PullRequest' })
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
export const uploadState = z
  .object({
    upload: z.string(),
    offset: z.int().describe('Bytes that have come.'),
    size: z.int().optional().describe('Bytes of the whole file, where Upload-Length said it.'),
    complete: z.boolean(),
  })
  .meta({ id: 'UploadState' });
export const uploadQuery = z.object({
  name: imageName.optional(),
  description: description.optional(),
  fileName: z.string().max(255).optional(),
  architecture,
});
const byteCount = z.int().min(0).max(999_999_999_999_999);
const uploadComplete = z.enum(['?0', '?1']).optional();
export const uploadHeaders = z.object({
  'Upload-Complete': uploadComplete.describe(
    '?0: more comes in other requests, at Location of the reply. ?1 and absent: this is all.',
  ),
  'Upload-Length': byteCount.optional().describe('With Upload-Complete: ?0, bytes of the whole file.'),
});
export const appendHeaders = z.object({
  'Upload-Offset': byteCount.describe('Bytes of the file in front of those that are sent.'),
  'Upload-Complete': uploadComplete.describe(
    '?0: more comes in other requests. ?1 and absent: this is the end.',
  ),
});
export const downloadHeaders = z.object({
  Range: z.string().optional().describe('Which part of the disk, e.g. bytes=0-1048575.'),
  'If-Range': z
    .string()
    .optional()
    .describe('ETag of the version that the part is of; of another one the whole disk is sent.'),
});
export const deployHeaders = z.object({
  traceparent: z
    .string()
    .optional()
    .describe('W3C Trace Context: the trace that the start of the VM belongs to.'),
});
/** A file as a part of a form. */
const file = z.string().meta({ format: 'binary' });
export const uploadForm = uploadQuery.omit({ fileName: true }).extend({
  file: file.describe('The disk: the last part, under any name, and the only one with a file name.'),
});
export const certificateForm = z.object({
  certPath: file.describe('The certificate, with those that it is signed by, in PEM; RSA or ECDSA.'),
  keyPath: file.describe('Its private key in PEM, unencrypted.'),
});
export const tagBody = z.object({ tag }).meta({ id: 'TagRequest' });
export const clusterNodeParams = z.object({ name: subdomain });
export const assignBody = z
  .object({ namespace: label.optional().describe('Absent: VMs of every namespace.') })
  .meta({ id: 'AssignRequest' });
export const gpuPassthroughBody = z.object({ allowed: z.boolean() }).meta({ id: 'GpuPassthroughRequest' });

export const registryAddBody = z
  .object({
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
    verifyOnlyPublic: z
      .boolean()
      .optional()
      .describe(
        'true: with verify, not over plain HTTP nor at an address that is private, loopback or link-local.',
      ),
  })
  .meta({ id: 'RegistryCredentialRequest' });
export const registryRemoveBody = z
  .object({ server: z.string().min(1).max(280) })
  .meta({ id: 'RegistryCredentialRemoveRequest' });

/** Roles that a new service account can be given in its namespace. */
export const accountRoles = ['svc3-edit', 'svc3-view', 'none'] as const;
export type AccountRole = (typeof accountRoles)[number];
export const serviceAccountBody = z
  .object({
    role: z
      .enum(accountRoles)
      .optional()
      .describe(
        'Bound in the namespace; absent: svc3-edit where the caller may bind it, else none and a Warning.',
      ),
  })
  .meta({ id: 'ServiceAccountRequest' })
  .optional();

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
  .meta({ id: 'TokenRequest' })
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

export const status = z
  .object({
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
  })
  .meta({ id: 'Status' });
export const acceptedStatus = status.extend({ request: acceptedRequest }).meta({ id: 'AcceptedStatus' });

export const nodeItem = z
  .object({
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
    gpuPassthroughReason: z
      .string()
      .optional()
      .describe("Why VMs cannot use the node's GPUs; absent where they can."),
  })
  .meta({ id: 'Node' });
export const imageItem = z
  .object({
    name: z.string(),
    namespace: z.string(),
    uid: itemUid,
    description: z.string().optional(),
    type: z.string().optional(),
    size: z.string().optional(),
    state: z.enum(['Ready', 'Updating', 'Failed']),
    errorMessage: z.string().optional(),
    usable: z
      .boolean()
      .optional()
      .describe(
        'true: there is a version that can be downloaded, also while a commit is under way or has failed.',
      ),
    progress: z.int().optional(),
    copyOf: z
      .string()
      .optional()
      .describe('Name of what it is still to be copied from, which cannot be deleted until then.'),
    saveOf: z
      .string()
      .optional()
      .describe('Name of the VM whose disk it is still to have, and whose deletion waits for that.'),
    commitRequest: z
      .string()
      .optional()
      .describe(
        'Which commit was asked for last: another one than in the reply to a commit has come in between. Absent where none ever was.',
      ),
    memory: z
      .object({
        size: z.string().describe('Memory of the guest as a quantity.'),
        cpu: z.int().optional().describe('Virtual CPUs of the guest.'),
        cpuModel: z.string().describe('The CPU that the guest was saved on.'),
        accelerator: z.enum(['kvm', 'tcg']).describe('What the guest was saved under.'),
        qemu: z.string().describe('Version of QEMU that has saved it.'),
        stoppedMs: z.int().optional().describe('How long the guest was stopped for it, in milliseconds.'),
      })
      .optional()
      .describe(
        'The memory of a guest beside the disk: VMs that are like it go on where it was. Absent where this version has none.',
      ),
    createdAt: z.string().optional(),
  })
  .meta({ id: 'Image' });
export const remoteItem = z
  .object({
    name: z.string(),
    kind: z.enum(['image', 'iso']).optional().describe('Absent where only a pull tells.'),
    tags: z.array(z.string()).optional(),
  })
  .meta({ id: 'RemoteImage' });
export const incomplete = z
  .array(z.string())
  .optional()
  .describe('Absent where the list is whole; else what is missing and why.');
export const registryItem = z
  .object({
    server: z.string(),
    username: z.string(),
    allowInsecure: z.boolean(),
    createdAt: z.string(),
  })
  .meta({ id: 'RegistryCredential' });
export const serviceAccountItem = z
  .object({ name: z.string(), createdAt: z.string() })
  .meta({ id: 'ServiceAccount' });
export const tokenReply = z
  .object({ token: z.string(), expirationTimestamp: z.string() })
  .meta({ id: 'IssuedToken' });
export const clusterInfo = z
  .object({
    apiDomain: z.string(),
    apiEndpoint: z.string(),
    certData: z.string(),
    gpuPassthroughEnabled: z.boolean(),
    version: z.string(),
  })
  .meta({ id: 'ClusterInfo' });
export const oidcClient = z
  .object({
    issuerUrl: z.string().describe('Issuer whose ID tokens kube-apiserver takes (--oidc-issuer-url).'),
    clientId: z.string().describe('Public client of that issuer (--oidc-client-id).'),
  })
  .meta({ id: 'OidcClient' });
export const consoleReply = z
  .object({
    ticket: z.string(),
    path: z.string(),
    page: z.string(),
    expirationTimestamp: z.string(),
  })
  .meta({ id: 'ConsoleTicket' });

export function listOf<T extends z.ZodType>(item: T) {
  return z.object({ items: z.array(item) });
}

/** metav1.Status, the body of every refusal of `/api/v1` and of replies with nothing to say. */
export type Status = z.output<typeof status>;
/** A node as `/api/v1` and the CLI show it (contract: "Nodes"). */
export type NodeItem = z.output<typeof nodeItem>;
/** An Image or ISO as `/api/v1` and the CLI show it (contract: "Images, ISOs"). */
export type ImageItem = z.output<typeof imageItem>;
/** What a remote registry of the installation holds. */
export type RemoteItem = z.output<typeof remoteItem>;
/** A RegistryCredential as `/api/v1` and the CLI show it; never a password. */
export type RegistryCredentialItem = z.output<typeof registryItem>;
export type RegistryCredentialRequest = z.output<typeof registryAddBody>;
export type ServiceAccountItem = z.output<typeof serviceAccountItem>;
/** A token and when it ends (RFC 3339). */
export type IssuedToken = z.output<typeof tokenReply>;
/** What the installation says about itself. */
export type ClusterInfo = z.output<typeof clusterInfo>;
/** With which client of which issuer people log in. */
export type OidcClient = z.output<typeof oidcClient>;
