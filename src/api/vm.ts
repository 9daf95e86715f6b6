import { z } from 'zod';
import { maxFlagsLength } from './hostcpu.ts';
import type { KubeObject, NamespacedMeta } from './object.ts';
import { effectiveAffinity } from './affinity.ts';
import { Conditions, ObservedGeneration } from './condition.ts';
import { DataDisks, effectiveDataDisks } from './datadisk.ts';
import { portMapping } from './ports.ts';
import { asAWhole, immutable, type Rule, rules } from './rule.ts';
import {
  Architecture,
  diskRules,
  diskSettings,
  DnsLabel,
  effectiveTolerations,
  guestLists,
  readinessSettings,
  Switch,
  vmSettings,
} from './vmconfig.ts';

export const PowerState = z.enum(['Running', 'Stopped', 'Suspended']);
export type PowerState = z.infer<typeof PowerState>;

export const ObservedPowerState = z.enum(['Running', 'Stopped', 'Suspended', 'Failed']);
export type ObservedPowerState = z.infer<typeof ObservedPowerState>;

const again = 'delete the VM and deploy it again';
const unchanged = {
  config: immutable('config', again),
  configNamespace: immutable('configNamespace', again),
  image: immutable('image', again),
  architecture: immutable('architecture', again),
  nodePorts: immutable('nodePorts', again),
  hostname: immutable('hostname', again),
  subdomain: immutable('subdomain', again),
  pool: immutable('pool', again),
};

const diskStays = {
  message: `disk.storage, disk.storageClassName and disk.claimName cannot change after creation; ${again}`,
  reason: 'FieldValueForbidden',
} as const;
const diskGrows = 'disk.size can only grow';
/** What an unset field means beside one that says it, in CEL. */
const said = (field: string, of: string) => `(has(${of}.${field}) ? ${of}.${field} : '')`;
const same = (field: string) => `${said(field, 'self')} == ${said(field, 'oldSelf')}`;

const vmDiskSettings = {
  ...diskSettings,
  claimName: z
    .string()
    .min(1)
    .max(253)
    .regex(/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/)
    .optional()
    .describe(
      'PersistentVolumeClaim in the namespace of the VM to have the disk from, as an earlier VM left it; unset means a new one. It needs label svc3.dev/disk, and no other VM may have it. Where image names no digest the VM has the version of it that the disk was made on.',
    ),
};

/** `disk` of a VM: it alone can name a claim, which is one VM's at a time. */
export const VmDisk = z.object(vmDiskSettings).meta(
  rules([
    ...diskRules,
    {
      rule: "!has(self.claimName) || (has(self.storage) && self.storage == 'Persistent' && !has(self.storageClassName))",
      message: 'claimName needs storage Persistent and excludes storageClassName',
      fieldPath: '.claimName',
    },
    { ...diskStays, rule: ['storage', 'storageClassName', 'claimName'].map(same).join(' && ') },
    {
      rule: '!has(oldSelf.size) || (has(self.size) && quantity(self.size).compareTo(quantity(oldSelf.size)) >= 0)',
      message: diskGrows,
    },
  ]),
);

/** A common setting that a VM keeps as it was created. */
function kept<T extends z.ZodType>(
  setting: z.ZodOptional<T>,
  { value }: ReturnType<typeof immutable>,
): z.ZodOptional<T> {
  return setting
    .unwrap()
    .meta(rules([value]))
    .optional()
    .describe(setting.description ?? '');
}

/** What a VM of a pool may say itself: what the template fixes, a guest that has booted already cannot take. */
const ofTemplate = ['config', 'configNamespace', ...Object.keys(vmSettings), 'hostname', 'disks'].filter(
  (field) => !['metadata', 'sshAuthorizedKeys', 'startDeadlineSeconds'].includes(field),
);
/** A medium can be taken out of the guest that has it from there. */
const orEmptied = (field: string) => (field === 'iso' ? " || self.iso == ''" : '');
/** A rule for each, so that a refusal names all of them. */
const poolRules = ofTemplate.map((field): Rule => ({
  rule: `!has(self.pool) || !has(self.${field})${orEmptied(field)}`,
  message: `pool excludes ${field}, which the template of the pool fixes`,
  fieldPath: `.${field}`,
  reason: 'FieldValueForbidden',
}));

