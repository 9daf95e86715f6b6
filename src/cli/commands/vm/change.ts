/** Changes of a VM that is there: `svc3 vm set`, `resize` and `eject`. */
import { command, type Command } from '../../command.ts';
import { notInTime, tellingFate } from '../../fate.ts';
import { kindOptions, kindSettingsOf } from '../../kindoptions.ts';
import type { ChangedVm, VmChangeRequest } from '../../service/types.ts';
import { namingOptions, ownOptions, ownSettingsOf, settingsOf, settingsOptions } from '../../settings.ts';
import { usageError } from '../../usage.ts';

/** What never changes has no option here, and the size of the disk has a command of its own. */
const {
  image: _image,
  subdomain: _subdomain,
  'ssh-node-port': _sshNodePort,
  'screenshare-node-port': _screenshareNodePort,
  ...settings
} = settingsOptions;
const {
  arch: _arch,
  storage: _storage,
  'storage-class': _storageClass,
  'disk-size': _diskSize,
  ...kindSettings
} = kindOptions;

const vmSet = command({
  path: ['vm', 'set'],
  summary: 'Change settings of a VM after its deployment',
  description:
    'It says what applies now and what waits for the next start of the guest (svc3 vm restart). Where a change needs another pod, it is refused for a VM without a persistent disk. A list that is given replaces the one before, and an empty one (--metadata=) takes out all of it; a port that cannot be had is refused. An empty --iso takes the medium out. It waits 30 seconds at most; a change at which the operator has not looked by then stays, and is a failure of the command.',
  arguments: { name: { summary: 'Name of the VM', complete: 'vms' } },
  options: {
    ...settings,
    // What nobody says stays as it is.
    memory: {
      ...settings.memory,
      summary: 'Memory: a number of GiB, or a size such as 4Gi or 512Mi',
    },
    ...ownOptions,
    ...kindSettings,
    metadata: { ...ownOptions.metadata, clearable: true },
    'ssh-key': { ...kindSettings['ssh-key'], clearable: true },
    toleration: { ...kindSettings.toleration, clearable: true },
    'no-wait': { kind: 'flag', summary: 'Return as soon as the change is accepted' },
  },
  examples: [
    { line: 'svc3 vm set build-1 -c 4 -m 8', summary: '4 CPUs and 8 GiB, from its next start on' },
    { line: 'svc3 vm set build-1 --disable-vnc=no', summary: 'Turn the VNC console on again' },
  ],
  async run({ out, namespace, service, signal, ifInterrupted }, { arguments: { name }, options }) {
    const request = {
      ...settingsOf(options),
      ...ownSettingsOf(options),
      ...(await kindSettingsOf(options)),
      ...clearedBy(options),
    };
    const fields = await namingOptions(() => fieldsOf(request));
    if (fields.length === 0) throw usageError('at least one setting is needed; see svc3 vm set --help');
    const [{ vms }, ns] = await Promise.all([service(), namespace()]);
    ifInterrupted(`no longer waiting; ${later(name)}`);
    const waiting = { wait: !options['no-wait'], signal, progress: (text: string) => out.progress(text) };
    const fate = `the change, if it was accepted, stays; ${later(name)}`;
    const changed = await namingOptions(() => tellingFate(vms.set(ns, name, request, waiting), fate));
    if (!changed.isSeen && waiting.wait)
      throw notInTime(
        `change of VM ${name} was accepted, and the operator has not looked at it yet: ${later(name)}`,
      );
    await out.done('vm', name, outcome(fields, changed));
  },
});

interface Clearable {
  readonly metadata: readonly string[] | undefined;
  readonly 'ssh-key': readonly string[] | undefined;
  readonly toleration: readonly string[] | undefined;
}

/** Of lists that are given empty nothing is to be left: absent means that they stay. */
function clearedBy({ metadata, 'ssh-key': keys, toleration }: Clearable): VmChangeRequest {
  return {
    ...(metadata?.length === 0 ? { customVMMetadata: {} } : {}),
    ...(keys?.length === 0 ? { sshAuthorizedKeys: [] } : {}),
    ...(toleration?.length === 0 ? { tolerations: [] } : {}),
  };
}

