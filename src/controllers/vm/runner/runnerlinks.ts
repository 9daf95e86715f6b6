import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Pod } from '../../../api/core.ts';
import {
  type ClaimRequest,
  type PortsRequest,
  PowerAction,
  type PowerRequest,
  type ResizeReply,
  type RunnerPort,
  type RunnerState,
} from '../../../api/runner.ts';
import type { EffectiveSettings, Vm, VmSpec } from '../../../api/vm.ts';
import { CallLimiter } from '../../../controller/limiter.ts';
import { isSvc3Error, messageOf } from '../../../errors.ts';
import { isPodReady, isRunnerUp, runnerStartedAt } from '../facts/podstate.ts';
import { isSuspendedInMemory } from '../facts/hibernation.ts';
import { isSamePorts, runnerPorts } from '../pod/podports.ts';
import {
  hasChangesAtOnce,
  isAsRequested,
  isToBeEmptied,
  placedSettings,
  requestedBytes,
} from './asrequested.ts';
import { arePortsPending } from './openports.ts';
import { otherCertificateMessage } from './othercertificate.ts';
import { isDeepStrictEqual } from 'node:util';
import type { BootTerms, ClaimAnswer, RunnerObservation } from './runners.ts';
import type { VmSettings } from '../settings.ts';
import { bootSettings } from '../pod/bootsettings.ts';
import { isBoot, powerStep, type PowerStep } from './power.ts';
import type { DiskGrowth } from './diskgrowth.ts';

/** What the VM controller uses of a runner; `createRunnerClient` of src/runnerapi is one. */
export interface RunnerConnection {
  state(): Promise<RunnerState>;
  /** @param signal - ends the call: a runner whose verb waits for a copy of the disk gives it up then */
  power(request: PowerRequest, signal?: AbortSignal): Promise<RunnerState>;
  /** To be called on a connection with the UID of the pod as that of the VM. */
  claim(request: ClaimRequest): Promise<RunnerState>;
  resize(bytes: number, signal?: AbortSignal): Promise<Growth>;
  eject(): Promise<RunnerState>;
  ports(request: PortsRequest): Promise<RunnerState>;
  fingerprint(): string | undefined;
}

/** What is said of a growth whose answer nobody waited for. */
const grownUnheard = "the disk has grown; whether the guest's file system has is not known";

/** What became of the growth of a disk; its size is in bytes. */
export type Growth = Pick<ResizeReply, 'diskSize' | 'message'>;

export interface RunnerTarget {
  readonly address: string;
  readonly vmUid: string;
  readonly pin: string | undefined;
  /** Ends the calls under way: there is another address, or no VM any more. */
  readonly signal: AbortSignal;
}

export type OpenRunner = (target: RunnerTarget) => RunnerConnection;

interface Link {
  readonly podUid: string;
  /** A pod whose node was restarted is the same one at another address. */
  readonly address: string;
  /** Another time is another runner, which may have lost its volume. */
  readonly startedAt: string | undefined;
  readonly closing: AbortController;
  connection: RunnerConnection;
  /** Of a guest that waited: whether its runner has been told whose it is, and why it never will be this VM's. */
  isClaimed: boolean;
  claimRefusal: string | undefined;
  /** While nobody has been there to take a claim: the time of the first try, and from it to the last one, in milliseconds. */
  unmet: { readonly since: number; readonly forMs: number } | undefined;
  isMet: boolean;
  state: RunnerState | undefined;
  podReady: boolean;
  error: string | undefined;
  verb: PowerAction | undefined;
  /** What the VM was to be when the verb, or the growth of its disk, was asked for that is under way; ends its call. */
  asking: { readonly spec: VmSpec; readonly hangUp: AbortController } | undefined;
  busy: boolean;
  /** The guest was asked to shut down for good, and that again while its pod was ending. */
  isStopAsked: boolean;
  isStopAskedAtEnd: boolean;
  askedAt: number;
  /** Since when it has not answered how it is; undefined while it does. */
  silentSince: number | undefined;
  /** Since when another certificate is shown than the known one. */
  refusedSince: number | undefined;
  /** A size that the runner refused: not asked for again. */
  refusedBytes: number | undefined;
  /** Ports of which the runner could not open all when it was asked last. */
  refusedPorts: readonly RunnerPort[] | undefined;
  /** What became of the last growth of the disk. */
  growth: DiskGrowth | undefined;
  /** The last requests that it has answered: a runner that does not keep them is not asked twice. */
  startRequest: string | undefined;
  restartRequest: string | undefined;
  /** What a start would be told, and what the last one was. */
  offered: Offer | undefined;
  told: Offer | undefined;
}

