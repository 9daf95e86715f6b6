import { z } from 'zod';
import type { KubeObject, NamespacedMeta } from './object.ts';
import { Affinity, LabelValue, TaintKey, TopologySpreadConstraints } from './affinity.ts';
import { Conditions, ObservedGeneration } from './condition.ts';
import { limits } from './meta.ts';
import { PortMappings } from './ports.ts';
import { SizeQuantity } from './quantity.ts';
import { exactlyOneOf, type Rule, rules } from './rule.ts';

export const Architecture = z.enum(['amd64', 'arm64']);
export type Architecture = z.infer<typeof Architecture>;

/** One part of a DNS name (RFC 1123). */
export const DnsLabel = z
  .string()
  .min(1)
  .max(63)
  .regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/);

/** Name of a PriorityClass: an RFC 1123 subdomain. Those of `system-` are for parts of the cluster, which no tenant's VM is. */
const PriorityClassName = z
  .string()
  .min(1)
  .max(253)
  .regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/)
  .meta(
    rules([
      {
        rule: "!self.startsWith('system-')",
        message: 'classes whose name begins with system- are for parts of the cluster',
        reason: 'FieldValueForbidden',
      },
    ]),
  );

/** A setting that inherits where it is unset. */
export const Switch = z.enum(['Enabled', 'Disabled']);
export type Switch = z.infer<typeof Switch>;

/** Without the rules, for what svc3 writes itself. */
const toleration = z.object({
  key: TaintKey.optional().describe('Taint key; empty with operator Exists matches all taints.'),
  operator: z
    .enum(['Exists', 'Equal'])
    .optional()
    .describe('How key and value are compared; unset means Equal.'),
  value: LabelValue.optional().describe('Taint value that is matched with operator Equal.'),
  effect: z
    .enum(['NoSchedule', 'PreferNoSchedule', 'NoExecute'])
    .optional()
    .describe('Taint effect that is matched; unset matches all.'),
  tolerationSeconds: z
    .int()
    .min(0)
    .max(31_536_000)
    .meta({ format: 'int64' })
    .optional()
    .describe('How long a NoExecute taint is tolerated, in seconds; unset means for ever.'),
});

/** As kube-apiserver has it of a pod, so that no pod is refused for what its VM says. */
export const Toleration = toleration.meta(
  rules([
    {
      rule: "(has(self.key) && self.key != '') || (has(self.operator) && self.operator == 'Exists')",
      message: 'a toleration without a key needs operator Exists',
      fieldPath: '.operator',
    },
    {
      rule: "!has(self.value) || self.value == '' || !has(self.operator) || self.operator == 'Equal'",
      message: 'operator Exists takes no value',
      fieldPath: '.value',
    },
    {
      rule: "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
      message: 'tolerationSeconds needs effect NoExecute',
      fieldPath: '.tolerationSeconds',
    },
  ]),
);
export type Toleration = z.infer<typeof Toleration>;

const tolerationsOf = <T extends z.ZodType>(item: T) =>
  z
    .array(item)
    .max(32)
    .meta({ 'x-kubernetes-list-type': 'atomic' })
    .describe('Taints of nodes that the VM tolerates.');

/** Among the settings in force. */
export const effectiveTolerations = tolerationsOf(toleration);

/** No control characters but tab and line breaks: JSON writes each of the others as six bytes. */
// oxlint-disable-next-line no-control-regex -- control characters are what it refuses
const printable = /^[^\x00-\x08\x0B\x0C\x0E-\x1F]*$/;
// oxlint-disable-next-line no-control-regex -- control characters are what it refuses
const printableLine = /^[^\x00-\x08\x0A-\x1F]+$/;

export const GuestMetadata = z.object({
  name: z
    .string()
    .min(1)
    .max(128)
    .regex(/^[A-Za-z0-9_.-]+$/)
    .describe('Name the guest finds the value under.'),
  value: z
    .string()
    .max(4096)
    .regex(printable)
    .describe('Value as text, without control characters other than tabs and line breaks.'),
});
export type GuestMetadata = z.infer<typeof GuestMetadata>;

