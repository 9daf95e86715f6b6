import type { Node, Pod } from '../../../api/core.ts';
import { annotations } from '../../../api/meta.ts';
import { conditionTypes, stalledInPart } from '../../../api/reasons.ts';
import type { EffectiveSettings, ObservedPowerState, RunnerIdentity, Vm, VmStatus } from '../../../api/vm.ts';
import { isTerminating } from '../../../api/owner.ts';
import { formatQuantity } from '../../../api/quantity.ts';
import { nodeOf } from '../../../placement/podfacts.ts';
import { needsAnotherPod } from '../../../api/vmchanges.ts';
import { hasClaims, isPersistent } from '../facts/claim.ts';
import { keepsSettings, mayGoOn, memoryHostOf, stateWithoutGuest } from '../facts/hibernation.ts';
import { answeredRequest, isMadeWith, type RequestField } from '../facts/requests.ts';
import { leftOutPorts, withPodsPorts } from '../pod/leftoutports.ts';
import { statusPorts } from '../pod/podports.ts';
import {
  crashMessage,
  createFailure,
  internalIp,
  isLost,
  isPodReady,
  isRunnerUp,
  notScheduled,
  pullFailure,
  runnerStatus,
} from '../facts/podstate.ts';
import { isUntaken, unboundMessage, volumeMessage } from '../facts/unbound.ts';
import { slowPreparation } from '../facts/unprepared.ts';
import type { Unprepared } from '../../startwaits.ts';
import { powerStep } from '../runner/power.ts';
import type { RunnerObservation } from '../runner/runners.ts';
import { startedByRunner, startedInPod } from '../facts/started.ts';
import { growthMessage } from '../runner/diskgrowth.ts';
import { withLiveWarnings } from '../resolve/livewarnings.ts';
import { otherCertificateMessage } from '../runner/othercertificate.ts';
import { openPorts, withPortWarning } from '../runner/openports.ts';
import { portsCondition, withLeftOutWarnings } from './portscondition.ts';
import {
  condition,
  type ConditionDraft,
  type ConditionDrafts,
  conditionsIn,
  type StatusDraft,
} from './statusdraft.ts';

export interface PodReport {
  readonly vm: Vm;
  readonly pod: Pod;
  readonly node: Node | undefined;
  readonly runner: RunnerObservation | undefined;
  /** How long the node has not prepared the pod. */
  readonly unprepared?: Unprepared | undefined;
  readonly effective: EffectiveSettings;
  readonly warnings: readonly string[];
  /** Fields of spec that wait for the guest's next start. */
  readonly waiting?: readonly string[];
  /** What of the spec this installation refuses. */
  readonly refusal?: string | undefined;
  /** Why the pod does not get the size that some of them ask for. */
  readonly resizeRefusal?: { readonly fields: readonly string[]; readonly message: string } | undefined;
  /** What a start or revert that is asked for waits for. */
  readonly startsAfter?: string | undefined;
  /** Whether a revert that is asked for waits for images of the disk. */
  readonly isSavedFirst?: boolean;
}

