import { z } from 'zod';
import type { KubeObject, NamespacedMeta } from './object.ts';
import { maxFlagsLength } from './hostcpu.ts';
import { Conditions, ObservedGeneration } from './condition.ts';
import { limits } from './meta.ts';
import { SizeQuantity } from './quantity.ts';
import { asAWhole, exactlyOneOf, rules, type Rule } from './rule.ts';
import { Architecture } from './vmconfig.ts';

const objectName = z
  .string()
  .min(1)
  .max(63)
  .regex(/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/);

const vmName = z
  .string()
  .min(1)
  .max(63)
  .regex(/^[a-z]([-a-z0-9]*[a-z0-9])?$/)
  .describe('Name of the VM.');

const remote = z
  .object({
    reference: z
      .string()
      .min(1)
      .max(512)
      .regex(/^[^\s/]+\/\S+$/)
      .describe('OCI reference, e.g. registry.example.com/team/debian:12.'),
  })
  .optional()
  .describe('Pulled from a registry; a RegistryCredential of the namespace for that host is used.');

const upload = z.object({}).optional().describe('Filled by an upload through the HTTP API.');

export const ImageSource = z
  .object({
    remote,
    image: z
      .object({ name: objectName.describe('Name of the Image to copy.') })
      .optional()
      .describe('Copied from another Image of this namespace.'),
    vm: z
      .object({
        name: vmName,
        mode: z
          .enum(['Save', 'SaveWithMemory'])
          .default('Save')
          .describe(
            'Save makes a new image from the disk. SaveWithMemory also takes the memory of the guest, which has to run: VMs deployed from the image go on where it was.',
          ),
      })
      .optional()
      .describe('Taken from the disk of a VM of this namespace.'),
    blank: z
      .object({ size: SizeQuantity('size', limits.diskSize, 'Virtual size of the disk, e.g. 120G.') })
      .optional()
      .describe('An empty disk.'),
    upload,
  })
  .meta(rules([exactlyOneOf(['remote', 'image', 'vm', 'blank', 'upload'])]))
  .describe('Where the disk comes from: exactly one member.');
export type ImageSource = z.infer<typeof ImageSource>;

export const IsoSource = z
  .object({
    remote,
    image: z
      .object({ name: objectName.describe('Name of the ISO to copy.') })
      .optional()
      .describe('Copied from another ISO of this namespace.'),
    upload,
  })
  .meta(rules([exactlyOneOf(['remote', 'image', 'upload'])]))
  .describe('Where the medium comes from: exactly one member.');
export type IsoSource = z.infer<typeof IsoSource>;

const description = z.string().max(1024).optional().describe('Free text for people.');

export const ImageCommit = z
  .object({
    vm: vmName.describe('Name of the VM; it runs from this Image.'),
    request: z.string().min(1).max(64).describe('Any text; each new value commits once.'),
  })
  .meta(asAWhole)
  .describe('The disk of a VM becomes a new version of this Image.');
export type ImageCommit = z.infer<typeof ImageCommit>;

const sourceStays = (kind: string): Rule => ({
  rule: 'self.source == oldSelf.source',
  message: `source cannot change after creation; delete the ${kind} and create it again`,
  fieldPath: '.source',
  reason: 'FieldValueForbidden',
});

export const ImageSpec = z
  .object({ description, source: ImageSource, commit: ImageCommit.optional() })
  .meta(rules([sourceStays('Image')]))
  .describe('One disk in the store.');
export type ImageSpec = z.infer<typeof ImageSpec>;

export const IsoSpec = z
  .object({ description, source: IsoSource })
  .meta(rules([sourceStays('ISO')]))
  .describe('One install medium in the store.');
export type IsoSpec = z.infer<typeof IsoSpec>;

