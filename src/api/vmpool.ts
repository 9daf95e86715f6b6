import { z } from 'zod';
import type { KubeObject, NamespacedMeta } from './object.ts';
import { Conditions, ObservedGeneration } from './condition.ts';
import { rules } from './rule.ts';
import { vmSettings } from './vmconfig.ts';

export const Standby = z.enum(['Suspended', 'Running']);
export type Standby = z.infer<typeof Standby>;

const {
  subdomain: _subdomain,
  // They need a Persistent disk.
  suspendTo: _suspendTo,
  onEviction: _onEviction,
  ...templateSettings
} = vmSettings;
const forbidden = 'FieldValueForbidden' as const;

/** What every VM of a pool has: a guest that has booted cannot take another CPU, disk or port. */
export const VmPoolTemplate = z
  .object({
    config: z
      .string()
      .min(1)
      .max(63)
      .regex(/^[a-z]([-a-z0-9]*[a-z0-9])?$/)
      .optional()
      .describe(
        'Name of a VMConfig of this namespace whose settings hold wherever the template says nothing.',
      ),
    ...templateSettings,
  })
  .meta(
    rules([
      {
        rule: 'has(self.image) || has(self.config)',
        message: 'config or image is required',
        reason: 'FieldValueRequired',
      },
      {
        rule: "!has(self.disk) || !has(self.disk.storage) || self.disk.storage != 'Persistent'",
        message: 'disk.storage of a pool cannot be Persistent: the disk of a standby is nobody’s',
        fieldPath: '.disk.storage',
        reason: forbidden,
      },
      {
        rule: "!has(self.gpuPassthrough) || self.gpuPassthrough == 'Disabled'",
        message: 'gpuPassthrough of a pool cannot be Enabled: a standby would hold the cards for nobody',
        fieldPath: '.gpuPassthrough',
        reason: forbidden,
      },
    ]),
  )
  .describe(
    'The settings of every VM of the pool; a VM that claims one can say nothing of its own but metadata, SSH keys and its start deadline.',
  );
export type VmPoolTemplate = z.infer<typeof VmPoolTemplate>;

const count = (most: number) => z.int().min(0).max(most).meta({ format: 'int32' });

export const VmPoolSpec = z
  .object({
    template: VmPoolTemplate,
    minIdle: count(500)
      .default(1)
      .describe('How many booted guests wait for a VM; what kubectl scale changes.'),
    maxSize: count(1000)
      .optional()
      .describe(
        'How many there are at most together with the VMs that claimed one; unset means no bound. More VMs are deployed all the same, without waiting guests.',
      ),
    standby: Standby.default('Suspended').describe(
      'Suspended (the default): a waiting guest is paused once it has booted, and takes no CPU. Running: it runs on.',
    ),
    serveConfig: z
      .boolean()
      .default(false)
      .describe(
        'Whether VMs that name the VMConfig of the template, and ask for nothing else than it says, are served from the pool as well.',
      ),
  })
  .meta(
    rules([
      {
        rule: '!has(self.maxSize) || !has(self.minIdle) || self.maxSize >= self.minIdle',
        message: 'maxSize must not be less than minIdle',
        fieldPath: '.maxSize',
      },
      {
        rule: '!has(self.serveConfig) || !self.serveConfig || has(self.template.config)',
        message: 'serveConfig needs template.config',
        fieldPath: '.serveConfig',
      },
    ]),
  )
  .describe('Guests that are booted before anybody asks for a VM.');
export type VmPoolSpec = z.infer<typeof VmPoolSpec>;

export const VmPoolStatus = z
  .object({
    observedGeneration: ObservedGeneration.optional(),
    conditions: Conditions.optional(),
    idle: count(100_000).optional().describe('Guests that wait for a VM.'),
    preparing: count(100_000).optional().describe('Guests that are being booted.'),
    claimed: count(100_000).optional().describe('VMs that name the pool, or were served by serveConfig.'),
    selector: z
      .string()
      .max(256)
      .optional()
      .describe('Selects the pods that wait, as the scale subresource tells it.'),
    images: z
      .array(z.string().max(1024).describe('An OCI reference with its digest.'))
      .max(32)
      .meta({ 'x-kubernetes-list-type': 'atomic' })
      .optional()
      .describe(
        'Images and ISOs that its guests were made from, whatever the template says now: they are in use as long as one of these guests waits.',
      ),
  })
  .describe('What svc3 knows about the pool.');
export type VmPoolStatus = z.infer<typeof VmPoolStatus>;

export interface VmPool extends KubeObject {
  metadata: NamespacedMeta;
  spec: VmPoolSpec;
  status?: VmPoolStatus;
}
