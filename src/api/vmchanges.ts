import type { Rule } from './rule.ts';
import type { VmSpec } from './vm.ts';

/**
 * What a change of a field of a VM does once the VM has been placed; before that every field may change.
 * - `Live`: it is carried out at once.
 * - `NextBoot`: condition RestartRequired names it until the guest is started next, in the same pod.
 * - `Resize`: as `NextStart` with a Persistent disk. The pod of an Ephemeral one is resized, and the guest has it at its next start there.
 * - `NextStart`: condition RestartRequired names it until the guest is started next, in another pod. That takes a Persistent
 *   disk: an Ephemeral one is in the pod, so kube-apiserver refuses the change there.
 * - `Never`: kube-apiserver refuses it.
 */
type Application = 'Live' | 'NextBoot' | 'Resize' | 'NextStart' | 'Never';

type Field = keyof VmSpec;

const application: Readonly<Record<Field, Application>> = {
  config: 'Never',
  configNamespace: 'Never',
  pool: 'Never',
  image: 'Never',
  architecture: 'Never',
  hostname: 'Never',
  subdomain: 'Never',
  nodePorts: 'Never',
  cpu: 'Resize',
  memory: 'Resize',
  gpuPassthrough: 'NextStart',
  vncConsole: 'NextBoot',
  nodeName: 'NextStart',
  tag: 'NextStart',
  tagRequired: 'NextStart',
  scheduler: 'NextStart',
  priorityClassName: 'NextStart',
  ports: 'NextStart',
  iso: 'NextStart',
  metadata: 'NextBoot',
  sshAuthorizedKeys: 'NextBoot',
  userData: 'NextStart',
  systemSerial: 'NextBoot',
  display: 'NextBoot',
  netBoost: 'NextBoot',
  legacyIO: 'NextBoot',
  startDeadlineSeconds: 'Live',
  readiness: 'NextBoot',
  disk: 'Live',
  suspendTo: 'Live',
  onEviction: 'NextStart',
  disks: 'NextStart',
  tolerations: 'NextStart',
  affinity: 'NextStart',
  topologySpreadConstraints: 'NextStart',
  powerState: 'Live',
  revertRequest: 'Live',
  startRequest: 'Live',
  restartRequest: 'Live',
};

/** Of what cloud-init does once: the settings in force may say it, and the guest does not have it. */
export const onceInLife = {
  sshAuthorizedKeys:
    'The seed has them at the next start; cloud-init puts keys into a guest once in the life of a VM, and again after a revert: a key that is taken out here stays in the guest until it is deleted there.',
  userData: 'cloud-init runs most of it once in the life of a VM, and again after a revert.',
} as const satisfies Partial<Record<Field, string>>;

const unset = (meaning: string) => `Unset it means ${meaning}; with a config or pool it cannot be unset.`;

/** What of a field does not follow from its `Application`. */
const notes: Partial<Record<Field, string>> = {
  cpu: 'An Ephemeral VM whose node lacks what is asked for keeps the old value: condition RestartRequired says `ResizeRefused`.',
  memory: 'As cpu. Stays as it is where only cpu changes.',
  ports: 'Mappings with nodePort; those without come and go at once.',
  iso: 'Emptied, the medium is taken out at once, with any disk; where nothing has started in the pod yet, by another pod.',
  ...onceInLife,
  display:
    'A screen of more than 2,097,152 pixels takes a larger pod on x86, with any disk; where its node lacks the room, as cpu.',
  startDeadlineSeconds: `${unset('none')} The longest is 604800, a week.`,
  suspendTo: unset('Memory'),
  disk: 'size grows at once, whenDeleted is read when the VM is deleted: unset it means Retain, with a config it cannot be unset. Of an Ephemeral disk it is refused; there it can only be unset, without a config. storage, storageClassName and claimName never change, and size never shrinks, whoever gave it: VM, VMConfig or image.',
  disks:
    'A disk that is taken out keeps its claim. Of one that stays size may grow; whenDeleted may change at once, with any disk.',
};

const fields = Object.keys(application) as Field[];

/** Fields whose changes the guest has from its next start, without another pod. */
const nextBootFields = fieldsThatApply('NextBoot');

/** Fields whose changes need a pod of another size. */
const resizeFields = fieldsThatApply('Resize');

/** Fields whose changes need another pod, whatever the disk. */
const nextStartFields = fieldsThatApply('NextStart');

/** Fields whose changes wait for the guest's next start. */
export const waitingFields = fieldsThatApply('NextStart', 'Resize', 'NextBoot');

/** Fields that say where the pod may be, and nothing of its guest: a memory that the guest goes on from fits any of them. */
export const placementFields = [
  'nodeName',
  'tag',
  'tagRequired',
  'scheduler',
  'priorityClassName',
  'tolerations',
  'affinity',
  'topologySpreadConstraints',
] as const satisfies readonly Field[];

function fieldsThatApply(...when: Application[]): readonly Field[] {
  return fields.filter((field) => when.includes(application[field]));
}

