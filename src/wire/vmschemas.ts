import * as z from 'zod';
import { configName, imageName, imageReference, subdomain, tag, vmName } from './names.ts';
import { description } from './schemas.ts';

/** Schemas of VMs and their configurations in requests and replies of `/api/v1` (contract: "VMs"); field names are exact. */

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
export const saveBody = z.object({ imageName, description: description.optional() });
export const commitBody = z.object({ description: description.optional() }).optional();

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