export const VmSpec = z
  .object({
    config: z
      .string()
      .min(1)
      .max(63)
      .regex(/^[a-z]([-a-z0-9]*[a-z0-9])?$/)
      .meta(rules([unchanged.config.value]))
      .optional()
      .describe(
        'Name of a VMConfig whose settings hold wherever this VM says nothing. It is read once, when the VM is first placed.',
      ),
    configNamespace: z
      .string()
      .min(1)
      .max(63)
      .regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/)
      .meta(rules([unchanged.configNamespace.value]))
      .optional()
      .describe(
        'Namespace of the VMConfig; unset means that of the VM. Whoever creates the VM needs the right to get the VMConfig there. Names of Images and ISOs that the VMConfig says are of its namespace; Secrets and claims are of the namespace of the VM.',
      ),
    pool: z
      .string()
      .min(1)
      .max(63)
      .regex(/^[a-z]([-a-z0-9]*[a-z0-9])?$/)
      .meta(rules([unchanged.pool.value]))
      .optional()
      .describe(
        'Name of a VMPool of this namespace: the VM gets one of its waiting guests, else it is deployed from its template. The template is read once, when the VM is first placed; it excludes all settings but metadata, sshAuthorizedKeys and startDeadlineSeconds.',
      ),
    ...vmSettings,
    image: kept(vmSettings.image, unchanged.image),
    architecture: kept(vmSettings.architecture, unchanged.architecture),
    nodePorts: kept(vmSettings.nodePorts, unchanged.nodePorts),
    subdomain: kept(vmSettings.subdomain, unchanged.subdomain),
    hostname: DnsLabel.meta(rules([unchanged.hostname.value]))
      .optional()
      .describe("Host name of the guest and of its pod; the VM's name where nothing is said."),
    disk: VmDisk.optional().describe(vmSettings.disk.description ?? ''),
    disks: DataDisks.optional(),
    powerState: PowerState.default('Running').describe('The requested power state.'),
    revertRequest: z
      .string()
      .min(1)
      .max(64)
      .optional()
      .describe(
        'Any text; each new value discards the changes to the disk once, after the saves and commits that were asked for before. Where powerState is Running the guest then starts from the image. That which the VM is made with does not.',
      ),
    startRequest: z
      .string()
      .min(1)
      .max(64)
      .optional()
      .describe(
        'Any text; each new value starts a VM once whose guest has shut itself down or has crashed, where powerState is Running.',
      ),
    restartRequest: z
      .string()
      .min(1)
      .max(64)
      .optional()
      .describe(
        'Any text; each new value shuts the guest down and starts it again once, where powerState is Running. The disk stays; the pod stays unless changes of a VM with a Persistent disk wait for another.',
      ),
  })
  .meta(
    rules([
      {
        rule: 'has(self.image) || has(self.config) || has(self.pool)',
        message: 'config, image or pool is required',
        reason: 'FieldValueRequired',
      },
      unchanged.config.presence,
      unchanged.pool.presence,
      ...poolRules,
      unchanged.configNamespace.presence,
      {
        rule: '!has(self.configNamespace) || has(self.config)',
        message: 'configNamespace needs config',
        fieldPath: '.configNamespace',
      },
      // Where neither object has a config, both have an image.
      {
        ...unchanged.image.presence,
        rule: `!(has(self.config) || has(self.pool)) || ${unchanged.image.presence.rule}`,
      },
      unchanged.architecture.presence,
      unchanged.nodePorts.presence,
      unchanged.hostname.presence,
      unchanged.subdomain.presence,
      {
        rule: 'has(self.ports) || !has(oldSelf.ports) || !has(self.config)',
        message:
          'ports of a VM with a config cannot be left out again: the ports of the config were read when the VM was placed; an empty list says none',
        reason: 'FieldValueForbidden',
        fieldPath: '.ports',
      },
      {
        ...diskStays,
        rule: `has(self.disk) == has(oldSelf.disk) || [has(self.disk) ? self.disk : oldSelf.disk].all(disk, !has(disk.storage) && !has(disk.storageClassName) && !has(disk.claimName))`,
        fieldPath: '.disk',
      },
      {
        rule: 'has(self.disk) || !has(oldSelf.disk) || !has(oldSelf.disk.size)',
        message: diskGrows,
        fieldPath: '.disk',
      },
    ]),
  )
  .describe('What to run, where, and in which power state.');