/** Whether the pod has to be of another size before a change of this field comes into force there. */
export function isOfSize(field: string): boolean {
  return resizeFields.some((each) => each === field);
}

/** Whether a change of this field needs another pod. */
export function needsAnotherPod(
  field: string,
  { isPersistent }: { readonly isPersistent: boolean },
): boolean {
  return isOfSize(field) ? isPersistent : nextStartFields.some((each) => each === field);
}

const unplaced = '!has(oldSelf.status) || !has(oldSelf.status.effective)';
const inForce = 'oldSelf.status.effective';
const disk = `${inForce}.disk`;
const isPersistent = `has(${disk}) && has(${disk}.storage) && ${disk}.storage == 'Persistent'`;

/** CEL for the mappings that take a port of the node: that is the pod's, and only another pod has another. */
const nodePorts = (settings: string) =>
  `(has(${settings}.ports) ? ${settings}.ports.filter(port, has(port.nodePort)) : [])`;

/** CEL for what the pod has of data disks. What becomes of them is no matter of the pod; the rest never changes. */
const dataDisks = (settings: string) =>
  `(has(${settings}.disks) ? ${settings}.disks.map(disk, [disk.name, has(disk.size) ? disk.size : '']) : [])`;

/**
 * CEL: a field is as it is in other settings, and where they have none it is unset. For CEL a member of the spec and that of the settings in force are
 * of different types unless one is `dyn`. That one is on the left: with members that its schema does not name (`effectiveAffinity`) it is compared by
 * what it holds, and on the right by what its schema names.
 */
function same(field: Field, settings: string): string {
  if (field === 'ports') return `dyn(${nodePorts(settings)}) == ${nodePorts('self.spec')}`;
  if (field === 'disks') return `${dataDisks(settings)} == ${dataDisks('self.spec')}`;
  const [now, other] = [`self.spec.${field}`, `${settings}.${field}`];
  return `has(${now}) == has(${other}) && (!has(${now}) || dyn(${other}) == ${now})`;
}

function nextStartRule(field: Field): Rule {
  return {
    rule: `(${same(field, 'oldSelf.spec')}) || ${unplaced} || (${isPersistent} && has(self.spec.${field})) || (${same(field, inForce)})`,
    message: `${field} cannot change once the VM has been placed, unless its disk is Persistent, and cannot be unset then; delete the VM and deploy it again`,
    fieldPath: `.spec.${field}`,
    reason: 'FieldValueForbidden',
  };
}

function setRule(field: Field): Rule {
  return {
    rule: `has(self.spec.${field}) || !has(oldSelf.spec.${field}) || ${unplaced}`,
    message: `${field} cannot be unset once the VM has been placed; give a value`,
    fieldPath: `.spec.${field}`,
    reason: 'FieldValueForbidden',
  };
}

/** CEL: what the VM does not say was read elsewhere when it was placed, and what that was before the VM said it nobody knows. */
const hasTemplate = 'has(self.spec.config) || has(self.spec.pool)';

/** Without a template the spec alone says what applies at once, so that it can be unset there. */
function saidRule(field: Field, advice: string): Rule {
  return {
    rule: `has(self.spec.${field}) || !has(oldSelf.spec.${field}) || !(${hasTemplate}) || ${unplaced}`,
    message: `${field} of a VM with a config or pool cannot be unset once the VM has been placed; ${advice}`,
    fieldPath: `.spec.${field}`,
    reason: 'FieldValueForbidden',
  };
}

const saysWhenDeleted = (of: string) => `has(${of}.spec.disk) && has(${of}.spec.disk.whenDeleted)`;

/** Of an Ephemeral disk the rule below says it. */
const whenDeletedRule: Rule = {
  rule: `(${saysWhenDeleted('self')}) || !(${saysWhenDeleted('oldSelf')}) || !(${hasTemplate}) || ${unplaced} || !(${isPersistent})`,
  message: 'disk.whenDeleted of a VM with a config cannot be unset once the VM has been placed; say Retain',
  fieldPath: '.spec.disk.whenDeleted',
  reason: 'FieldValueForbidden',
};

const whenDeleted = (of: string) => `(${saysWhenDeleted(of)} ? ${of}.spec.disk.whenDeleted : '')`;

/** Nothing of such a disk is left to keep. What was said of it before it was placed can be taken out, so that nobody is warned of it any more. */
const ephemeralRule: Rule = {
  rule: `${whenDeleted('self')} == ${whenDeleted('oldSelf')} || ${unplaced} || ${isPersistent} || (${whenDeleted('self')} == '' && !(${hasTemplate}))`,
  message:
    'disk.whenDeleted cannot change once the VM has been placed, unless its disk is Persistent: an Ephemeral one goes with its pod; delete the VM and deploy it again',
  fieldPath: '.spec.disk.whenDeleted',
  reason: 'FieldValueForbidden',
};