/** What the pod of a VM and its runner say about it. Pure. */
export function reportPod(given: PodReport): StatusDraft {
  const input = { ...given, runner: fresh(given) };
  const { vm, pod, effective } = input;
  const leftOut = leftOutPorts(pod, effective);
  const placed = { ...input, effective: withPodsPorts(effective, pod) };
  const ofPorts = withPortWarning(placed, withLeftOutWarnings(input.warnings, leftOut));
  const warnings = withLiveWarnings(vm, effective, ofPorts);
  const power = powerOf(input);
  const shown = hasNeverRun(input) ? undefined : (power ?? stateBefore(input));
  const observed = rememberedConditions(input) ?? conditionsOf(input, power);
  const conditions = {
    ...refusedCondition(input),
    ...observed,
    ...warmCondition(input),
    ...restartCondition(input),
    ...portsCondition(warnings, leftOut),
  };
  const { ready, stalled } = observed;
  const { nodeName, ip } = whereItIs(input);
  const state = input.runner?.state;
  const runner = identityOf(input);
  const growth = input.runner?.growth;
  const bytes = state?.diskSize ?? growth?.diskSize;
  const diskSize = bytes === undefined ? vm.status?.diskSize : formatQuantity(bytes);
  const diskGrowth = growthMessage(vm, diskSize, growth);
  const accelerator = acceleratorOf(pod) ?? vm.status?.accelerator;
  const memoryHost = memoryHostIn(input, { shown, accelerator });
  const revertRequest = answered('revertRequest', input);
  const startRequest = startedFor(input);
  const restartRequest = restartedFor(input);
  return {
    fields: {
      effective,
      ...(shown === undefined ? {} : { powerState: shown }),
      ...whereMemoryIs(input, shown),
      ...(nodeName === undefined ? {} : { node: nodeName }),
      ...(ip === undefined ? {} : { ip }),
      ports: statusPorts(pod.spec.containers[0]?.ports ?? [], placed.effective, openPorts(input)),
      podName: pod.metadata.name,
      ...(runner === undefined ? {} : { runner }),
      ...(diskSize === undefined ? {} : { diskSize }),
      ...(diskGrowth === undefined ? {} : { diskGrowth }),
      ...(accelerator === undefined ? {} : { accelerator }),
      ...(memoryHost === undefined ? {} : { memoryHost }),
      ...(revertRequest === undefined ? {} : { revertRequest }),
      ...(startRequest === undefined ? {} : { startRequest }),
      ...(restartRequest === undefined ? {} : { restartRequest }),
      ...(warnings.length === 0 ? {} : { warnings }),
    },
    conditions,
    reconciling: ready.status !== 'True' && stalled === undefined && ready.reason !== 'GuestStopped',
  };
}

function conditionsOf(input: PodReport, power: ObservedPowerState | undefined): ConditionDrafts {
  const scheduled = scheduledCondition(input.pod, nodeOf(input.pod));
  const prepared = preparedCondition(input, scheduled);
  const booted = bootedCondition(input, power);
  const unsupported = unsupportedCondition(input);
  const stalled = unsupported ?? hopelessCondition(input, prepared, booted);
  return {
    ready:
      unsupported === undefined
        ? readyCondition(input, power)
        : condition('False', unsupported.reason, unsupported.message),
    scheduled,
    prepared,
    booted,
    ...(stalled === undefined ? {} : { stalled }),
  };
}

/**
 * A VM that waits for somebody to act stays as it was reported while its runner has not been asked, as after a start of
 * this process: nothing has changed.
 */
function rememberedConditions({ vm, pod, node, runner }: PodReport): ConditionDrafts | undefined {
  const { conditions, runner: known } = vm.status ?? {};
  const remembered = conditionsIn(conditions);
  const stalled = conditions?.find(({ type }) => type === conditionTypes.stalled);
  if (stalledInPart.has(stalled?.reason ?? '')) return undefined;
  const isCurrent =
    stalled?.observedGeneration === vm.metadata.generation && known?.podUid === pod.metadata.uid;
  if (remembered?.stalled?.status !== 'True' || !isCurrent) return undefined;
  const isTold = runner?.state !== undefined || runner?.error !== undefined || runner?.verb !== undefined;
  const hasFault = pullFailure(pod) ?? createFailure(pod) ?? crashMessage(pod);
  return isTold || hasFault !== undefined || isPodReady(pod) || isLost(node) ? undefined : remembered;
}

/** An answer from before the pod's readiness flipped says nothing about now. */
function fresh({ pod, runner }: PodReport): RunnerObservation | undefined {
  return runner === undefined || runner.podReady === isPodReady(pod)
    ? runner
    : { ...runner, state: undefined };
}