/** What is asked for of a runner. */
interface Wanted {
  readonly vm: Vm;
  readonly pod: Pod;
  readonly boot: BootTerms;
  readonly offered: Offer | undefined;
}

interface Offer {
  readonly effective: EffectiveSettings;
  readonly settings: NonNullable<PowerRequest['settings']>;
}

/** How often a runner is asked while its VM is not as requested, in milliseconds. */
export const pollMs = 2_000;

/** How often the runner of a guest that is suspended in memory is asked, in milliseconds: nothing else tells that the guest is lost. */
export const suspendedPollMs = 60_000;

/** An answer to a question that was put no longer ago is what the runner says now, in milliseconds. */
const recentMs = 5_000;

/** How long a runner may be silent before the VM's condition says so, in milliseconds: each begins by not listening yet. */
export const silenceMs = 20_000;

/**
 * Runners asked for the first time at once: after a start of the operator that is one for each VM of the cluster. A namespace gets no more
 * of these calls than are left free, so that one whose runners cannot be reached does not keep the others waiting.
 */
const firstCallLimits = { total: 32, perHost: 32 };

/**
 * Calls to the runners of VMs, beside the passes: none of these waits for a guest that shuts down. One call at a time for
 * each VM; `changed` is called with the VM's key when there is something new. After a restart of the operator
 * everything that is kept here is found out again by asking.
 */
export class RunnerLinks {
  readonly #open: OpenRunner;
  readonly #settings: Pick<VmSettings, 'readinessSeconds'>;
  readonly #changed: (key: string) => void;
  readonly #now: () => number;
  readonly #links = new Map<string, Link>();
  readonly #firstCalls = new CallLimiter(firstCallLimits);

  /** `now`: milliseconds of a clock that never jumps. */
  constructor(
    open: OpenRunner,
    changed: (key: string) => void,
    now: () => number,
    settings: Pick<VmSettings, 'readinessSeconds'>,
  ) {
    this.#settings = settings;
    this.#open = open;
    this.#changed = changed;
    this.#now = now;
  }

  /** What is known; begins a call where something is to be asked or done. */
  observe(key: string, vm: Vm, pod: Pod, boot: BootTerms = {}): RunnerObservation | undefined {
    const link = this.#link(vm, pod);
    if (link === undefined) return undefined;
    return this.#observed(key, link, { vm, pod, boot });
  }

  claim(key: string, vm: Vm, pod: Pod, effective: EffectiveSettings): ClaimAnswer {
    const link = this.#link(vm, pod);
    if (link === undefined) return { kind: 'asking', message: undefined };
    const { isClaimed, claimRefusal, state } = link;
    if (claimRefusal !== undefined) return { kind: 'refused', message: claimRefusal };
    if (isClaimed && state !== undefined)
      return { kind: 'claimed', runner: observationOf(link, undefined, this.#told(link)) };
    const isDue = link.error === undefined || this.#now() - link.askedAt >= pollMs;
    if (!link.busy && isDue) this.#claim(key, link, { vm, pod, effective });
    return { kind: 'asking', message: link.error };
  }

  unmetMs(vm: Vm, pod: Pod): number | undefined {
    const link = this.#links.get(vm.metadata.uid);
    return link?.podUid !== pod.metadata.uid || link.busy ? undefined : link.unmet?.forMs;
  }

  #claim(
    key: string,
    link: Link,
    { vm, pod, effective }: { readonly vm: Vm; readonly pod: Pod; readonly effective: EffectiveSettings },
  ): void {
    const { namespace, name, uid: vmUid } = vm.metadata;
    const podUid = pod.metadata.uid;
    const { address, closing } = link;
    const pin = link.connection.fingerprint();
    // Until it is told it is the pod that callers name.
    const before = this.#open({ address, vmUid: podUid, pin, signal: closing.signal });
    void this.#call(key, link, isPodReady(pod), async () => {
      const settings = bootSettings(effective, this.#settings);
      try {
        const state = await before.claim({ podUid, vm: { namespace, name, uid: vmUid }, settings });
        const known = before.fingerprint();
        link.connection = this.#open({ address, vmUid, pin: known, signal: closing.signal });
        link.isClaimed = true;
        link.told = { effective, settings };
        return state;
      } catch (error) {
        if (isSvc3Error(error, 'Conflict')) link.claimRefusal = messageOf(error);
        this.#noteFailedClaim(link, before.fingerprint() !== undefined);
        throw error;
      }
    });
  }