export type VmSpec = z.infer<typeof VmSpec>;
/** A spec as users write it: fields with a default may be left out. */
export type VmSpecInput = z.input<typeof VmSpec>;

/**
 * Settings a VM really has: its own, its VMConfig's and the defaults, frozen when the VM is first placed. No rules stand here: svc3
 * alone writes them, from fields that have them.
 */
export const EffectiveSettings = z
  .object({
    ...vmSettings,
    image: z.string().max(1024).describe('The image as an OCI reference with its digest.'),
    imageName: z
      .string()
      .max(63)
      .optional()
      .describe('Name of the Image that the VM was made from; unset where it was an OCI reference.'),
    imageNamespace: z
      .string()
      .max(63)
      .optional()
      .describe('Namespace of that Image, where it is another than the one of the VM.'),
    architecture: Architecture.describe('Architecture of the guest.'),
    cpu: z.int().min(1).max(1024).meta({ format: 'int32' }).describe('Number of virtual CPUs.'),
    memory: z.string().max(24).describe('Memory of the guest.'),
    gpuPassthrough: Switch.describe("Whether the VM has the node's GPU."),
    vncConsole: Switch.describe('Whether the console shows the screen.'),
    ports: z
      .array(portMapping)
      .max(32)
      .meta({ 'x-kubernetes-list-type': 'atomic' })
      .optional()
      .describe('Port mappings.'),
    portsNotAllowed: z
      .array(portMapping)
      .max(32)
      .meta({ 'x-kubernetes-list-type': 'atomic' })
      .optional()
      .describe(
        'Port mappings of the VMConfig or VMPool that the installation did not allow when the pod was made; the next pod has those that are allowed by then.',
      ),
    priorityClassName: z.string().max(253).optional().describe("PriorityClass of the VM's pod."),
    tolerations: effectiveTolerations.optional(),
    affinity: effectiveAffinity.affinity.optional(),
    topologySpreadConstraints: effectiveAffinity.topologySpreadConstraints.optional(),
    metadata: guestLists.metadata.optional(),
    sshAuthorizedKeys: guestLists.sshAuthorizedKeys.optional(),
    readiness: readinessSettings.optional().describe('When the VM is Ready.'),
    iso: z.string().max(1024).optional().describe('The install medium as an OCI reference with its digest.'),
    isoName: z.string().max(1024).optional().describe('The install medium as spec or VMConfig names it.'),
    disk: z
      .object({
        ...vmDiskSettings,
        size: z.string().max(24).optional().describe('Virtual size of the disk.'),
      })
      .optional()
      .describe(vmSettings.disk.description ?? ''),
    disks: effectiveDataDisks.optional(),
  })
  .meta(asAWhole);
export type EffectiveSettings = z.infer<typeof EffectiveSettings>;

/** Settings of a VM that has never been placed, as far as people ask for them, and what holds before it is. */
export const PlannedSettings = z
  .object({
    image: z.string().max(1024).describe('The image as spec or VMConfig names it.'),
    architecture: Architecture.optional().describe('Architecture of the guest; unset while it is not known.'),
    cpu: z.int().min(1).max(1024).meta({ format: 'int32' }).describe('Number of virtual CPUs.'),
    memory: z.string().max(24).describe('Memory of the guest.'),
    gpuPassthrough: Switch.describe("Whether the VM gets the node's GPU."),
    vncConsole: Switch.describe('Whether the console shows the screen.'),
    startDeadlineSeconds: vmSettings.startDeadlineSeconds,
  })
  .meta(asAWhole);
export type PlannedSettings = z.infer<typeof PlannedSettings>;

const port = z.int().min(0).max(65535).meta({ format: 'int32' });

export const VmPorts = z
  .object({
    ssh: port
      .optional()
      .describe('Port of the node that leads to SSH of the guest; 0 or unset where there is none.'),
    vnc: port
      .optional()
      .describe('Port of the node that shows the console; unset where it is not exposed on nodes.'),
    screenshare: port.optional().describe('Port of the node that leads to screen sharing of the guest.'),
    mapped: z
      .array(
        z.object({
          nodePort: port
            .optional()
            .describe("Port on the node; unset where the guest's port is open on the pod's IP only."),
          guestPort: port.describe('Port inside the guest.'),
          protocol: z.enum(['TCP', 'UDP']).describe('Protocol of the mapping.'),
        }),
      )
      .max(32)
      .meta({ 'x-kubernetes-list-type': 'atomic' })
      .optional()
      .describe('Mappings of spec.ports that are in force.'),
  })
  .meta(asAWhole);