export const Display = z.object({
  width: z
    .int()
    .min(320)
    .max(7680)
    .meta({ format: 'int32' })
    .optional()
    .describe('Width of the screen in pixels; 1280 where nothing is said.'),
  height: z
    .int()
    .min(200)
    .max(4320)
    .meta({ format: 'int32' })
    .optional()
    .describe('Height of the screen in pixels; 800 where nothing is said.'),
  dpi: z
    .int()
    .min(36)
    .max(600)
    .meta({ format: 'int32' })
    .optional()
    .describe('Dots per inch; stored without effect, since screens of QEMU report none.'),
});
export type Display = z.infer<typeof Display>;

/** The warning of a VM for which `display.dpi` is said, in `status.warnings` and of the API. */
export const dpiHasNoEffect = 'display.dpi has no effect: screens of QEMU report no dots per inch';

export const diskSettings = {
  storage: z
    .enum(['Ephemeral', 'Persistent'])
    .optional()
    .describe(
      'Where changes to the disk live. Ephemeral (the default) goes with the pod and survives restarts of its container; Persistent is a PersistentVolumeClaim and survives drain, reboot and re-placement.',
    ),
  storageClassName: z
    .string()
    .min(1)
    .max(253)
    .optional()
    .describe(
      "StorageClass of a Persistent disk; unset means the installation's, else the cluster's default.",
    ),
  whenDeleted: z
    .enum(['Retain', 'Delete'])
    .optional()
    .describe(
      "What becomes of a Persistent disk when its VM is deleted. Retain (the default): its PersistentVolumeClaim stays, nobody's, until somebody deletes it or a VM names it as disk.claimName. Delete: it goes with the VM.",
    ),
  size: SizeQuantity(
    'size',
    limits.diskSize,
    "Virtual size of the disk, e.g. 40Gi; unset means the image's own size, less than that is refused. It can only grow.",
  ).optional(),
} as const;

export const diskRules: readonly Rule[] = [
  {
    rule: "!has(self.storageClassName) || !has(self.storage) || self.storage == 'Persistent'",
    message: 'storageClassName needs storage Persistent',
    fieldPath: '.storageClassName',
  },
  {
    rule: "!has(self.whenDeleted) || !has(self.storage) || self.storage == 'Persistent'",
    message: 'whenDeleted needs storage Persistent',
    fieldPath: '.whenDeleted',
  },
];

export const Disk = z.object(diskSettings).meta(rules(diskRules));
export type Disk = z.infer<typeof Disk>;

const guestPort = z.int().min(1).max(65535).meta({ format: 'int32' }).describe('Port inside the guest.');

/** Without the rule, for what svc3 writes itself. */
export const readinessSettings = z.object({
  tcp: z
    .object({ port: guestPort })
    .optional()
    .describe('The guest is ready while it takes connections at this port.'),
  http: z
    .object({
      port: guestPort,
      path: z
        .string()
        .min(1)
        .max(1024)
        .regex(/^\/[!-~]*$/)
        .default('/')
        .describe('Path of the page, with its query.'),
    })
    .optional()
    .describe('The guest is ready while this page answers with a status from 200 to 399.'),
  guestAgent: z.object({}).optional().describe('The guest is ready once the QEMU guest agent has answered.'),
  none: z.object({}).optional().describe('The guest is ready when QEMU runs.'),
});

export const Readiness = readinessSettings.meta(rules([exactlyOneOf(['tcp', 'http', 'guestAgent', 'none'])]));
export type Readiness = z.infer<typeof Readiness>;

/** Services of a VM that get a port of the node by themselves, each from its own range (chart value `portRanges`). */
export const NodePorts = z.object({
  ssh: Switch.optional().describe(
    'Whether SSH of the guest is a port of the node as well (status.ports.ssh).',
  ),
  screenshare: Switch.optional().describe(
    'Whether screen sharing of the guest is a port of the node as well (status.ports.screenshare).',
  ),
});
export type NodePorts = z.infer<typeof NodePorts>;