/**
 * The observed power state. A ready pod is a running guest (the runner's `/readyz`), so in the ordinary life of a VM
 * nobody has to be asked.
 */
function powerOf(input: PodReport): ObservedPowerState | undefined {
  const { vm, pod, runner } = input;
  // Whoever makes the pod ready is not known to be its runner.
  if (isRefused(input)) return vm.status?.powerState;
  const ready = isPodReady(pod);
  const state = runner?.state;
  // A runner that has just begun calls the guest stopped: nothing has been seen of it yet.
  if (state !== undefined && state.reason !== 'Starting') return state.powerState;
  if (ready) return 'Running';
  if (state !== undefined) return undefined;
  // Of a pod in which nothing has started the status says only that the VM has booted before.
  const isSeen = vm.status?.runner?.podUid === pod.metadata.uid && startedInPod(pod) !== 'no';
  return isSeen ? vm.status?.powerState : undefined;
}

/** Until something is seen of the guest in this pod. Once there has been a state there always is one: the start deadline goes by it. */
function stateBefore({ vm, pod }: PodReport): ObservedPowerState | undefined {
  if (startedInPod(pod) === 'no') return stateWithoutGuest(vm.status);
  return vm.status?.powerState === undefined ? undefined : 'Stopped';
}

/**
 * Whether what answers in the pod is not known to be its runner. Until it has been asked that is as it was reported, as after a start of this
 * process.
 */
function isRefused({ vm, pod, runner }: PodReport): boolean {
  if (runner?.isRefused === true) return true;
  if (runner === undefined || runner.state !== undefined || vm.status?.runner?.podUid !== pod.metadata.uid)
    return false;
  const ready = vm.status.conditions?.find(({ type }) => type === conditionTypes.ready);
  return ready?.reason === 'RunnerUnreachable' && ready.message === otherCertificateMessage(pod);
}

/** A try to place the pod says nothing yet of a VM whose volume may be on one node only: it goes back there first. */
function whereItIs({ vm, pod, node, effective }: PodReport): {
  readonly nodeName: string | undefined;
  readonly ip: string | undefined;
} {
  const known = vm.status?.node;
  const isTry = pod.spec.nodeName === undefined && hasClaims(effective);
  if (isTry && known !== undefined && known !== nodeOf(pod)) return { nodeName: known, ip: vm.status?.ip };
  return { nodeName: nodeOf(pod), ip: internalIp(node) };
}

function identityOf({ vm, pod, runner }: PodReport): RunnerIdentity | undefined {
  const podUid = pod.metadata.uid;
  if (podUid === undefined) return undefined;
  const known = vm.status?.runner?.podUid === podUid ? vm.status.runner : undefined;
  const address = pod.status?.podIP;
  // A pod whose node restarts has no address for a while. One that has an address may have no runner yet: a memory on the claim has not been used there.
  if (address === undefined || startedInPod(pod) === 'no') return known;
  const fingerprint = runner?.fingerprint ?? known?.fingerprint;
  const version = runner?.state === undefined ? known?.version : `${runner.state.version}`;
  const startedAt = runner?.startedAt ?? known?.startedAt;
  return {
    podUid,
    address,
    ...(fingerprint === undefined ? {} : { fingerprint }),
    ...(version === undefined ? {} : { version }),
    ...(startedAt === undefined ? {} : { startedAt }),
  };
}

/** As the pod was told; `auto` of an unpinned pod is only known to its runner. */
function acceleratorOf(pod: Pod): 'kvm' | 'tcg' | undefined {
  const text = pod.metadata.annotations?.[annotations.runnerSpec];
  const found = /"accelerator":"(kvm|tcg)"/.exec(text ?? '')?.[1];
  return found === 'kvm' || found === 'tcg' ? found : undefined;
}