  /** @param isMet - somebody has shown a certificate: nothing is sent before that, and what was sent may have been carried out */
  #noteFailedClaim(link: Link, isMet: boolean): void {
    link.isMet ||= isMet;
    const since = link.unmet?.since ?? this.#now();
    link.unmet = link.isMet ? undefined : { since, forMs: this.#now() - since };
  }

  #observed(
    key: string,
    link: Link,
    { vm, pod, boot }: { readonly vm: Vm; readonly pod: Pod; readonly boot: BootTerms },
  ): RunnerObservation {
    const offered = boot.settings === undefined ? undefined : this.#offer(link, boot.settings);
    if (!link.busy) this.#next(key, { vm, pod, boot, offered }, link);
    else if (isTakenBack(link, vm) || isInTheWay(link, vm, pod)) link.asking?.hangUp.abort();
    const booted = [link.told, offered].find(
      (each) => each !== undefined && each.settings.version === link.state?.settingsVersion,
    );
    const bytes = boot.isDiskHeld === true ? undefined : requestedBytes(vm);
    const isRefused = this.#isRefused(link);
    return {
      ...observationOf(link, booted, isRefused ? otherCertificateMessage(pod) : this.#told(link)),
      isRefused,
      isPending: isPending(link, { vm, pod, bytes }) || this.#isBeginning(vm, link),
    };
  }

  /** What the runner has said just now; else it is asked, no more often than every `pollMs`, and the answer wakes the VM. */
  recent(key: string, vm: Vm, pod: Pod): RunnerState | undefined {
    const link = this.#link(vm, pod);
    if (link === undefined || link.busy) return undefined;
    const sinceMs = this.#now() - link.askedAt;
    if (link.error === undefined && link.state !== undefined && sinceMs <= recentMs) return link.state;
    if (sinceMs >= pollMs) void this.#ask(key, link, isPodReady(pod));
    return undefined;
  }

  /** Made once for the same settings: every pass offers them. */
  #offer(link: Link, effective: EffectiveSettings): Offer {
    if (!isDeepStrictEqual(link.offered?.effective, effective))
      link.offered = { effective, settings: bootSettings(effective, this.#settings) };
    return link.offered as Offer;
  }

  #told({ error, silentSince }: Link): string | undefined {
    const silentFor = silentSince === undefined ? Infinity : this.#now() - silentSince;
    return silentFor < silenceMs ? undefined : error;
  }

  /** A pod that has just moved may have an address for a while that is another one's by now: no longer than a silence is taken for a beginning. */
  #isRefused({ refusedSince }: Link): boolean {
    return refusedSince !== undefined && this.#now() - refusedSince >= silenceMs;
  }

  /** It was started anew in a pod whose runner is known, and may not listen yet. */
  #isBeginning(vm: Vm, link: Link): boolean {
    if (link.silentSince === undefined || !isOfKnownPod(vm, link) || wasMet(vm, link)) return false;
    return link.state === undefined && this.#now() - link.silentSince < silenceMs;
  }

  forget(vmUid: string): void {
    this.#links.get(vmUid)?.closing.abort();
    this.#links.delete(vmUid);
  }

  shutDown(key: string, vm: Vm, pod: Pod): boolean {
    const link = this.#link(vm, pod);
    if (link === undefined) return true;
    if (link.busy) return false;
    const isEnding = pod.metadata.deletionTimestamp !== undefined;
    // A stop that waits for a copy of the disk ends with its call. While the pod ends, no copy is waited for, so it is asked once more.
    const isAskedAgain = isEnding && !link.isStopAskedAtEnd && link.state?.powerState !== 'Stopped';
    if (link.isStopAsked && !isAskedAgain) return true;
    link.isStopAsked = true;
    link.isStopAskedAtEnd = isEnding;
    this.#act(key, link, { vm, pod }, { action: 'stop' }, undefined);
    return false;
  }

  #link(vm: Vm, pod: Pod): Link | undefined {
    const vmUid = vm.metadata.uid;
    const podUid = pod.metadata.uid;
    const address = pod.status?.podIP;
    if (address === undefined || !isRunnerUp(pod)) return undefined;
    const known = this.#links.get(vmUid);
    const same = known?.podUid === podUid ? known : undefined;
    const startedAt = runnerStartedAt(pod);
    const inPlace = same?.address === address ? same : undefined;
    if (inPlace !== undefined && inPlace.startedAt === startedAt) return inPlace;
    known?.closing.abort();
    const closing = new AbortController();
    const pinned = vm.status?.runner?.podUid === podUid ? vm.status.runner.fingerprint : undefined;
    const pin = same?.connection.fingerprint() ?? pinned;
    const link: Link = {
      podUid,
      address,
      startedAt,
      closing,
      connection: this.#open({ address, vmUid, pin, signal: closing.signal }),
      isClaimed: same?.isClaimed ?? false,
      claimRefusal: undefined,
      unmet: same?.unmet,
      isMet: same?.isMet ?? false,
      state: undefined,
      podReady: false,
      error: inPlace?.error,
      verb: undefined,
      asking: undefined,
      busy: false,
      isStopAsked: false,
      isStopAskedAtEnd: false,
      askedAt: Number.NEGATIVE_INFINITY,
      silentSince: inPlace?.silentSince,
      refusedSince: inPlace?.refusedSince,
      refusedBytes: same?.refusedBytes,
      refusedPorts: undefined,
      growth: same?.growth,
      startRequest: same?.startRequest,
      restartRequest: same?.restartRequest,
      offered: undefined,
      told: same?.told,
    };
    this.#links.set(vmUid, link);
    return link;
  }

  #next(key: string, { vm, pod, boot, offered }: Wanted, link: Link): void {
    const podReady = isPodReady(pod);
    const flipped = link.podReady !== podReady;
    const sinceMs = this.#now() - link.askedAt;
    const due = sinceMs >= pollMs;
    const placed = placedSettings(vm, pod);
    const isPaused = isSuspendedInMemory(vm.status);
    const isWorking = link.state?.introducing === true || link.state?.busy !== undefined;
    const isIdle = isAsRequested(vm, pod, placed) && !isWorking;
    const isIdleDue = (isPaused && sinceMs >= suspendedPollMs) || (due && this.#isBeginning(vm, link));
    const isToBeAsked = isIdle ? isIdleDue : due;
    // Nothing is asked of it before it has shown the certificate that is known.
    if (link.refusedSince !== undefined) {
      if (due) void this.#ask(key, link, podReady);
      return;
    }
    // What failed is tried again after a while.
    const isRipe = due || link.error === undefined;
    if (link.state === undefined || flipped) {
      // A runner that was met before need not be asked while all is as requested; one that cannot be reached, once.
      const first = link.askedAt === Number.NEGATIVE_INFINITY && (isPaused || !wasMet(vm, link));
      if (isIdle && first) this.#meet(key, vm, link, podReady);
      else if (isToBeAsked || (!isIdle && flipped)) void this.#ask(key, link, podReady);
      return;
    }
    const step = heldStep(powerStep(vm, link.state, boot.revertHold), link.state, boot);
    if (step.kind === 'verb' && !isAnswered(link, step.request)) {
      if (isRipe) this.#act(key, link, { vm, pod }, step.request, isBoot(step) ? offered : undefined);
      return;
    }
    if (isToBeEmptied(link.state, vm)) {
      if (isRipe) void this.#change(key, link, podReady, () => link.connection.eject());
      return;
    }
    if (placed !== undefined && arePortsPending(link.state, placed)) {
      const isRefused = arePortsRefused(link, placed);
      // What it cannot open now is tried again, and nothing else waits for that.
      if (due || (isRipe && !isRefused)) return this.#lead(key, link, podReady, runnerPorts(placed));
      if (!isRefused) return;
    }
    const bytes = boot.isDiskHeld === true ? undefined : requestedBytes(vm);
    if (bytes !== undefined && isToGrow(link, bytes)) {
      if (isRipe) this.#resize(key, link, { vm, pod }, bytes);
      return;
    }
    if (isToBeAsked) void this.#ask(key, link, podReady);
  }

  /** All is as requested: it can wait for its turn, unless there is another reason to ask before. */
  #meet(key: string, vm: Vm, link: Link, podReady: boolean): void {
    link.askedAt = this.#now();
    link.podReady = podReady;
    const { namespace } = vm.metadata;
    const { signal } = link.closing;
    const meeting = this.#firstCalls.run(namespace, link.address, signal, async () => {
      if (!signal.aborted && !link.busy && link.state === undefined) await this.#ask(key, link, podReady);
    });
    // There is another runner, or no VM any more.
    meeting.catch(() => undefined);
  }

  #ask(key: string, link: Link, podReady: boolean): Promise<void> {
    return this.#call(key, link, podReady, async () => {
      try {
        return await link.connection.state();
      } catch (error) {
        link.silentSince ??= this.#now();
        throw error;
      }
    });
  }

  #act(
    key: string,
    link: Link,
    { vm, pod }: Pick<Wanted, 'vm' | 'pod'>,
    request: PowerRequest,
    offered: Offer | undefined,
  ): void {
    const hangUp = new AbortController();
    link.verb = request.action;
    link.asking = { spec: vm.spec, hangUp };
    // Before it answers: it may have them although the answer is lost.
    link.told = offered ?? link.told;
    void this.#change(key, link, isPodReady(pod), async () => {
      const told = offered === undefined ? {} : { settings: offered.settings };
      try {
        // Else the guest would be started with it, or not at all where the medium is what keeps it from that.
        if (request.action === 'start' && isToBeEmptied(link.state, vm)) await link.connection.eject();
        const state = await link.connection.power({ ...request, ...told }, hangUp.signal);
        link.startRequest = request.startRequest ?? link.startRequest;
        link.restartRequest = request.restartRequest ?? link.restartRequest;
        return state;
      } catch (error) {
        // What the runner did not give up it carries out all the same: how it is then decides what is asked of it next.
        if (hangUp.signal.aborted) return link.connection.state();
        throw error;
      }
    });
  }

  #resize(key: string, link: Link, { vm, pod }: Pick<Wanted, 'vm' | 'pod'>, bytes: number): void {
    const hangUp = new AbortController();
    link.asking = { spec: vm.spec, hangUp };
    void this.#change(key, link, isPodReady(pod), async () => {
      try {
        link.growth = await link.connection.resize(bytes, hangUp.signal);
      } catch (error) {
        // It may wait for a copy of the disk, which nothing else needs to; one that had begun grows the disk all the same.
        if (hangUp.signal.aborted) {
          link.growth = { diskSize: bytes, message: grownUnheard };
          return link.connection.state();
        }
        if (isSvc3Error(error, 'Invalid', 'Conflict', 'BadRequest')) {
          // A disk that is in no state to grow can be asked again.
          if (error.reason !== 'Conflict') link.refusedBytes = bytes;
          const diskSize = link.state?.diskSize ?? 0;
          link.growth = { diskSize, message: messageOf(error), refusedBytes: bytes };
        }
        throw error;
      }
      return link.connection.state();
    });
  }

  #lead(key: string, link: Link, podReady: boolean, ports: readonly RunnerPort[]): void {
    void this.#change(key, link, podReady, async () => {
      const state = await link.connection.ports({ ports: [...ports] });
      link.refusedPorts = state.portsMessage === undefined ? undefined : ports;
      return state;
    });
  }

  /**
   * What a runner refuses may be done already, by a try whose answer was lost: how it is now decides what is asked of it next. The refusal is told
   * until then.
   */
  #change(key: string, link: Link, podReady: boolean, change: () => Promise<RunnerState>): Promise<void> {
    return this.#call(key, link, podReady, async () => {
      try {
        return await change();
      } catch (error) {
        if (isSvc3Error(error, 'Conflict'))
          link.state = await link.connection.state().catch(() => link.state);
        throw error;
      }
    });
  }

  /** Resolves when the call has ended, also when it has failed. */
  async #call(key: string, link: Link, podReady: boolean, call: () => Promise<RunnerState>): Promise<void> {
    link.busy = true;
    link.askedAt = this.#now();
    link.podReady = podReady;
    try {
      // After the pass that asks: its write of status does not wait for a connection to be set up.
      await nextTurn();
      link.state = await call();
      link.error = undefined;
      link.silentSince = undefined;
      link.refusedSince = undefined;
    } catch (error) {
      link.error = messageOf(error);
      if (isSvc3Error(error, 'Forbidden')) {
        link.refusedSince ??= this.#now();
        // It was another one that said so.
        link.state = undefined;
      }
    } finally {
      link.busy = false;
      link.verb = undefined;
      link.asking = undefined;
      this.#changed(key);
    }
  }
}

