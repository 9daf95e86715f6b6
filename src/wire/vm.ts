import { commitTarget } from '../api/committarget.ts';
import { memoryRefusal } from '../api/memory.ts';
import { annotations, group } from '../api/meta.ts';
import { formatGi, parseQuantity } from '../api/quantity.ts';
import { stalledInPart } from '../api/reasons.ts';
import type { Vm, VmSpec } from '../api/vm.ts';
import type { VmConfig } from '../api/vmconfig.ts';
import type { VmPool } from '../api/vmpool.ts';
import { disksThatGo } from '../api/whendeleted.ts';
import type { Condition } from '../api/object.ts';
import { Svc3Error } from '../errors.ts';
import { type PowerCommand, powerCommands, powerVerbs, type VmState } from './powercommands.ts';
import type { DeployItem, VmItem } from './vmschemas.ts';

export type { DeployItem, VmItem, VmState };

export function conditionOf(
  conditions: readonly Condition[] | undefined,
  type: string,
): Condition | undefined {
  return conditions?.find((condition) => condition.type === type);
}

function isTrue(vm: Vm, type: string): boolean {
  return conditionOf(vm.status?.conditions, type)?.status === 'True';
}

/** The one word of `/api/v1` for a VM (names: "Status of a VM"). */
export function vmState(vm: Vm): VmState {
  const observed = vm.status?.powerState;
  const stalled = conditionOf(vm.status?.conditions, 'Stalled');
  const isStalled = stalled?.status === 'True' && stalled.reason !== 'GuestStopped' && !goesOnWithout(vm);
  if (observed === 'Failed' || isStalled) return 'Failed';
  if (observed === 'Stopped' || observed === 'Suspended') return observed;
  return observed === 'Running' && isTrue(vm, 'Booted') ? 'Running' : 'Pending';
}

/** Whether the VM is stalled in one thing only, and goes on without that. One without a pod, of which nobody says whether it has booted, gets none. */
function goesOnWithout({ status }: Vm): boolean {
  const stalled = conditionOf(status?.conditions, 'Stalled');
  const isInPart = stalled?.status === 'True' && stalledInPart.has(stalled.reason);
  const hasPod = conditionOf(status?.conditions, 'Booted') !== undefined;
  return isInPart && hasPod && status?.powerState !== undefined;
}

/** Whether one can log in: the VM runs, and its guest answers what `spec.readiness` asks or has had its time for it. */
export function isReachable(vm: Vm): boolean {
  return vmState(vm) === 'Running' && isTrue(vm, 'Ready');
}

/** Whether the guest has shut itself down. */
export function isDownByItself({ status }: Vm): boolean {
  return conditionOf(status?.conditions, 'Ready')?.reason === 'GuestStopped';
}

/**
 * Whether the command leads from what the VM is to something else, or takes back what it is to become. A stop of a guest that has shut itself
 * down does the latter: no pod that comes later starts it.
 */
export function fits(vm: Vm, command: PowerCommand): boolean {
  const { from, to, takesBack } = powerVerbs[command];
  const state = vmState(vm);
  return from.includes(state) || (state === to && takesBack.includes(vm.spec.powerState));
}

/**
 * No verb is carried out and no disk is saved that somebody asks for once the VM is being deleted.
 *
 * @throws Svc3Error Conflict where it is
 */
export function requireStaying({ metadata }: Vm, what: string): void {
  const { name, deletionTimestamp } = metadata;
  if (deletionTimestamp === undefined) return;
  throw new Svc3Error('Conflict', `VM ${name} is being deleted: ${what} comes too late`, {
    details: { group, kind: 'vms', name },
  });
}

/** How its guest came up last; nothing while it never has. */
function startedFrom(vm: Vm): VmItem['startedFrom'] {
  if (vm.status?.powerState === undefined) return undefined;
  return isTrue(vm, 'WarmStart') ? 'memory' : 'image';
}

/** Whether its deletion waits until its disk is saved, which may take an hour, or until somebody acts. */
export function isHeld({ metadata, status }: Vm): boolean {
  const reason = conditionOf(status?.conditions, 'Ready')?.reason;
  return metadata.deletionTimestamp !== undefined && reason === 'Terminating';
}

/** Whether there is a disk to save: the VM has booted, whatever became of it. */
export function hasDisk(vm: Vm): boolean {
  const state = vmState(vm);
  return state === 'Failed' ? vm.status?.powerState !== undefined : state !== 'Pending';
}