/** Of a pod that is left to kube-scheduler, only its verdict is that no node fits: it may not have come to it, try again, or make room on a node. */
function scheduledCondition(pod: Pod, node: string | undefined): ConditionDraft {
  const unbound = unboundMessage(pod);
  if (node === undefined) {
    const reason = isUntaken(pod) ? 'Unschedulable' : 'AwaitingScheduler';
    return condition('False', reason, unbound ?? 'waiting for kube-scheduler');
  }
  // An error of kube-scheduler is no verdict on the node: it tries again.
  const isRefused = unbound !== undefined && notScheduled(pod)?.reason !== 'SchedulerError';
  return isRefused
    ? condition('False', 'Unschedulable', unbound)
    : condition('True', 'Scheduled', `placed on node ${node}`);
}

/** Reasons of the runner that say the image is at fault. */
const imageFaults: Readonly<Record<string, string>> = {
  DiskMissing: 'DiskFileMissing',
  ImageInvalid: 'DiskFileMissing',
  IsoMissing: 'DiskFileMissing',
  ArchitectureUnsupported: 'ArchitectureMismatch',
};

function preparedCondition(
  { vm, pod, runner, unprepared }: PodReport,
  scheduled: ConditionDraft,
): ConditionDraft {
  const failure = pullFailure(pod);
  if (failure !== undefined) return condition('False', 'ImagePullFailed', failure);
  const state = runner?.state;
  const fault = state?.powerState === 'Failed' ? imageFaults[state.reason ?? ''] : undefined;
  if (fault !== undefined) return condition('False', fault, state?.message ?? '');
  if (isPodReady(pod) || isRunnerUp(pod)) return condition('True', 'Prepared', 'the image is there');
  const pending = volumeMessage(pod);
  if (pending !== undefined) return condition('False', 'VolumePending', pending);
  const unbound = unboundMessage(pod);
  const hasNoVerdict = scheduled.reason === 'AwaitingScheduler';
  if (unbound !== undefined)
    return condition('False', hasNoVerdict ? 'AwaitingScheduler' : 'Unschedulable', unbound);
  if ((runnerStatus(pod)?.restartCount ?? 0) > 0) return condition('True', 'Prepared', 'the image is there');
  const slow = slowPreparation(vm, pod, unprepared);
  return condition('False', slow?.reason ?? 'PullingImage', slow?.message ?? 'the node pulls the image');
}

/** Reasons of the runner with a condition of their own. */
const bootFaults: Readonly<Record<string, string>> = {
  AcceleratorFailed: 'AcceleratorFailed',
  GpuMissing: 'GPUUnavailable',
  GpuBusy: 'GPUUnavailable',
  GpuFailed: 'GPUUnavailable',
  UserDataMissing: 'UserDataMissing',
  DiskFull: 'DiskFull',
};

/** Those that say of a VM that is not Ready what to do, where `Crashed` would not: QEMU has not died. */
const waitingFaults: ReadonlySet<string> = new Set(['UserDataMissing', 'DiskFull']);

function bootedCondition({ pod, runner }: PodReport, power: ObservedPowerState | undefined): ConditionDraft {
  const crash = crashMessage(pod) ?? createFailure(pod);
  if (crash !== undefined) return condition('False', 'QEMUFailed', crash);
  const state = runner?.state;
  switch (power) {
    case 'Running':
      return condition('True', 'Booted', 'QEMU runs the guest');
    case 'Suspended':
      return condition('True', 'Booted', 'the guest is suspended');
    case 'Stopped':
      return condition('False', 'NotRunning', state?.message ?? 'the VM is stopped');
    case 'Failed':
      return condition(
        'False',
        bootFaults[state?.reason ?? ''] ?? 'QEMUFailed',
        state?.message ?? 'QEMU ended',
      );
    default:
      return condition('False', 'Booting', 'QEMU is being started');
  }
}