export const ImageMemory = z
  .object({
    digest: z.string().max(128).describe('Digest of the version that has it: a commit makes one without.'),
    size: z.string().max(24).describe('Memory of the guest as a quantity.'),
    cpuModel: z.string().max(256).describe('The CPU that the guest was saved on.'),
    cpuFlags: z
      .string()
      .max(maxFlagsLength)
      .optional()
      .describe('Features of that CPU, where the guest saw them: under kvm.'),
    cpu: z.int().min(1).max(1024).meta({ format: 'int32' }).optional().describe('Virtual CPUs of the guest.'),
    accelerator: z.enum(['kvm', 'tcg']).describe('What the guest was saved under.'),
    qemu: z.string().max(64).describe('Version of QEMU that has saved it.'),
    stoppedMs: z
      .int()
      .min(0)
      .max(86_400_000)
      .meta({ format: 'int32' })
      .optional()
      .describe('How long the guest was stopped for it, in milliseconds.'),
  })
  .describe('The memory beside the disk. VMs that it does not fit boot from the disk.');
export type ImageMemory = z.infer<typeof ImageMemory>;

export const ImageStatus = z
  .object({
    observedGeneration: ObservedGeneration.optional(),
    conditions: Conditions.optional(),
    digest: z.string().max(128).optional().describe('Digest of the manifest in the store, e.g. sha256:….'),
    reference: z
      .string()
      .max(1024)
      .optional()
      .describe('OCI reference in the store, with digest: what a VM pod mounts.'),
    size: z.string().max(24).optional().describe('Virtual size of the disk as a quantity.'),
    storedSize: z.string().max(24).optional().describe('Bytes in the store as a quantity.'),
    architecture: Architecture.optional().describe('Architecture of the disk.'),
    format: z.enum(['qcow2', 'raw', 'iso']).optional().describe('Format of the file in the image.'),
    memory: ImageMemory.optional(),
    progress: z
      .int()
      .min(0)
      .max(100)
      .meta({ format: 'int32' })
      .optional()
      .describe('How far the work is, in percent.'),
    worker: z.string().max(253).optional().describe('The pod that is at work.'),
    request: z.string().max(64).optional().describe('The last upload that was taken over or refused.'),
    commitRequest: z
      .string()
      .max(64)
      .optional()
      .describe('The last spec.commit.request that was carried out or refused.'),
    vmUid: z.string().max(64).optional().describe('UID of the VM whose disk is taken, or was taken last.'),
    vmRequest: z
      .string()
      .max(64)
      .optional()
      .describe('The spec.commit.request that vmUid is said for; unset where it is said for spec.source.'),
    vmPodUid: z
      .string()
      .max(64)
      .optional()
      .describe(
        'UID of the pod that has that disk, where that is Ephemeral; it goes with its pod, and is not taken from another.',
      ),
  })
  .describe('What svc3 knows about the disk.');
export type ImageStatus = z.infer<typeof ImageStatus>;

export interface Image extends KubeObject {
  metadata: NamespacedMeta;
  spec: ImageSpec;
  status?: ImageStatus;
}

export interface Iso extends KubeObject {
  metadata: NamespacedMeta;
  spec: IsoSpec;
  status?: ImageStatus;
}

export const imageAnnotations = {
  /** On Images and ISOs: digest of the manifest that an upload left in the store. */
  upload: 'svc3.dev/upload',
  /** On Images and ISOs: id of that upload, so that a client that lost the answer learns that it is done. */
  uploadId: 'svc3.dev/upload-id',
  /** On Images of a save: UID of the VM that was meant, since another one may have its name by now. */
  savedVm: 'svc3.dev/saved-vm',
  /** On Images of a commit: `<request>/<UID of the VM that was meant>`; said of another request it says nothing. */
  committedVm: 'svc3.dev/committed-vm',
  /**
   * On Images of a save or commit: id of the request (`workId`) whose disk the VM's revert discards, since it was waited for as long as there is time;
   * written before the revert is asked for.
   */
  saveAbandoned: 'svc3.dev/save-abandoned',
  /** On Images that are blank or uploaded: amd64 or arm64, since nothing else says it. */
  architecture: 'svc3.dev/architecture',
} as const;
