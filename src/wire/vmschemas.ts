import * as z from 'zod';
import { DataDisks } from '../api/datadisk.ts';
import { VmDisk } from '../api/vm.ts';
import { VmUsage } from '../api/vmusage.ts';
import { Standby } from '../api/vmpool.ts';
import { kindSettings } from './kindsettings.ts';
import { configName, imageName, imageReference, label, poolName, subdomain, tag, vmName } from './names.ts';
import { powerCommands, vmStates } from './powercommands.ts';
import type { ReadonlyDeep } from './readonly.ts';
import { acceptedRequest, description, itemUid, meantUid, size } from './schemas.ts';

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
    .union([z.string().max(65_536), z.record(z.string().max(128), z.string().max(4096))], {
      error: 'must be "name=value,name=value", or an object of texts with at most 4096 characters each',
    })
    .optional()
    .describe('"name=value,name=value" or an object.'),
  subdomain: label.optional(),
  sshNodePort: z.boolean().optional().describe('Absent: inherited, else as the installation says.'),
  screenshareNodePort: z.boolean().optional().describe('Absent: inherited, else as the installation says.'),
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
  ...kindSettings,
} as const;

export const deployBody = z
  .object({
    name: z
      .union([vmName, z.literal('')])
      .optional()
      .describe('Absent: vm- and 5 characters.'),
    shouldGenerateName: z.boolean().optional().describe('true: name is a prefix.'),
    vmConfig: configName.optional(),
    pool: poolName
      .optional()
      .describe(
        'VMPool of the namespace whose guest the VM gets; it excludes all settings but customVMMetadata, sshAuthorizedKeys and timeout.',
      ),
    vmConfigNamespace: label
      .optional()
      .describe('Absent: that of the VM, else the default one, where the caller may get the VMConfig there.'),
    ...settings,
    disk: VmDisk.optional().describe(settings.disk.description ?? ''),
    diskStorage: z
      .enum(['ephemeral', 'persistent'])
      .optional()
      .describe('Another name of disk.storage: whether the disk goes with the pod, or stays in a claim.'),
    diskSize: z
      .union([size, z.number().positive().max(65_536)])
      .optional()
      .describe('Another name of disk.size: a size such as 40Gi, or a number of GiB.'),
    disks: DataDisks.optional(),
    node: z.union([subdomain, z.literal('')]).optional(),
    hostname: label.optional().describe('Absent: the name of the VM.'),
    reservedPorts: z
      .string()
      .max(1024)
      .optional()
      .describe(
        "[NODE:]VM[,[NODE:]VM], each with an optional /tcp or /udp. Without NODE the VM's port is open on the IP of its pod.",
      ),
    timeout: z
      .int()
      .min(1)
      .max(10_080)
      .optional()
      .describe(
        'Minutes from the first status that svc3 writes of the VM until it must run, else it is deleted; default 10, whatever its VMConfig or pool says. With wait=false, as from the web page, what these say, else none.',
      ),
  })
  .meta({ id: 'DeployRequest' });

const { name: _name, shouldGenerateName: _shouldGenerateName, ...changes } = deployBody.shape;
export const vmChangeBody = z
  .object({
    ...changes,
    memory: memory.optional().describe('GiB; 0 or absent: stays as it is.'),
    gpuPassthrough: changes.gpuPassthrough.describe('Absent: stays as it is.'),
    vncConsole: changes.vncConsole.describe('Absent: stays as it is.'),
    timeout: changes.timeout.describe(
      'Minutes from the first status that svc3 writes of the VM until it must run, else it is deleted.',
    ),
  })
  .meta({
    id: 'VMChangeRequest',
    description:
      'What is absent stays. Lists, readiness and affinity are replaced as a whole; an empty tag, scheduler, systemSerial or node takes out what was said as long as the VM has not been placed; after that at most another value can be given. vmConfig, vmConfigNamespace, pool, image, architecture, hostname, subdomain, sshNodePort, screenshareNodePort and where the disk is never change: a value that its spec does not have already is refused, and so are a size of the disk, which svc3 vm resize grows, and a port mapping that cannot be had.',
  });