function unsupportedCondition({ vm, runner }: PodReport): ConditionDraft | undefined {
  if (runner?.state === undefined || runner.verb !== undefined) return undefined;
  const step = powerStep(vm, runner.state);
  return step.kind === 'unsupported' ? condition('True', 'PowerStateUnsupported', step.message) : undefined;
}

/** QEMU could never be started: the VM has no guest yet that its start deadline would take from somebody. */
function hasNeverRun({ vm, pod, runner }: PodReport): boolean {
  const state = runner?.state;
  if (state?.powerState !== 'Failed' || vm.status?.powerState !== undefined) return false;
  return startedByRunner(state, pod) === 'no';
}

/** QEMU is not started again by itself: its restarts are used up, or nothing in the life of this pod can heal it. */
function hopelessCondition(
  input: PodReport,
  prepared: ConditionDraft,
  booted: ConditionDraft,
): ConditionDraft | undefined {
  const state = input.runner?.state;
  const isFinal = state?.powerState === 'Failed' && !state.retrying && input.runner?.verb === undefined;
  // It was asked for, and waits.
  if (input.startsAfter !== undefined) return undefined;
  if (!isFinal || input.vm.spec.powerState === 'Stopped') return undefined;
  if (state.restarts > 0) {
    const message = `${state.message ?? 'QEMU ended'}; it is not started again by itself`;
    return condition('True', 'RestartLimitExceeded', message);
  }
  const { reason, message } = prepared.status === 'False' ? prepared : booted;
  return condition('True', reason, message);
}

/** A request that was made while the guest ran is as good as carried out: it does not start a guest that stops later. */
function startedFor(input: PodReport): string | undefined {
  if (input.runner?.state?.powerState === 'Running') return input.vm.spec.startRequest;
  return answered('startRequest', input);
}

/** What the runner says, unless the request has been reported as answered: its word lies on a disk that may have been restored from before that. */
function answered(member: RequestField, { vm, runner }: PodReport): string | undefined {
  const before = answeredRequest(vm, member);
  const isAnswered = before !== undefined && before === vm.spec[member];
  return isAnswered ? before : (runner?.state?.[member] ?? before);
}

function isRestartDue(input: PodReport): boolean {
  const { restartRequest } = input.vm.spec;
  return restartRequest !== undefined && restartRequest !== restartedFor(input);
}

/** The pod's first boot answers what was asked for when it was made; a guest that goes on from its claim there has not been started again. */
function restartedFor(input: PodReport): string | undefined {
  const { vm, pod, runner, effective } = input;
  const { restartRequest } = vm.spec;
  const state = runner?.state;
  const goesOn = state === undefined ? mayGoOn(vm, effective) : state.warmStart?.fromMemory === true;
  if (!goesOn && isMadeWith(pod, 'restartRequest', restartRequest)) return restartRequest;
  return answered('restartRequest', input);
}

const verbReasons = {
  start: 'Starting',
  stop: 'Stopping',
  restart: 'Restarting',
  suspend: 'Suspending',
  resume: 'Resuming',
  revert: 'Reverting',
} as const;

const requestedReasons = { Running: 'Starting', Stopped: 'Stopping', Suspended: 'Suspending' } as const;