function observationOf(link: Link, booted: Offer | undefined, error: string | undefined): RunnerObservation {
  return {
    booted: booted?.effective,
    state: link.state,
    podReady: link.podReady,
    fingerprint: link.connection.fingerprint(),
    startedAt: link.state === undefined ? undefined : link.startedAt,
    verb: link.verb ?? verbUnderWay(link.state),
    growth: link.growth,
    isPending: false,
    error,
  };
}

/** What a runner carries out for somebody who has hung up, or for an operator that has ended. */
function verbUnderWay(state: RunnerState | undefined): PowerAction | undefined {
  return PowerAction.safeParse(state?.busy).data;
}

/** Whether there is something that the runner has not done or not said yet, of which no event will tell. */
function isPending(
  { state, refusedBytes, refusedSince }: Link,
  { vm, pod, bytes }: { readonly vm: Vm; readonly pod: Pod; readonly bytes: number | undefined },
): boolean {
  if (refusedSince !== undefined) return true;
  const placed = placedSettings(vm, pod);
  if (state === undefined) return !isAsRequested(vm, pod, placed);
  return (
    state.introducing === true ||
    state.busy !== undefined ||
    hasChangesAtOnce(state, vm, placed) ||
    (bytes !== undefined && isToGrow({ state, refusedBytes }, bytes))
  );
}