/** Why a VM is pending or failed, and what its deletion waits for. */
export function vmMessage(vm: Vm): string | undefined {
  if (vm.metadata.deletionTimestamp === undefined) return vmReason(vm);
  const waits = isHeld(vm) ? conditionOf(vm.status?.conditions, 'Ready')?.message : undefined;
  return waits ?? 'The VM is being deleted.';
}

/** Why the VM does not run: the message of the first condition in its way that does not hold. They stay while it is being deleted. */
export function vmReason(vm: Vm): string | undefined {
  const conditions = vm.status?.conditions;
  const stalled = conditionOf(conditions, 'Stalled');
  if (stalled?.status === 'True') return stalled.message;
  return firstMessage(vm, ['Scheduled', 'Prepared', 'Booted', 'Ready']);
}

/** Of the first of these conditions that does not hold and says why. */
function firstMessage({ status }: Vm, types: readonly string[]): string | undefined {
  return types
    .map((type) => conditionOf(status?.conditions, type))
    .find((condition) => condition !== undefined && condition.status !== 'True' && condition.message !== '')
    ?.message;
}

/** Why a VM is not what its spec asks for; undefined where it is, or nobody says. That QEMU does not run is no news of one that is off. */
function waitReason(vm: Vm): string | undefined {
  const isAsRequested = vmState(vm) === vm.spec.powerState;
  const isReconciled = conditionOf(vm.status?.conditions, 'Ready')?.status !== 'False';
  return isAsRequested || isReconciled ? undefined : firstMessage(vm, ['Ready', 'Scheduled', 'Prepared']);
}

/** What is said of a VM beside its state, where there is something to say. */
function shownMessage(vm: Vm): string | undefined {
  const state = vmState(vm);
  const isGoing = vm.metadata.deletionTimestamp !== undefined;
  const isInItsWay = state === 'Pending' || state === 'Failed' || isGoing || goesOnWithout(vm);
  return isInItsWay ? vmMessage(vm) : waitReason(vm);
}

/** What is said of a VM whose deletion was asked for and that is not gone yet. */
export function deletionMessage(name: string, vm: Vm | undefined): string {
  const why = vm !== undefined && isHeld(vm) ? `: ${vmMessage(vm)}` : '';
  return `deletion of VM ${name} has begun${why}`;
}

type Settings = Partial<VmSpec>;

/** What a VM has where it says nothing itself: the settings of its VMConfig, or those of its pool. */
export type Inherited = Pick<VmConfig, 'spec'>;

/** @param config - the VMConfig that the template of the pool names */
export function inheritedFromPool({ spec }: VmPool, config: VmConfig | undefined): Inherited {
  const { config: _config, ...template } = spec.template;
  return { spec: { ...config?.spec, ...template } };
}

/** Frozen settings where the VM has been placed; before that what it gets, as the operator says or else as it inherits them. */
export function settingsOf({ spec, status }: Vm, inherited: Inherited | undefined): Settings {
  if (status?.effective !== undefined) return { ...spec, ...status.effective };
  return status?.planned === undefined ? { ...inherited?.spec, ...spec } : { ...spec, ...status.planned };
}

/** Bytes of the guest's memory: 2.5Gi for each cpu where nothing is said. */
export function memoryBytes(settings: { cpu?: number | undefined; memory?: string | undefined }): number {
  return settings.memory === undefined
    ? (settings.cpu ?? 3) * 2.5 * 1024 ** 3
    : parseQuantity(settings.memory, 'memory');
}

function requestedImage({ spec, status }: Vm, settings: Settings): string | undefined {
  return spec.image ?? status?.effective?.imageName ?? settings.image;
}

/** What is in the CD drive; empty in the spec is an ejected medium. */
function mediumOf({ spec, status }: Vm, settings: Settings): string | undefined {
  const name = spec.iso ?? status?.effective?.isoName ?? settings.iso;
  return name === '' ? undefined : name;
}

function consoleIsOn(settings: Settings): boolean {
  if (settings.vncConsole !== undefined) return settings.vncConsole === 'Enabled';
  return settings.architecture === 'arm64' || settings.gpuPassthrough !== 'Enabled';
}

/** What of its spec waits for the next start of its guest, in a sentence. */
function waitingChanges({ status }: Vm): string | undefined {
  const condition = conditionOf(status?.conditions, 'RestartRequired');
  return condition?.status === 'True' ? condition.message : undefined;
}