function readyCondition(input: PodReport, power: ObservedPowerState | undefined): ConditionDraft {
  const { vm, pod, node, runner, startsAfter } = input;
  const requested = vm.spec.powerState;
  const waitsFor = startsAfter ?? runner?.error ?? '';
  if (isLost(node)) return condition('Unknown', 'NodeLost', lostMessage(pod));
  if (runner?.verb !== undefined) return condition('False', verbReasons[runner.verb]);
  const fault = pullFailure(pod) ?? createFailure(pod);
  if (fault !== undefined) return condition('False', 'Starting', fault);
  const crash = crashMessage(pod);
  if (crash !== undefined) return condition('False', 'Crashed', crash);
  if (isRefused(input)) return condition('Unknown', 'RunnerUnreachable', otherCertificateMessage(pod));
  if (runner?.error !== undefined && !isPodReady(pod) && runner.state === undefined)
    return condition('Unknown', 'RunnerUnreachable', runner.error);
  const step = runner?.state === undefined ? undefined : powerStep(vm, runner.state);
  if (step?.kind === 'guestStopped')
    return condition('False', 'GuestStopped', 'the guest has shut itself down');
  const reverted = vm.spec.revertRequest === undefined || isReverted(input);
  if (startsAfter !== undefined && !reverted) return condition('False', 'Reverting', startsAfter);
  if (power === 'Failed' && requested !== 'Stopped') {
    const { reason = '', message } = runner?.state ?? {};
    if (waitingFaults.has(reason)) return condition('False', reason, message ?? '');
    return condition('False', 'Crashed', message ?? 'QEMU ended');
  }
  if (requested === 'Running' && power === 'Running' && isRestartDue(input))
    return condition('False', 'Restarting', waitsFor);
  if (power === requested && reverted)
    return requested === 'Running'
      ? guestCondition(input)
      : condition('True', requested, asRequested(input, requested));
  return condition('False', reverted ? requestedReasons[requested] : 'Reverting', waitsFor);
}

/** QEMU runs; the pod is Ready once `spec.readiness` is met, which its runner knows (`/readyz`). */
function guestCondition({ pod, runner, effective: { readiness } }: PodReport): ConditionDraft {
  const state = runner?.state;
  const asked = askedOf(readiness);
  // The kubelet hears of a guest that starts again only with its next probe. A runner from before that member makes its pod Ready as soon as QEMU runs.
  if (!(state?.guestReady ?? isPodReady(pod)))
    return condition('False', 'GuestNotReady', `the VM runs; its guest does not answer yet: ${asked}`);
  return state?.readiness === 'NotAnswering'
    ? condition('True', 'GuestNotAnswering', `the VM runs; its guest has not answered in time: ${asked}`)
    : condition('True', 'Running', 'the VM runs');
}

function askedOf(readiness: EffectiveSettings['readiness']): string {
  if (readiness?.tcp !== undefined) return `TCP port ${readiness.tcp.port}`;
  if (readiness?.http !== undefined) return `HTTP port ${readiness.http.port}, path ${readiness.http.path}`;
  return readiness?.guestAgent === undefined ? 'SSH or guest agent' : 'guest agent';
}

/** Whoever deletes the pod of a lost node (its taint does after five minutes) does not know whether the guest still runs. */
function lostMessage(pod: Pod): string {
  const lost = `node ${nodeOf(pod) ?? ''} does not answer`;
  if (!isTerminating(pod)) return lost;
  return `${lost}; the VM is placed anew once its pod is gone: bring the node back, or say that it is off for good (taint node.kubernetes.io/out-of-service)`;
}

/** How the guest was started last, where there was a memory: as its runner says, and where that was not asked, as it said of this pod before. */
function warmCondition({ vm, pod, runner }: PodReport): Partial<ConditionDrafts> {
  if (runner?.state !== undefined) {
    if (runner.state.warmStart === undefined) return {};
    const { fromMemory, reason, message } = runner.state.warmStart;
    return { warmStart: condition(fromMemory ? 'True' : 'False', reason, message) };
  }
  const { conditions, runner: known } = vm.status ?? {};
  const before = known?.podUid === pod.metadata.uid ? conditionsIn(conditions)?.warmStart : undefined;
  return before === undefined ? {} : { warmStart: before };
}