function isToGrow({ state, refusedBytes }: Pick<Link, 'state' | 'refusedBytes'>, bytes: number): boolean {
  return bytes > (state?.diskSize ?? Infinity) && bytes !== refusedBytes;
}

/** Whether it is the runner that has answered before, as the status says: not one that was started since, which may have lost its volume. */
function wasMet(vm: Vm, link: Link): boolean {
  // Operators of before did not write when it was started.
  const { address = link.address, startedAt = link.startedAt } = vm.status?.runner ?? {};
  return isOfKnownPod(vm, link) && address === link.address && startedAt === link.startedAt;
}

function isOfKnownPod(vm: Vm, link: Link): boolean {
  const { podUid, fingerprint } = vm.status?.runner ?? {};
  return podUid === link.podUid && fingerprint !== undefined;
}

/** Whether a growth is under way, which may wait for a copy of the disk, and the medium or ports are to change, which wait for none. */
function isInTheWay(link: Link, vm: Vm, pod: Pod): boolean {
  const { asking, verb, state } = link;
  const isGrowing = asking !== undefined && verb === undefined;
  if (!isGrowing || state === undefined) return false;
  const placed = placedSettings(vm, pod);
  return hasChangesAtOnce(
    state,
    vm,
    placed === undefined || arePortsRefused(link, placed) ? undefined : placed,
  );
}