/** Lists that the guest gets, without the bounds of their sums: what svc3 writes itself keeps to them already. */
export const guestLists = {
  metadata: z
    .array(GuestMetadata)
    .max(64)
    .meta({ 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['name'] })
    .describe('Values that the guest reads through cloud-init.'),
  sshAuthorizedKeys: z
    .array(z.string().min(1).max(8192).regex(printableLine).describe('One line as in authorized_keys.'))
    .max(64)
    .meta({ 'x-kubernetes-list-type': 'atomic' })
    .describe("Public SSH keys for the guest's default user, through cloud-init."),
} as const;

/** Only the kubelet reads the Secret: it mounts this one key of it into the VM's pod. */
export const UserData = z.object({
  secretName: z
    .string()
    .min(1)
    .max(253)
    .regex(/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/)
    .describe(
      'Name of a Secret in the namespace of the VM. Its key `userData` is what cloud-init gets as user-data.',
    ),
});

/** CEL for the bytes of a text as JSON: a quote, a backslash, a line break or a tab takes two, the rest as in UTF-8. */
const jsonBytes = (text: string) =>
  `2 * size(bytes(${text})) - size(bytes(${text}${['\\"', '\\\\', '\\n', '\\r', '\\t'].map((each) => `.replace("${each}", "")`).join('')}))`;

/** A list that has so many bytes at most as JSON; `bytes` is CEL for those of its item `one`. */
function boundedSum<T extends z.ZodType>(list: T, most: number, bytes: string, message: string): T {
  const rule = `self.map(one, ${bytes}).sum() <= ${most}`;
  return list.meta({ ...list.meta(), ...rules([{ rule, message }]) });
}

/**
 * What VM and VMConfig have in common. Everything is optional: the VM's own field wins, then its VMConfig's, then the
 * default that the description names.
 */