/** Which changes wait for the guest's next start. */
export function restartCondition({
  effective,
  waiting = [],
  resizeRefusal,
}: Pick<PodReport, 'effective' | 'waiting' | 'resizeRefusal'>): Partial<ConditionDrafts> {
  if (waiting.length === 0) return {};
  const named = (fields: readonly string[]) => fields.map((field) => `spec.${field}`).join(', ');
  const lost = isPersistent(effective)
    ? []
    : waiting.filter((field) => needsAnotherPod(field, { isPersistent: false }));
  if (lost.length > 0) {
    const message = `${named(lost)} changed while the VM was being placed; deploy it again`;
    return { restartRequired: condition('True', 'DeployAgain', message) };
  }
  const message = `${named(waiting)} apply when the guest is started next`;
  if (resizeRefusal === undefined) return { restartRequired: condition('True', 'SpecChanged', message) };
  const except = `${message}; ${named(waiting.filter((field) => resizeRefusal.fields.includes(field)))} only once the pod can be resized: ${resizeRefusal.message}`;
  return { restartRequired: condition('True', 'ResizeRefused', except) };
}

/** What a VM that was never placed would wait for is not tried with one that runs. */
function refusedCondition({ refusal }: PodReport): Partial<ConditionDrafts> {
  if (refusal === undefined) return {};
  const message = `${refusal}; the VM goes on without it`;
  return { stalled: condition('True', 'GPUPassthroughDisabled', message) };
}

function asRequested(input: PodReport, requested: 'Stopped' | 'Suspended'): string {
  if (requested === 'Stopped') return 'the VM is stopped';
  return suspendedTo(input) === 'Disk' ? 'the VM is suspended on its disk' : 'the VM is suspended';
}

/**
 * A memory that was on the claim is there until the runner says that the guest is up, or down: the pod that begins may be given up, and the next
 * one has to fit it too.
 */
function whereMemoryIs(
  input: PodReport,
  shown: ObservedPowerState | undefined,
): { suspendedTo?: 'Memory' | 'Disk' } {
  if (shown === 'Suspended') return { suspendedTo: suspendedTo(input) };
  const { vm, pod, runner } = input;
  if (vm.status?.suspendedTo !== 'Disk' || isPodReady(pod)) return {};
  const { powerState, reason } = runner?.state ?? {};
  const isUntold = powerState === undefined || powerState === 'Failed' || reason === 'Starting';
  return isUntold ? { suspendedTo: 'Disk' } : {};
}

/** Until the guest runs in this pod a memory on its claim is of the pod before. One that is off has none there. */
function memoryHostIn(
  input: PodReport,
  { shown, accelerator }: { shown: ObservedPowerState | undefined; accelerator: 'kvm' | 'tcg' | undefined },
): VmStatus['memoryHost'] {
  const { vm, node, runner, effective, isSavedFirst = false } = input;
  const before = vm.status?.memoryHost;
  const isWritten = shown === 'Suspended' && suspendedTo(input) === 'Disk' && before !== undefined;
  if (shown === 'Running' || (shown === 'Suspended' && !isWritten))
    return memoryHostOf(vm, effective, { accelerator, node });
  return isWritten || (keepsSettings(vm, isSavedFirst) && !isOff(runner)) ? before : undefined;
}

/** Whether the runner says that the guest is to be off: it neither begins nor ends with its pod. */
function isOff(runner: RunnerObservation | undefined): boolean {
  const { powerState, reason } = runner?.state ?? {};
  return powerState === 'Stopped' && reason !== 'Starting' && reason !== 'ShuttingDown';
}

/** A runner that has not been asked yet has changed nothing. */
function suspendedTo({ vm, runner }: PodReport): 'Memory' | 'Disk' {
  const kind = runner?.state?.suspendKind ?? vm.status?.suspendedTo;
  return kind === 'Disk' ? 'Disk' : 'Memory';
}

/** A pod made with the request has a fresh disk anyway, unless that is older than the pod. */
function isReverted({ vm, pod, runner, effective }: PodReport): boolean {
  const requested = vm.spec.revertRequest;
  if (requested === undefined || runner?.state?.revertRequest === requested) return true;
  if (answeredRequest(vm, 'revertRequest') === requested) return true;
  return !isPersistent(effective) && isMadeWith(pod, 'revertRequest', requested);
}