/** The fields of VM.spec that the request changes. @throws Svc3Error Invalid where it is none */
async function fieldsOf(request: VmChangeRequest): Promise<readonly string[]> {
  const [{ checked }, { vmChangeBody }, { vmChangeOf }] = await Promise.all([
    import('../../service/kubernetes/checked.ts'),
    import('../../../wire/vmschemas.ts'),
    import('../../../wire/vmchange.ts'),
  ]);
  return Object.keys(vmChangeOf(checked(vmChangeBody, request)));
}

function later(name: string): string {
  return `svc3 vm explain ${name} shows what of a change waits for its next start`;
}

/** What applies now, what waits, and what is wrong. */
function outcome(fields: readonly string[], { vm, isSeen }: ChangedVm): string {
  const { name, status, message, restartRequired } = vm;
  if (!isSeen) return `Change of vm ${name} was accepted; ${later(name)}`;
  const waiting = new Set(restartRequired?.match(/(?<=\bspec\.)[A-Za-z]+/g));
  const applied = fields.filter((field) => !waiting.has(field)).map((field) => `spec.${field}`);
  const now = `${applied.join(', ')} ${applied.length === 1 ? 'applies' : 'apply'} now`;
  // What it is Failed for may be that very change.
  const isFailed = status === 'Failed';
  const done = isFailed ? 'the change was accepted' : now;
  const failure = isFailed ? `it is Failed: ${message ?? 'see its conditions'}` : undefined;
  const parts = [applied.length === 0 ? undefined : done, restartRequired, failure];
  return `VM ${name}: ${parts.filter((part) => part !== undefined).join('; ')}`;
}

const vmResize = command({
  path: ['vm', 'resize'],
  summary: 'Grow the disk of a VM',
  description:
    'The disk only grows, in a running or a stopped VM. Where a guest agent allows it the file system of the guest grows too; the answer says what is left to do in the guest. A VM of a pool keeps the disk of its template. It waits two minutes at most; a disk that has not grown by then goes on growing, and that is a failure of the command. The disk of a VM that is suspended on it grows when the VM goes on: the command says so and waits no longer.',
  arguments: {
    name: { summary: 'Name of the VM', complete: 'vms' },
    gigabytes: { summary: 'New size in GiB' },
  },
  options: { 'no-wait': { kind: 'flag', summary: 'Return as soon as the size is accepted' } },
  examples: [{ line: 'svc3 vm resize build-1 80', summary: 'To 80 GiB' }],
  async run({ out, namespace, service, signal, ifInterrupted }, { arguments: { name, gigabytes }, options }) {
    if (!/^[1-9]\d{0,4}$/.test(gigabytes))
      throw usageError(`GIGABYTES: "${gigabytes}" is not a whole number of GiB`);
    const [{ vms }, ns] = await Promise.all([service(), namespace()]);
    const progress = (text: string) => out.progress(text);
    const waiting = { wait: !options['no-wait'], signal, progress };
    const goesOn = 'the same command says what has come of it';
    ifInterrupted(`no longer waiting; the disk of VM ${name} grows all the same: ${goesOn}`);
    const outcome = await tellingFate(
      vms.resize(ns, name, Number(gigabytes), waiting),
      `the disk of VM ${name} grows if that was accepted: ${goesOn}`,
    );
    const grows = `The disk of vm ${name} grows to ${gigabytes} GiB`;
    await out.done('vm', name, outcome === undefined ? grows : `VM ${name}: ${outcome}`);
  },
});

const vmEject = command({
  path: ['vm', 'eject'],
  summary: 'Take the install medium out of the CD drive of a VM',
  arguments: { name: { summary: 'Name of the VM', complete: 'vms' } },
  examples: [{ line: 'svc3 vm eject build-1', summary: 'After the installation' }],
  async run({ out, namespace, service }, { arguments: { name } }) {
    const [{ vms }, ns] = await Promise.all([service(), namespace()]);
    await out.done('vm', name, await vms.eject(ns, name));
  },
});

export const commands: readonly Command[] = [vmSet, vmResize, vmEject];