/** What only configurations and pools say, in these words. */
const ofTemplates = {
  nodeName: z.union([subdomain, z.literal('')]).optional(),
  type: z.enum(['amd64', 'arm64']).optional().describe('The same as architecture.'),
} as const;

export const vmConfigBody = z
  .object({
    name: configName,
    ...settings,
    image: imageReference,
    ...ofTemplates,
  })
  .meta({ id: 'VMConfigRequest' });

const {
  subdomain: _subdomain,
  suspendTo: _suspendTo,
  onEviction: _onEviction,
  ...templateSettings
} = settings;
const minIdle = z.int().min(0).max(500);
const maxSize = z.int().min(0).max(1000);

export const vmPoolBody = z
  .object({
    name: poolName,
    minIdle: minIdle.optional().describe('Booted guests that wait for VMs; default 1.'),
    maxSize: maxSize.optional().describe('Waiting guests and VMs of the pool together; absent: no bound.'),
    standby: Standby.optional().describe(
      'Suspended (the default): a waiting guest is paused. Running: it runs on.',
    ),
    serveConfig: z
      .boolean()
      .optional()
      .describe('Whether VMs that name vmConfig, and ask for nothing else, get guests of the pool as well.'),
    vmConfig: configName.optional().describe('VMConfig of the namespace with what is not said here.'),
    ...templateSettings,
    ...ofTemplates,
  })
  .meta({ id: 'VMPoolRequest' });

export const vmPoolScaleBody = z
  .object({
    minIdle,
    maxSize: maxSize.optional().describe('Absent: stays as it is.'),
  })
  .meta({ id: 'VMPoolScaleRequest' });

const meantVm = { uid: meantUid } as const;
export const execBody = z.object({ command: z.enum(powerCommands), ...meantVm }).meta({ id: 'ExecRequest' });
export const ejectBody = z.object(meantVm).meta({ id: 'EjectRequest' }).optional();
export const saveBody = z
  .object({
    imageName,
    description: description.optional(),
    ...meantVm,
    memory: z
      .boolean()
      .optional()
      .describe(
        'With the memory of the guest, which has to run: VMs deployed from the image go on where it was.',
      ),
  })
  .meta({ id: 'SaveRequest' });
export const commitBody = z
  .object({ description: description.optional(), ...meantVm })
  .meta({ id: 'CommitRequest' })
  .optional();