export const vmSettings = {
  image: z
    .string()
    .min(1)
    .max(512)
    .regex(/^([a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?|[^\s/]+\/\S+)$/)
    .optional()
    .describe(
      'Disk image. With a slash it is an OCI reference such as registry.example.com/team/debian:12; without one it is the name of an Image in this namespace.',
    ),
  architecture: Architecture.optional().describe("Architecture of the guest; unset means the image's."),
  cpu: z
    .int()
    .min(limits.cpu.min)
    .max(limits.cpu.max)
    .meta({ format: 'int32' })
    .optional()
    .describe(
      'Number of virtual CPUs. Where nothing is said as many as the guest had whose memory the image holds, else 3.',
    ),
  memory: SizeQuantity(
    'memory',
    limits.memory,
    'Memory of the guest, e.g. 4Gi. Where nothing is said as much as the guest had whose memory the image holds, with as many CPUs, else 2.5Gi for each cpu.',
  ).optional(),
  gpuPassthrough: Switch.optional().describe(
    "Whether the VM gets the node's GPU. On arm64 it is always on. On amd64 it is off where nothing is said, it needs a node enabled for it, and it turns the VNC console off.",
  ),
  vncConsole: Switch.optional().describe(
    'Whether the screen of the VM can be seen through the console; on where nothing is said, off on amd64 with GPU passthrough.',
  ),
  nodeName: z
    .string()
    .min(1)
    .max(253)
    .regex(/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/)
    .optional()
    .describe('The one node the VM may run on; unset means any node that fits.'),
  tag: z
    .string()
    .min(1)
    .max(63)
    .regex(/^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$/)
    .optional()
    .describe('Tag of the nodes to prefer (node label tag.svc3.dev/<tag>=true).'),
  tagRequired: z
    .boolean()
    .optional()
    .describe('Whether only nodes with the tag are taken; false where nothing is said.'),
  scheduler: z
    .enum(['Spread', 'Pack'])
    .optional()
    .describe('Spread (the default) takes the emptiest node that fits, Pack the fullest.'),
  priorityClassName: PriorityClassName.optional().describe(
    "PriorityClass of the VM's pod; where nothing is said, what the installation says (chart value runner.priorityClassName).",
  ),
  ports: PortMappings.optional(),
  subdomain: DnsLabel.optional().describe(
    'Name of a headless Service of the namespace that selects the VM: the cluster DNS then has the VM as <hostname>.<subdomain>.<namespace>.svc.<cluster domain>.',
  ),
  nodePorts: NodePorts.optional().describe(
    "Which services get a port of the node by themselves; where nothing is said, what the installation says (chart value nodePorts). SSH and screen sharing are open on the pod's IP in any case.",
  ),
  iso: z
    .string()
    .max(512)
    .regex(/^([a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?|[^\s/]+\/\S+)?$/)
    .optional()
    .describe(
      'Install medium in the CD drive: the name of an ISO in this namespace or an OCI reference; empty for none, whatever the configuration names. Emptied on a VM that runs, it takes the medium out.',
    ),
  metadata: boundedSum(
    guestLists.metadata,
    limits.metadataBytes,
    `${JSON.stringify({ name: '', value: '' }).length} + 1 + size(one.name) + ${jsonBytes('one.value')}`,
    `metadata is too large: as JSON it has at most ${limits.metadataBytes} bytes`,
  ).optional(),
  sshAuthorizedKeys: boundedSum(
    guestLists.sshAuthorizedKeys,
    limits.sshAuthorizedKeysBytes,
    `3 + ${jsonBytes('one')}`,
    `sshAuthorizedKeys is too large: as JSON it has at most ${limits.sshAuthorizedKeysBytes} bytes`,
  ).optional(),
  userData: UserData.optional().describe(
    'User data for cloud-init of the guest, from a Secret of the namespace of the VM.',
  ),
  systemSerial: z
    .string()
    .min(1)
    .max(64)
    .regex(/^[ -~]+$/)
    .optional()
    .describe('Serial number of the machine that the guest sees (SMBIOS).'),
  display: Display.optional().describe('Size of the screen.'),
  netBoost: z
    .boolean()
    .optional()
    .describe('Whether the network card is virtio with all offloads; true where nothing is said.'),
  legacyIO: z
    .boolean()
    .optional()
    .describe(
      'Whether disks are emulated SATA, for guests without virtio drivers; the network card is up to netBoost.',
    ),
  startDeadlineSeconds: z
    .int()
    .min(1)
    .max(604_800)
    .meta({ format: 'int32' })
    .optional()
    .describe(
      'A VM whose guest has never run this many seconds after the operator first reported on it is deleted; unset means never.',
    ),
  readiness: Readiness.optional().describe(
    "When the VM is Ready: exactly one member. Unset means when SSH or the guest agent answers, or else when the guest has had the installation's time for it (chart value readiness.timeoutSeconds).",
  ),
  disk: Disk.optional().describe('Where changes to the disk live, and how large it is.'),
  suspendTo: z
    .enum(['Memory', 'Disk'])
    .optional()
    .describe(
      'Where the memory of the guest is while powerState is Suspended. Memory (where nothing is said): in the pod, and lost with it. Disk: on the claim of a VM with a Persistent disk, which then has no pod.',
    ),
  onEviction: z
    .enum(['Shutdown', 'Suspend'])
    .optional()
    .describe(
      'What becomes of the guest when its pod is ended, as by a drain. Shutdown (where nothing is said): it shuts down. Suspend, with a Persistent disk: its memory is written to the claim, and it goes on in the next pod.',
    ),
  tolerations: tolerationsOf(Toleration).optional(),
  affinity: Affinity.optional(),
  topologySpreadConstraints: TopologySpreadConstraints.optional(),
} as const;

export const VmConfigSpec = z
  .object(vmSettings)
  .describe('Settings that a VM takes over when it names this VMConfig.');
export type VmConfigSpec = z.infer<typeof VmConfigSpec>;

export const VmConfigStatus = z
  .object({
    observedGeneration: ObservedGeneration.optional(),
    conditions: Conditions.optional(),
    architecture: Architecture.optional().describe(
      'Architecture of the Image that it names, which its VMs have where nothing else is said; unset for a reference of a registry.',
    ),
  })
  .describe('What svc3 knows about the VMConfig.');
export type VmConfigStatus = z.infer<typeof VmConfigStatus>;

export interface VmConfig extends KubeObject {
  metadata: NamespacedMeta;
  spec: VmConfigSpec;
  status?: VmConfigStatus;
}
