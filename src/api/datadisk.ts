import { z } from 'zod';
import { limits } from './meta.ts';
import { SizeQuantity } from './quantity.ts';
import { exactlyOneOf, type Rule, rules } from './rule.ts';

/** The most data disks of a VM. */
const mostDisks = 8;

/** What QEMU keeps in memory of the tables of a QCOW2 data disk, in bytes: its own default on Linux, enough for 256 GiB in clusters of 64 KiB. */
export const tableCacheBytes = 32 * 2 ** 20;

/** What an unset field means beside one that says it, in CEL. */
const said = (field: string, of: string) => `(has(${of}.${field}) ? ${of}.${field} : '')`;
const same = (field: string) => `${said(field, 'self')} == ${said(field, 'oldSelf')}`;

const fields = {
  // The guest has it as the serial number of the disk, which has 20 characters.
  name: z
    .string()
    .min(1)
    .max(20)
    .regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/)
    .describe('Name of the disk; a guest with virtio finds it as /dev/disk/by-id/virtio-<name>.'),
  storageClassName: z
    .string()
    .min(1)
    .max(253)
    .optional()
    .describe("StorageClass of a new disk; unset means the installation's, else the cluster's default."),
  whenDeleted: z
    .enum(['Retain', 'Delete'])
    .optional()
    .describe(
      "What becomes of the disk when its VM is deleted. Retain (the default): its PersistentVolumeClaim stays, nobody's. Delete: it goes with the VM.",
    ),
  claimName: z
    .string()
    .min(1)
    .max(253)
    .regex(/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/)
    .optional()
    .describe(
      'PersistentVolumeClaim in the namespace of the VM whose file disk.img is the disk. It needs label svc3.dev/disk, and no other VM may have it.',
    ),
  format: z
    .enum(['Raw', 'QCOW2'])
    .optional()
    .describe(
      'Format of the disk of that claim; Raw where nothing is said. It is never guessed, and a QCOW2 file that names another file is refused.',
    ),
} as const;

const list = { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['name'] } as const;

const diskRules: readonly Rule[] = [
  exactlyOneOf(['size', 'claimName']),
  { rule: '!has(self.storageClassName) || has(self.size)', message: 'storageClassName needs size' },
  { rule: '!has(self.format) || has(self.claimName)', message: 'format needs claimName' },
  {
    rule: ['claimName', 'storageClassName', 'format'].map(same).join(' && '),
    message: 'claimName, storageClassName and format of a disk cannot change; add a disk with another name',
    reason: 'FieldValueForbidden',
  },
  {
    rule: '!has(oldSelf.size) || (has(self.size) && quantity(self.size).compareTo(quantity(oldSelf.size)) >= 0)',
    message: 'size of a disk can only grow',
    reason: 'FieldValueForbidden',
  },
];

/** Disks of a VM beside the one that it boots from: each is a claim of its own. */
export const DataDisks = z
  .array(
    z
      .object({
        ...fields,
        size: SizeQuantity(
          'size',
          limits.diskSize,
          'Size of a new, blank disk, e.g. 40Gi. It can only grow.',
        ).optional(),
      })
      .meta(rules(diskRules)),
  )
  .max(mostDisks)
  .meta(list)
  .describe('Data disks, beside the one that the VM boots from. Save, commit and revert leave them alone.');

/** The same among the settings in force, without rules. */
export const effectiveDataDisks = z
  .array(z.object({ ...fields, size: z.string().max(24).optional().describe('Size of a new disk.') }))
  .max(mostDisks)
  .meta(list)
  .describe('Data disks.');

export type DataDisk = z.infer<typeof effectiveDataDisks>[number];