export type VmPorts = z.infer<typeof VmPorts>;

/** The runner as first met: what callers check before they trust what answers at the pod's address. */
export const RunnerIdentity = z
  .object({
    podUid: z.string().max(64).describe('UID of the pod.'),
    address: z.string().max(64).optional().describe("The pod's IP address."),
    fingerprint: z
      .string()
      .max(128)
      .optional()
      .describe('SHA-256 of the certificate that the runner showed first, pinned for this pod.'),
    version: z.string().max(64).optional().describe('Version of the runner.'),
    startedAt: z
      .string()
      .max(64)
      .optional()
      .describe(
        'When the runner that answered last was started, as its pod says: one that was started since is asked whether its certificate is the same.',
      ),
  })
  .meta(asAWhole);
export type RunnerIdentity = z.infer<typeof RunnerIdentity>;

export const MemoryHost = z
  .object({
    accelerator: z.enum(['kvm', 'tcg']).describe('How the guest was executed.'),
    cpuModel: z.string().max(256).optional().describe('CPU of the node, where the guest saw it: under kvm.'),
    cpuFlags: z.string().max(maxFlagsLength).optional().describe('Features of that CPU.'),
  })
  .meta(asAWhole);
export type MemoryHost = z.infer<typeof MemoryHost>;

/** What a status has room for of what others say: characters of a text, and warnings. */
export const statusRoom = { characters: 1024, warnings: 32 } as const;

export const VmStatus = z
  .object({
    observedGeneration: ObservedGeneration.optional(),
    conditions: Conditions.optional(),
    effective: EffectiveSettings.optional().describe(
      'The settings in force: own ones, those of the VMConfig and defaults, frozen when the VM is first placed.',
    ),
    planned: PlannedSettings.optional().describe(
      'What the VM gets when it is placed, as spec, VMConfig and Image are now; absent once it has been placed.',
    ),
    powerState: ObservedPowerState.optional().describe(
      'The power state that was observed; absent while the VM has never run.',
    ),
    node: z.string().max(253).optional().describe('Node the VM runs on.'),
    ip: z.string().max(64).optional().describe("The node's address, where the ports below are reached."),
    ports: VmPorts.optional().describe('Ports on the node.'),
    podName: z.string().max(253).optional().describe('The pod that runs the VM.'),
    runner: RunnerIdentity.optional().describe("The runner of the VM's pod."),
    diskSize: z.string().max(24).optional().describe('Virtual size of the disk that was observed.'),
    diskGrowth: z
      .string()
      .max(statusRoom.characters)
      .optional()
      .describe(
        "What keeps the disk from growing, or what became of its last growth: whether the guest's file system grew too, else what to do in the guest.",
      ),
    accelerator: z.enum(['kvm', 'tcg']).optional().describe('How the guest is executed.'),
    suspendedTo: z
      .enum(['Memory', 'Disk'])
      .optional()
      .describe(
        'Where the memory of the guest is while powerState is Suspended; Disk stays until its next runner has said that it goes on.',
      ),
    memoryHost: MemoryHost.optional().describe(
      'What the guest ran on last, where its memory may lie on its claim: nodes that are alike are preferred.',
    ),
    revertRequest: z
      .string()
      .max(64)
      .optional()
      .describe('The last spec.revertRequest that was carried out.'),
    startRequest: z.string().max(64).optional().describe('The last spec.startRequest that was carried out.'),
    restartRequest: z
      .string()
      .max(64)
      .optional()
      .describe('The last spec.restartRequest that was carried out.'),
    warnings: z
      .array(z.string().max(statusRoom.characters).describe('One sentence.'))
      .max(statusRoom.warnings)
      .meta({ 'x-kubernetes-list-type': 'atomic' })
      .optional()
      .describe('What was asked for and is not so, one sentence each; nothing here stops the VM.'),
  })
  .describe('What svc3 knows about the VM.');
export type VmStatus = z.infer<typeof VmStatus>;

export interface Vm extends KubeObject {
  metadata: NamespacedMeta;
  spec: VmSpec;
  status?: VmStatus;
}