/** What `savedImage` and `committedImage` do not refuse. */
function savesOf(vm: Vm): VmItem['saves'] {
  if (vm.metadata.deletionTimestamp !== undefined || !hasDisk(vm)) return undefined;
  const { effective } = vm.status ?? {};
  const isRefused = effective !== undefined && memoryRefusal(effective) !== undefined;
  return [
    'Disk',
    ...(vmState(vm) === 'Running' && !isRefused ? (['Memory'] as const) : []),
    ...(commitTarget(vm).kind === 'image' ? (['Commit'] as const) : []),
  ];
}

function commandsOf(vm: Vm): VmItem['commands'] {
  if (vm.metadata.deletionTimestamp !== undefined) return undefined;
  const fitting = powerCommands.filter((command) => fits(vm, command));
  return fitting.length === 0 ? undefined : fitting;
}

/** What its guest ran on is known without a pod only while it may have left a memory (spec.onEviction). */
function mayBeSuspended({ status = {} }: Vm): boolean {
  const { memoryHost, runner, suspendedTo } = status;
  return memoryHost !== undefined && runner === undefined && suspendedTo !== 'Disk';
}

function deletesOf(vm: Vm): VmItem['deletes'] {
  const fields = disksThatGo(vm);
  return fields.length === 0 ? undefined : fields;
}

/** Copies only members that have a value. */
function defined<T extends object>(members: { [K in keyof T]: T[K] | undefined }): T {
  const kept: Partial<T> = {};
  for (const name of Object.keys(members) as (keyof T)[]) {
    const value = members[name];
    if (value !== undefined) kept[name] = value;
  }
  return kept as T;
}

/** @param inherited - for a VM that the operator has not looked at yet */
export function vmItem(vm: Vm, inherited?: Inherited): VmItem {
  const settings = settingsOf(vm, inherited);
  const ports = vm.status?.ports;
  const console = consoleIsOn(settings);
  return defined<VmItem>({
    name: vm.metadata.name,
    namespace: vm.metadata.namespace,
    uid: vm.metadata.uid,
    node: vm.status?.node,
    ip: vm.status?.ip,
    cpu: settings.cpu ?? 3,
    memory: formatGi(memoryBytes(settings)),
    image: requestedImage(vm, settings),
    iso: mediumOf(vm, settings),
    vmConfig: vm.spec.config,
    pool: vm.spec.pool,
    vmConfigNamespace: vm.spec.configNamespace,
    gpuPassthrough: settings.gpuPassthrough === 'Enabled' || settings.architecture === 'arm64',
    vncConsole: console,
    ssh: ports?.ssh ?? 0,
    vnc: console ? ports?.vnc : undefined,
    screenshare: ports?.screenshare,
    ports: ports?.mapped,
    deployDate: vm.metadata.creationTimestamp,
    owner: vm.metadata.annotations?.[annotations.owner],
    architecture: settings.architecture,
    status: vmState(vm),
    reachable: isReachable(vm),
    startedFrom: startedFrom(vm),
    message: shownMessage(vm),
    restartRequired: waitingChanges(vm),
    commands: commandsOf(vm),
    saves: savesOf(vm),
    deletes: deletesOf(vm),
    suspendedTo: vm.status?.suspendedTo,
    mayBeSuspended: mayBeSuspended(vm) || undefined,
    request: undefined,
    outcome: undefined,
    guestStopped: (vm.spec.powerState !== 'Stopped' && isDownByItself(vm)) || undefined,
  });
}

/** @param inherited - for a VM that the operator has not looked at yet */
export function deployItem(vm: Vm, portWarnings: readonly string[], inherited?: Inherited): DeployItem {
  return deployItemOf(vmItem(vm, inherited), portWarnings.length === 0 ? undefined : portWarnings.join(' '));
}

/** Of a VM only what a deploy answers. */
export function deployItemOf(item: VmItem, portWarnings: string | undefined): DeployItem {
  const {
    name,
    uid,
    node,
    memory,
    ip,
    ssh,
    vnc,
    screenshare,
    status,
    reachable,
    startedFrom,
    pool,
    message,
  } = item;
  return defined<DeployItem>({
    name,
    uid,
    node,
    memory,
    ip,
    ssh,
    vnc,
    screenshare,
    status,
    reachable,
    startedFrom,
    pool,
    message,
    portWarnings,
  });
}