const vmState = z.enum(vmStates);
const pool = z.string().optional().describe('The VMPool that it names.');
const howItRuns = {
  reachable: z
    .boolean()
    .optional()
    .describe('Whether it runs and its guest answers what readiness asks, or has had its time for it.'),
  startedFrom: z
    .enum(['image', 'memory'])
    .optional()
    .describe('memory: its guest went on from a saved memory; image: it booted. Absent while it never has.'),
} as const;
export const vmItem = z
  .object({
    name: z.string(),
    namespace: z.string(),
    uid: itemUid,
    node: z.string().optional(),
    ip: z.string().optional(),
    cpu: z.int(),
    memory: z.string(),
    image: z.string().optional(),
    iso: z.string().optional().describe('The install medium in its CD drive.'),
    vmConfig: z.string().optional(),
    pool,
    vmConfigNamespace: z.string().optional().describe('Where it is another than namespace.'),
    gpuPassthrough: z.boolean(),
    vncConsole: z.boolean(),
    ssh: z.int(),
    vnc: z.int().optional(),
    screenshare: z.int().optional(),
    ports: z
      .array(z.object({ nodePort: z.int().optional(), guestPort: z.int(), protocol: z.enum(['TCP', 'UDP']) }))
      .optional()
      .describe("Mappings that are in force; without nodePort the VM's port is open on the IP of its pod."),
    deployDate: z.string().optional(),
    owner: z.string().optional(),
    architecture: z.string().optional(),
    status: vmState,
    ...howItRuns,
    message: z.string().optional(),
    restartRequired: z
      .string()
      .optional()
      .describe('Which changes wait for the next start of its guest, and why. Absent where none does.'),
    commands: z
      .array(z.enum(powerCommands))
      .optional()
      .describe('What exec does something for now. Absent where that is none, as while it is being deleted.'),
    saves: z
      .array(z.enum(['Disk', 'Memory', 'Commit']))
      .optional()
      .describe(
        'What can be asked for now: Disk, a save; Memory, a save with the memory of its guest; Commit, a commit to the Image that it runs from. Absent where nothing can.',
      ),
    deletes: z
      .array(z.string())
      .optional()
      .describe(
        'Disks on PersistentVolumeClaims that go with the VM when it is deleted: disk, the one that it boots from; disks[NAME], a data disk. Absent where none does.',
      ),
    suspendedTo: z
      .enum(['Memory', 'Disk'])
      .optional()
      .describe('Where the memory of a suspended guest is; Disk stays until the guest goes on.'),
    mayBeSuspended: z
      .boolean()
      .optional()
      .describe(
        'true: others have ended its pod, and its guest may have left its memory on the disk then; a deletion keeps that disk as it is.',
      ),
    guestStopped: z
      .boolean()
      .optional()
      .describe(
        'true: its guest has shut itself down, and a stop is taken, so that nothing that comes later starts it.',
      ),
    request: acceptedRequest
      .optional()
      .describe(
        'In a reply (202) to PATCH alone: for ?request= of GET, whose outcome says what has become of it.',
      ),
    outcome: z
      .object({
        state: z
          .enum(['UnderWay', 'Done', 'Refused'])
          .describe(
            'Done: carried out, or, of a change, looked at by the operator. Refused: nothing comes of it any more.',
          ),
        message: z.string().optional().describe('Why it is refused.'),
      })
      .optional()
      .describe('With ?request=: what has become of that.'),
  })
  .meta({ id: 'VM' });
export const deployReply = z
  .object({
    name: z.string(),
    uid: itemUid,
    node: z.string().optional(),
    memory: z.string(),
    ip: z.string().optional(),
    ssh: z.int(),
    vnc: z.int().optional(),
    screenshare: z.int().optional(),
    status: vmState,
    ...howItRuns,
    pool,
    message: z.string().optional(),
    portWarnings: z.string().optional(),
  })
  .meta({ id: 'DeployReply' });
const shownSettings = {
  image: z.string().optional(),
  type: z
    .string()
    .optional()
    .describe('Architecture of the guests: as said, else that of the Image that a VM configuration names.'),
  cpu: z.int().optional(),
  memory: z.number().optional(),
  gpuPassthrough: z.boolean().optional(),
  vncConsole: z.boolean().optional(),
  scheduler: z.enum(['default', 'most-allocated']).optional(),
  tag: z.string().optional(),
  tagRequired: z.boolean().optional(),
  priorityClassName: kindSettings.priorityClassName,
  iso: z.string().optional(),
  systemSerial: z.string().optional(),
  subdomain: z.string().optional(),
  sshNodePort: z.boolean().optional(),
  screenshareNodePort: z.boolean().optional(),
  netBoost: z.boolean().optional(),
  legacyIO: z.boolean().optional(),
  nodeName: z.string().optional(),
  displayWidth: z.int().optional(),
  displayHeight: z.int().optional(),
  displayDPI: z.int().optional(),
  customVMMetadata: z.record(z.string(), z.string()).optional(),
  sshAuthorizedKeys: z.array(z.string()).optional(),
  disk: kindSettings.disk,
  suspendTo: kindSettings.suspendTo,
  onEviction: kindSettings.onEviction,
  readiness: kindSettings.readiness,
  tolerations: kindSettings.tolerations,
  affinity: kindSettings.affinity,
  topologySpreadConstraints: kindSettings.topologySpreadConstraints,
  userData: kindSettings.userData,
} as const;
const objectState = z.enum(['Ready', 'Updating', 'Failed']).optional();
export const vmConfigItem = z
  .object({
    name: z.string(),
    namespace: z.string(),
    uid: itemUid,
    ...shownSettings,
    state: objectState.describe(
      'Whether the Image and ISO that it names can be used; absent before the operator has written a status.',
    ),
    errorMessage: z.string().optional().describe('Why they cannot.'),
    createdAt: z.string().optional(),
  })
  .meta({ id: 'VMConfig' });