/** Members of a screen that are unset would stay: settings of a VM are merged member by member. */
const displayRule: Rule = {
  rule: `${unplaced} || !has(self.spec.display) || !has(oldSelf.spec.display) || (${['width', 'height', 'dpi']
    .map((member) => `(has(self.spec.display.${member}) || !has(oldSelf.spec.display.${member}))`)
    .join(' && ')})`,
  message: 'width, height and dpi of display cannot be unset once the VM has been placed; give a value',
  fieldPath: '.spec.display',
  reason: 'FieldValueForbidden',
};

/** The medium of a placed VM as CEL: its own, none, or the VMConfig's. */
const medium = (of: string) =>
  `(has(${of}.spec.iso) ? ${of}.spec.iso : (has(${of}.spec.config) || has(${of}.spec.pool) ? '*' : ''))`;

/** To take a medium out needs no other pod. */
const isoRule: Rule = {
  rule: `${unplaced} || ${medium('self')} == '' || ${medium('self')} == ${medium('oldSelf')} || (has(self.spec.iso) && (${isPersistent} || (has(${inForce}.isoName) && self.spec.iso == ${inForce}.isoName)))`,
  message:
    'iso of a VM that has been placed can only be emptied, which takes the medium out, unless its disk is Persistent; delete the VM and deploy it again',
  fieldPath: '.spec.iso',
  reason: 'FieldValueForbidden',
};

/** CEL: whether there is a size, and what it is. */
const saysSize = (path: string) => `has(${path}) && has(${path}.size)`;
const sizeOf = (path: string) => `quantity(${path}.size)`;

/** The size that the disk has, or is to have from the VMConfig: nothing of it is given back for a smaller one that the VM says itself. */
const hasBefore = `(has(oldSelf.status.diskSize) ? oldSelf.status.diskSize : (${saysSize(disk)} ? ${disk}.size : '0'))`;

/** One that is less than the spec said before is refused at the field itself. */
const sizeRule: Rule = {
  rule: `!(${saysSize('self.spec.disk')}) || (${saysSize('oldSelf.spec.disk')} && ${sizeOf('self.spec.disk')}.compareTo(${sizeOf('oldSelf.spec.disk')}) <= 0) || ${unplaced} || ${sizeOf('self.spec.disk')}.compareTo(quantity(${hasBefore})) >= 0`,
  message: 'disk.size can only grow',
  fieldPath: '.spec.disk.size',
};

/** Rules of the whole object: what may change depends on where the VM's disk is, which its status says. */
export const changeRules: readonly Rule[] = [
  ...nextStartFields.filter((field) => field !== 'iso').map(nextStartRule),
  ...[...resizeFields, ...nextBootFields].map(setRule),
  saidRule('startDeadlineSeconds', 'give a value, of which 604800 is the longest'),
  saidRule('suspendTo', 'say Memory'),
  whenDeletedRule,
  ephemeralRule,
  displayRule,
  isoRule,
  sizeRule,
];

const words: Readonly<Record<Application, string>> = {
  Live: 'at once',
  NextBoot: 'at the next start',
  Resize:
    'at the next start; Persistent disk: in another pod, Ephemeral: in the same pod, which is resized before',
  NextStart: 'Persistent disk: at the next start, in another pod; Ephemeral: refused',
  Never: 'refused',
};

/** docs/vmchanges.md. */
export function vmChangesPage(): string {
  const rows = fields.map((field) => `| ${field} | ${words[application[field]]} | ${notes[field] ?? ''} |`);
  return `# Changes of a VM

Generated by \`npm run generate\` from \`src/api/vmchanges.ts\`. Until a VM is placed (\`status.effective\` is unset) every field may change that is not
simply refused; only a disk is never made smaller, and \`ports\` of a VM with a config are not left out again. Afterwards no change is accepted and ignored: it is carried out at once, it waits for the guest's next start, or
kube-apiserver refuses it and says what to do. \`svc3 vm set\` and [\`PATCH NS/vms/{vm}\`](http.md#changing-a-vm) change what they name, and say what
applies now and what waits; \`svc3 vm resize\` grows the disk.

While changes wait, condition \`RestartRequired\` is True and names their fields. They come into force when the guest is started by
[\`svc3 vm restart\`](power.md) or \`start\`, and whenever the VM gets a new pod, unless its guest goes on from its memory there ([power](power.md)). Some need another pod: a Persistent VM gets one when it is started then, on a node that
fits the new settings; else it goes back to the node that it was on, and so it does where they send it to another one that its volume cannot follow to. A guest that reboots, or is started again after a crash, keeps the old ones. The disk of an Ephemeral VM is in its pod, which
is never replaced for a change, a stop or a restart. What was changed while the VM was being placed may be given back what \`status.effective\` has, or be unset where that has none.

A field that applies at the next start, but \`iso\`, cannot be unset once the VM is placed: give it another value, a list an empty one. So \`tag\`, \`nodeName\`,
\`priorityClassName\`, \`userData\`, \`readiness\` and \`systemSerial\`, of which no value means none, can be exchanged where the table says so, and never taken out; who wants that deletes the VM and deploys it again.

| field of spec | a change applies | |
|---|---|---|
${rows.join('\n')}
`;
}