/** Whether it is known that the runner cannot open all of these ports now: they come when they are asked for again. */
function arePortsRefused({ refusedPorts }: Link, placed: EffectiveSettings): boolean {
  return refusedPorts !== undefined && isSamePorts(refusedPorts, runnerPorts(placed));
}

/** A boot that another pod is to have is not asked for in this one. */
function heldStep(step: PowerStep, { powerState }: RunnerState, boot: BootTerms): PowerStep {
  if (boot.isHeld !== true || !isBoot(step)) return step;
  const isStopped = boot.isStoppedFirst === true && powerState === 'Running';
  return isStopped ? { kind: 'verb', request: { action: 'stop' } } : { kind: 'none' };
}

/** Whether the VM is to be something else by now than when what is under way was asked for. Its shutdown for good is never taken back. */
function isTakenBack({ asking, isStopAsked }: Link, { spec }: Vm): boolean {
  if (asking === undefined || isStopAsked) return false;
  const { powerState, revertRequest } = asking.spec;
  return spec.powerState !== powerState || spec.revertRequest !== revertRequest;
}

function isAnswered(link: Link, { action, startRequest, restartRequest }: PowerRequest): boolean {
  if (action === 'restart') return restartRequest === link.restartRequest;
  return startRequest !== undefined && startRequest === link.startRequest;
}