const {
  subdomain: _shownSubdomain,
  suspendTo: _shownSuspendTo,
  onEviction: _shownOnEviction,
  ...shownTemplate
} = shownSettings;
export const vmPoolItem = z
  .object({
    name: z.string(),
    namespace: z.string(),
    uid: itemUid,
    minIdle: z.int(),
    maxSize: z.int().optional(),
    standby: Standby,
    serveConfig: z.boolean(),
    idle: z.int().describe('Guests that wait for a VM.'),
    preparing: z.int().describe('Guests that are being booted.'),
    claimed: z.int().describe('VMs of the pool.'),
    vmConfig: z.string().optional(),
    ...shownTemplate,
    state: objectState.describe(
      'Ready: as many guests wait as minIdle says, or as maxSize leaves room for; absent before the operator has written a status.',
    ),
    errorMessage: z.string().optional().describe('Why fewer wait.'),
    images: z
      .array(z.string())
      .optional()
      .describe('References of the images and ISOs that its guests were made from.'),
    createdAt: z.string().optional(),
  })
  .meta({ id: 'VMPool' });

/** What conditions, placement and Events say of a VM. */
export const explanation = z
  .object({
    item: vmItem,
    conditions: z.array(
      z.object({
        type: z.string(),
        status: z.enum(['True', 'False', 'Unknown']),
        reason: z.string(),
        message: z.string(),
        lastTransitionTime: z.string(),
        observedGeneration: z.int().optional(),
      }),
    ),
    warnings: z.array(z.string()).describe('What was asked for and is not so.'),
    nodes: z
      .array(
        z.object({
          node: z.string(),
          fits: z.boolean(),
          reasons: z.array(z.string()),
          free: z.number(),
          withoutPorts: z
            .array(z.string())
            .optional()
            .describe(
              'Only where it fits: ports of the node that the VM would go without there since they are taken. It goes to a node with all ports where one fits.',
            ),
          warmStart: z
            .object({ fromMemory: z.boolean(), message: z.string() })
            .optional()
            .describe(
              'Only where there is a memory to go on from: whether the guest would on this node, else why it would boot.',
            ),
        }),
      )
      .optional()
      .describe(
        'What placement says of every node; absent for who may not see nodes and the pods of all namespaces, and where nodes=false was asked.',
      ),
    events: z
      .array(z.object({ time: z.string(), type: z.string(), reason: z.string(), message: z.string() }))
      .describe('Oldest first; none for who may not see events.'),
  })
  .meta({ id: 'VMExplanation' });

/** What a VM uses now; as its runner tells it. */
export const vmUsage = VmUsage.meta({ id: 'VMUsage' });

/** A VM as `/api/v1` and the CLI show it; absent fields are left out (contract: "VMs"). */
export type VmItem = z.output<typeof vmItem>;
/** The reply of a deploy (contract: `POST NS/vms`). */
export type DeployItem = z.output<typeof deployReply>;
/** A VMConfig as `/api/v1` and the CLI show it (contract: "VM configurations"); memory is a number of GiB. */
export type VmConfigItem = z.output<typeof vmConfigItem>;
/** A VMPool as `/api/v1` and the CLI show it: its counts, and its template in the words of a configuration. */
export type VmPoolItem = z.output<typeof vmPoolItem>;
/** Settings that a deploy and a configuration share, in the words of `/api/v1` and the CLI. */
export type SettingsRequest = z.output<z.ZodObject<typeof settings>>;
export type DeployRequest = z.output<typeof deployBody>;
/** Settings of a VM to change after its deployment. */
export type VmChangeRequest = z.output<typeof vmChangeBody>;
export type VmConfigRequest = z.output<typeof vmConfigBody>;
export type VmPoolRequest = z.output<typeof vmPoolBody>;
export type VmPoolScaleRequest = z.output<typeof vmPoolScaleBody>;
/** Why a VM is as it is. */
export type Explanation = ReadonlyDeep<z.output<typeof explanation>>;
