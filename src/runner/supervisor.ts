import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { ClaimRequest, PowerRequest, ResizeReply, RunnerPort, RunnerSpec } from '../api/runner.ts';
import { messageOf, Svc3Error } from '../errors.ts';
import type { ControlAction } from '../runnerapi/token.ts';
import { devices } from './args.ts';
import { readBootId } from './bootid.ts';
import { bringDown, runState } from './bringdown.ts';
import { CrashCount } from './crashcount.ts';
import { Disk } from './disk.ts';
import { diagnoseExit, RunnerFailure } from './failure.ts';
import { Hibernation, unlessAborted } from './hibernation.ts';
import { Launcher } from './launcher.ts';
import { createStartPhases } from './startphases.ts';
import { changePorts } from './podports.ts';
import { createQueue } from './powerstate.ts';
import { renewSeed, withSettings, type Host } from './preparation.ts';
import { introduce } from './introduction.ts';
import { guestDown } from './readiness.ts';
import { forwardAddress, type PortRelay } from './relay.ts';
import { createRetries, type Retries } from './retries.ts';
import { pause } from './standstill.ts';
import { type SavedState, startingState, StateFile } from './statefile.ts';
import { createStatusBoard, type StatusBoard } from './status.ts';
import { forEver, PowerVerbs } from './verbs.ts';
import { wokenFromPool } from './wokenstatus.ts';
import type { Running } from './watch.ts';
import type { SerialConsole } from './serialconsole.ts';

/**
 * Milliseconds between the end of a pod and the suspension of its guest: where Kubernetes ends the pod because its VM is deleted
 * (`--cascade=foreground`), the operator learns of that at the same time and asks for a shutdown instead.
 */
const stopNoticeMs = 2_000;

/** Of a guest that is taken down when the time of its pod is over already, in milliseconds. */
const leastGraceMs = 1_000;

/** A guest that waits for a VM tells when it changes; this is for what was missed, in milliseconds. */
const lookAgainMs = 60_000;

export interface SupervisorOptions {
  readonly host: Host;
  readonly podUid: string | undefined;
  /** Leads ports of the pod's IPv6 address to QEMU. */
  readonly relay: Pick<PortRelay, 'lead'>;
  readonly log: Logger;
  readonly serial: SerialConsole;
  /** Of this start of the node; only tests have another than the kernel's. */
  readonly bootId?: string;
}

/**
 * Drives the one QEMU of a VM: boots it, has power verbs carried out (`verbs.ts`), starts it again after a crash. What must outlive this
 * process is in the state file before it is done, so that a runner that is killed goes on where it was.
 */
export class Supervisor {
  readonly status: StatusBoard;
  /** Runs a task in turn with the verbs: one at a time, in the order of asking. */
  readonly inTurn = createQueue();
  readonly phases = createStartPhases();
  readonly #options: SupervisorOptions;
  readonly #state: StateFile;
  readonly #disk: Disk;
  readonly #memory: Hibernation;
  readonly #retries: Retries;
  readonly #crashes: CrashCount;
  readonly #launcher: Launcher;
  readonly #verbs: PowerVerbs;
  #running: Running | undefined;
  #retryTimer: NodeJS.Timeout | undefined;
  #isEnding = false;
  /** Aborted when a stop is asked for while the pod ends: the guest is then shut down, not suspended. */
  readonly #forGood = new AbortController();
  #booting: Promise<Running | undefined> = Promise.resolve(undefined);
  /** Resolves when no copy of the disk holds the guest's file systems frozen: its memory is not written before, since they would stay so for good. */
  #guestHeld: Promise<unknown> = Promise.resolve();
  /** Aborted right before the memory of the guest is written at the end of the pod: copies of the disk end then. */
  readonly #suspending = new AbortController();

  constructor(options: SupervisorOptions) {
    const { host, podUid } = options;
    const { powerState, restart } = host.spec;
    const never = { ejected: false, guestStarted: false };
    this.#options = options;
    this.status = createStatusBoard({
      powerState: 'Stopped',
      ...guestDown,
      reason: 'Starting',
      retrying: false,
      restarts: 0,
      ports: host.spec.ports,
      ...(host.spec.standby === undefined ? {} : { standby: 'Preparing' as const }),
      ...never,
    });
    this.#state = new StateFile(join(host.folders.state, 'state.json'), podUid, {
      version: 1,
      powerState,
      ...never,
    });
    this.#disk = new Disk(host, this.#state, this.status);
    this.#memory = new Hibernation(host.folders, this.#state);
    this.#retries = createRetries(restart, () => performance.now());
    this.#crashes = new CrashCount({
      state: this.#state,
      retries: this.#retries,
      bootId: options.bootId ?? readBootId(),
      note: (change) => this.#note(change),
    });
    this.#launcher = new Launcher({
      ...options,
      host: () => this.#host(),
      state: this.#state,
      disk: this.#disk,
      memory: this.#memory,
      status: this.status,
      started: () => this.#retries.started(),
      lead: (ports) => this.#lead(ports),
      isEnding: () => this.#isEnding,
    });
    this.#verbs = new PowerVerbs({
      spec: host.spec,
      state: this.#state,
      disk: this.#disk,
      memory: this.#memory,
      retries: this.#retries,
      status: this.status,
      log: options.log,
      guest: {
        running: () => this.#running,
        isEnding: () => this.#isEnding,
        boot: () => this.#boot(),
        takeDown: (graceMs) => this.#takeDown(graceMs),
        cancelRetry: () => clearTimeout(this.#retryTimer),
        stopped: (reason) => this.#stopped(reason),
        note: (change) => this.#note(change),
      },
    });
  }

  /** What the guest runs with, or will when it is started next without other settings. */
  spec(): RunnerSpec {
    return this.#host().spec;
  }

  #host(): Host {
    return withSettings(this.#options.host, this.#state.current);
  }

  /** The UID that callers have to name: that of the VM; that of the pod while its guest is no VM's, and for every claim. */
  uid(action?: ControlAction): string {
    const { host, podUid = '' } = this.#options;
    const { claimedBy } = this.#state.current;
    if (host.spec.standby === undefined) return host.spec.vm.uid;
    return action === 'claim' || claimedBy === undefined ? podUid : claimedBy.uid;
  }

  /** The QEMU that runs now. */
  running(): Running | undefined {
    return this.#running;
  }

  /** Whether the guest is suspended to its disk: a copy of the disk would be without the memory that belongs to it. */
  isAsleep(): boolean {
    return this.#verbs.isAsleep();
  }

  /** Why there is no disk that could be copied; undefined where there is one. */
  diskRefusal(): RunnerFailure | undefined {
    return this.#disk.refusal;
  }

  /** Keeps the disk from being taken away, and QEMU from ending by itself, until then. */
  holdDisk(until: Promise<unknown>): void {
    this.#disk.hold(until);
  }

  /** Ends the copies of the disk that are being made when the pod suspends its guest: QEMU writes no memory meanwhile, and they would end with the pod. */
  get copiesEnd(): AbortSignal {
    return this.#suspending.signal;
  }

  /** Keeps the end of the pod from writing the guest's memory until then: a guest whose file systems are frozen in it would be so for good. */
  holdGuest(until: Promise<unknown>): void {
    this.#guestHeld = until;
  }

  /** Reads what was saved and boots the VM where it is to run. */
  start(): Promise<void> {
    return this.inTurn(() => this.#begin());
  }

  /**
   * Carries out a verb. Throws Conflict when it does not fit the state. A stop of a pod that is being ended has its guest shut down, not suspended.
   *
   * @param wanted - aborted when nobody waits for the verb any more: it is given up where it has not begun or waits for a copy of the disk
   */
  async power(request: PowerRequest, wanted?: AbortSignal): Promise<void> {
    if (!this.#isEnding || request.action !== 'stop')
      return this.inTurn(() => this.#verbs.carryOut(request, wanted));
    this.#forGood.abort();
    this.#verbs.giveUpWriting();
  }

  /** The guest becomes that of a VM. Throws Conflict where it is another VM's, or never waited for one. */
  claim(request: ClaimRequest): Promise<void> {
    return this.inTurn(() => this.#claim(request));
  }

  /**
   * Grows the disk once no copy needs it, for which no verb waits. Throws Conflict where another copy has begun by its turn.
   *
   * @param wanted - aborted when nobody waits for it any more: it is given up, with the signal's reason, until it has begun
   */
  async resize(bytes: number, wanted: AbortSignal = forEver): Promise<ResizeReply> {
    await unlessAborted(this.#disk.free(), wanted);
    return this.inTurn(async () => {
      wanted.throwIfAborted();
      return this.#disk.resize(bytes, this.#running?.machine);
    });
  }

  /** Takes the CD out for good; once it is out that changes nothing. Throws Conflict where there is no drive. */
  eject(): Promise<void> {
    return this.inTurn(() => this.#eject());
  }

  /** The ports that lead into the guest from now on, also after its next starts. */
  setPorts(ports: readonly RunnerPort[]): Promise<void> {
    return this.inTurn(() => this.#setPorts(ports));
  }

  /** Takes the guest down within the time and starts nothing again. Not in turn: a hung verb must not stop it. */
  async shutdown(graceMs: number): Promise<void> {
    const until = performance.now() + graceMs + this.#options.host.spec.suspendSeconds * 1000;
    this.#isEnding = true;
    clearTimeout(this.#retryTimer);
    this.status.update({ reason: 'ShuttingDown', message: 'the pod is being ended' });
    // A boot takes half of the grace period at most, the rest is for the shutdown. So does a memory that a verb writes (`#endsAsleep`): verbs and boots
    // take turns, so only one of the two is ever waited for.
    await Promise.race([this.#booting, delay(graceMs / 2, undefined, { ref: false })]);
    if (await this.#endsAsleep(graceMs)) return;
    await this.#takeDown(Math.min(graceMs, Math.max(leastGraceMs, until - performance.now())));
    await this.#crashes.noteEnded();
    this.status.update({ powerState: 'Stopped', suspendKind: undefined, ...guestDown });
  }

  /** Whether the guest stays where its memory is, on its disk: one that went on now would write to the disk that the memory belongs to. */
  async #endsAsleep(graceMs: number): Promise<boolean> {
    const { suspendSeconds } = this.#options.host.spec;
    const isWritten = await this.#verbs.endWriting(Math.max(graceMs / 2, suspendSeconds * 1000));
    if (isWritten && (await this.#suspendAtEnd())) return true;
    if (!this.isAsleep()) return false;
    this.status.update({ powerState: 'Suspended', suspendKind: 'Disk', ...guestDown, retrying: false });
    return true;
  }

  /**
   * With `onEviction: Suspend` writes the guest's memory to its disk, and the next pod goes on with it. False where the guest has to be
   * shut down instead: it is not requested to run, a verb is under way, a stop is asked for, or the memory could not be written in time.
   */
  async #suspendAtEnd(): Promise<boolean> {
    const { onEviction, suspendSeconds } = this.#options.host.spec;
    const { powerState, busy } = this.status.current;
    const running = this.#running;
    const isWanted = this.#state.current.powerState !== 'Stopped' && busy === undefined;
    const isUp = powerState === 'Running' || powerState === 'Suspended';
    if (onEviction !== 'Suspend' || running === undefined || !isWanted || !isUp) return false;
    const { signal: forGood } = this.#forGood;
    const signal = AbortSignal.any([AbortSignal.timeout(suspendSeconds * 1000), forGood]);
    try {
      await unlessAborted(
        Promise.all([this.#guestHeld, delay(stopNoticeMs, undefined, { ref: false })]),
        signal,
      );
      this.#suspending.abort(new Error('the pod of the VM is being ended'));
      await unlessAborted(this.#disk.free(), signal);
      if (this.#running !== running) return false;
      await this.#verbs.writeMemory(running, { signal, saved: {} });
      return true;
    } catch (error) {
      if (forGood.aborted) return false;
      const message = `the guest was shut down when its pod ended, its memory could not be written: ${messageOf(error)}`;
      this.#options.log.warn({}, message);
      await this.#state.save({ notSuspended: message }).catch(() => undefined);
      return false;
    }
  }

  /**
   * The state that was saved decides what becomes of the guest:
   *
   * | power state | memory on the disk | what is done |
   * |---|---|---|
   * | any, but the container ended under the guest | any | counts as a crash; the guest is started while retries are left |
   * | Running | any | the guest is started: from the memory where there is one, else it boots |
   * | Suspended | yes | it stays suspended |
   * | Suspended | no | Stopped, `SuspendedStateLost` |
   * | Stopped | yes | the guest goes on from it and is shut down: what it has not written to its disk is in there |
   * | Stopped | no | Stopped; in the same pod for the reason of before |
   */
  async #begin(): Promise<void> {
    const before = await this.#state.read();
    const isSamePod = before?.podUid === this.#options.podUid;
    this.#state.adopt(startingState(before, isSamePod, this.#state.current, this.#options.host.spec));
    this.#crashes.resume();
    await this.#memory
      .clear()
      .catch((error: unknown) => this.#options.log.warn({ err: error }, 'the volume could not be cleared'));
    await this.#state.reserve();
    const { ejected, guestStarted, startRequest, restartRequest, powerState, ports, settings } =
      this.#state.current;
    const settingsVersion = settings?.version;
    if (this.#state.current.claimedBy !== undefined) this.status.update({ standby: undefined });
    void this.#standBy();
    this.status.update({ ejected, guestStarted, startRequest, restartRequest, settingsVersion });
    await this.#lead(ports ?? this.#options.host.spec.ports);
    if (isSamePod || powerState !== 'Running') this.phases.beginWithout();
    const loss = this.#crashes.loss();
    if (loss !== undefined) return this.#bootAfterLoss(loss);
    if (powerState === 'Running') return this.#boot();
    try {
      await this.#disk.prepare();
    } catch (error) {
      return this.#fail(asFailure(error), false);
    }
    if (this.#memory.isThere && powerState === 'Suspended') return this.#verbs.asleep();
    if (this.#memory.isThere) return void (await this.#verbs.stop());
    if (powerState === 'Suspended') {
      const message = 'the memory of the suspended guest was lost with its pod or runner';
      return this.#stopped('SuspendedStateLost', message);
    }
    const reason = isSamePod && before?.reason === 'GuestShutdown' ? 'GuestShutdown' : 'Requested';
    return this.#stopped(reason, isSamePod ? before?.message : undefined);
  }

  /** The end of its container is a crash of the guest. The kubelet has waited before it began the next life of it. */
  async #bootAfterLoss(failure: RunnerFailure): Promise<void> {
    const isRestarted = this.#retries.after(failure, true) !== undefined;
    await this.#crashes.crashed();
    const { log } = this.#options;
    log.warn({ restarts: this.#retries.crashes }, failure.message);
    if (isRestarted) return this.#boot();
    // It can be saved; what is wrong with it the next start says.
    await this.#disk.prepare().catch((err: unknown) => log.warn({ err }, 'the disk could not be prepared'));
    this.#tell(failure, undefined);
  }

  /** Pauses a guest that is ready and that no VM has claimed; again after each of its boots. */
  async #standBy(): Promise<void> {
    const { status } = this;
    while (status.current.standby !== undefined && !this.#isEnding) {
      const { revision, current } = status;
      const isReady = current.powerState === 'Running' && current.guestReady === true;
      if (current.standby === 'Preparing' && isReady) await this.inTurn(() => this.#becomeIdle());
      else if (current.standby === 'Idle' && current.powerState !== 'Suspended' && !isReady)
        status.update({ standby: 'Preparing' });
      await status.changed(revision, lookAgainMs);
    }
  }

  /** Tells the operator that a VM may have this guest. */
  async #becomeIdle(): Promise<void> {
    const { powerState, standby } = this.status.current;
    if (standby !== 'Preparing' || powerState !== 'Running' || this.#running === undefined) return;
    if (this.#options.host.spec.standby === 'Suspended') {
      try {
        await pause(this.#running.machine);
      } catch (error) {
        // It has ended meanwhile, and is booted again, or has a slow disk: it is paused later.
        this.#options.log.warn({ err: error }, 'the guest could not be paused');
        return;
      }
      this.status.update({ powerState: 'Suspended', standby: 'Idle', message: 'the guest waits for a VM' });
    } else this.status.update({ standby: 'Idle' });
    this.#options.log.info({}, 'the guest waits for a VM');
  }

  /** Written down before the guest goes on: whoever asks later is told so, also after a restart of this process. */
  async #claim({ podUid, vm, settings }: ClaimRequest): Promise<void> {
    const { host, podUid: own, log } = this.#options;
    const { claimedBy } = this.#state.current;
    if (host.spec.standby === undefined || podUid !== own)
      throw new Svc3Error('Conflict', 'this guest waits for no VM');
    if (claimedBy !== undefined && claimedBy.uid !== vm.uid)
      throw new Svc3Error('Conflict', 'this guest is that of another VM');
    if (this.#isEnding) throw new Svc3Error('ServiceUnavailable', 'the guest is being shut down');
    if (claimedBy === undefined) await this.#state.save({ claimedBy: vm, settings, powerState: 'Running' });
    if (this.status.current.standby === undefined) return;
    const running = this.#running;
    const isPaused = this.status.current.powerState === 'Suspended';
    if (running !== undefined) await this.#renewSeed();
    if (running !== undefined && isPaused) await running.machine.qmp.execute('cont');
    this.phases.claim();
    this.status.update({
      standby: undefined,
      settingsVersion: settings.version,
      ...(isPaused ? { powerState: 'Running', message: undefined } : {}),
    });
    log.info({}, 'the guest is that of a VM now');
    if (running === undefined && !this.status.current.retrying) await this.#boot();
    else if (running !== undefined) void this.#introduce(running);
  }

  /** While the guest still waits, so that it never boots again as what it was. A VM has its guest all the same where that cannot be. */
  async #renewSeed(): Promise<void> {
    await renewSeed(this.#host()).catch((err: unknown) =>
      this.#options.log.warn({ err }, 'a guest that boots again by itself is not told whose it is'),
    );
  }

  /** A claim is answered before this (ADR 44): what has failed is said when it is over. */
  async #introduce(running: Running): Promise<void> {
    this.status.update({ introducing: true });
    const { host, log } = this.#options;
    const own = this.#host().spec;
    const failure = await introduce(running.machine, own, log);
    const isHere = this.#running === running;
    const { warmStart } = this.status.current;
    const claimed = { before: warmStart, booted: host.spec, own };
    const told = isHere && failure !== undefined ? wokenFromPool(claimed, failure) : undefined;
    this.status.update({ introducing: undefined, warmStart: told ?? warmStart });
  }

  async #boot(): Promise<void> {
    this.#booting = this.#bootNow();
    const running = await this.#booting;
    if (running !== undefined) await this.#becomeRunning(running);
  }

  /** The guest that has been started; undefined where none has. */
  async #bootNow(): Promise<Running | undefined> {
    clearTimeout(this.#retryTimer);
    if (this.#isEnding || this.#running !== undefined) return undefined;
    try {
      this.phases.enter('disk');
      await this.#disk.prepare();
      this.phases.enter('machine');
      const running = await this.#launcher.launch();
      this.#adopt(running);
      this.phases.enter('guest');
      void this.#timeGuest();
      await this.#crashes.started(running.machine.exited);
      // One that has only begun to boot has nothing to lose; whoever ends the pod waits for any other.
      if (this.#isEnding && running.goesOn !== true) await this.#takeDown(1000);
      return running;
    } catch (error) {
      this.phases.end();
      if (this.#isEnding) this.#options.log.info({ err: error }, 'the guest is not started any more');
      else this.#fail(asFailure(error), false);
      return undefined;
    }
  }

  /** Reports `Running` once a guest that goes on from a memory has an identity of its own. Whoever ends the pod meanwhile shuts it down as any other. */
  async #becomeRunning(running: Running): Promise<void> {
    const { woken, machine } = running;
    const warmStart = await Promise.race([woken, machine.exited.then(() => undefined)]);
    // Meanwhile it may have met a full disk: it runs when there is room again.
    const state = woken === undefined ? undefined : await runState(machine.qmp).catch(() => undefined);
    if (this.#running !== running) return;
    if (state === 'io-error') return this.status.update({ warmStart });
    this.status.update({
      powerState: 'Running',
      suspendKind: undefined,
      reason: undefined,
      message: undefined,
      retrying: false,
      restarts: this.#retries.crashes,
      ...(warmStart === undefined ? {} : { warmStart }),
    });
  }

  /**
   * Saves what holds also where it cannot be saved: a volume that is full, or cannot be written to, keeps no guest from running and none from
   * being stopped. A runner that is killed then has lost it, and the operator, which finds the guest otherwise, asks for it again.
   */
  async #note(change: Partial<SavedState>): Promise<void> {
    await this.#state
      .save(change)
      .catch((error: unknown) =>
        this.#options.log.error({ err: error }, "the VM's state could not be written down"),
      );
  }

  /** Ends the last phase of a start when the guest is ready, or is none any more. */
  async #timeGuest(): Promise<void> {
    const { status } = this;
    const running = this.#running;
    while (this.#running === running && status.current.guestReady !== true)
      await status.changed(status.revision, lookAgainMs);
    if (this.#running === running) this.phases.end();
  }

  #adopt(running: Running): void {
    this.#running = running;
    this.status.update({ guestStarted: true });
    void running.machine.exited.then(async (exit) => {
      if (this.#running !== running) return;
      this.#running = undefined;
      this.phases.end();
      // The verb that ended QEMU writes the status.
      if (running.expected) return;
      if (running.end === 'guestShutdown')
        return this.#stopped('GuestShutdown', 'the guest has shut itself down');
      const failure = running.failure ?? diagnoseExit(exit, true);
      // A suspended guest that is lost is not booted: what it was to go on with is gone.
      if (this.#state.current.powerState === 'Suspended' && !this.#memory.isThere)
        return this.#stopped('SuspendedStateLost', `the suspended guest was lost: ${failure.message}`);
      this.#fail(failure, true);
    });
  }

  async #stopped(
    reason: 'GuestShutdown' | 'Requested' | 'SuspendedStateLost',
    message?: string,
  ): Promise<void> {
    clearTimeout(this.#retryTimer);
    await this.#note({ powerState: 'Stopped', reason, message, runsOn: undefined });
    const stopped = { powerState: 'Stopped', suspendKind: undefined, ...guestDown } as const;
    this.status.update({ ...stopped, reason, message, retrying: false });
    this.#options.log.info({ reason }, 'VM stopped');
  }

  #fail(failure: RunnerFailure, hasRun: boolean): void {
    const backoffMs = this.#retries.after(failure, hasRun);
    if (hasRun) void this.#crashes.crashed();
    this.#tell(failure, backoffMs);
  }

  /** @param backoffMs - before it is tried again; undefined where it is not */
  #tell(failure: RunnerFailure, backoffMs: number | undefined): void {
    const { reason } = failure;
    const retrying =
      backoffMs !== undefined && !this.#isEnding && this.#state.current.powerState === 'Running';
    const message = retrying
      ? `${failure.message}; starting again in ${backoffMs / 1000} s`
      : failure.message;
    const restarts = this.#retries.crashes;
    this.status.update({ powerState: 'Failed', ...guestDown, reason, message, retrying, restarts });
    this.#options.log.error({ reason, retrying }, message);
    if (retrying) this.#retryTimer = setTimeout(() => void this.inTurn(() => this.#bootAgain()), backoffMs);
  }

  /** The verb before it in turn may have stopped the VM. */
  async #bootAgain(): Promise<void> {
    if (this.status.current.retrying) await this.#boot();
  }

  async #takeDown(graceMs: number): Promise<void> {
    const running = this.#running;
    if (running === undefined) return;
    const { qmp, shutdownQmp } = running.machine;
    running.expected = true;
    await bringDown(running.machine, this.#isEnding ? shutdownQmp : qmp, graceMs);
    this.#options.log.info({ by: running.end ?? 'runner' }, 'QEMU ended');
  }

  async #eject(): Promise<void> {
    if (!this.#options.host.spec.iso) throw new Svc3Error('Conflict', 'the VM has no CD');
    if (this.#state.current.ejected) return;
    await this.#running?.machine.qmp.execute('eject', { id: devices.cd, force: true });
    await this.#state.save({ ejected: true });
    this.status.update({ ejected: true });
  }

  async #setPorts(ports: readonly RunnerPort[]): Promise<void> {
    await this.#state.save({ ports: [...ports] });
    const running = this.#running;
    if (running === undefined) return this.#lead(ports);
    const change = { before: this.status.current.ports, after: ports };
    const changed = await changePorts(running.ports, forwardAddress(this.#options.host.bind), change);
    await this.#lead(changed.ports, changed.message);
    this.#options.log.info({ ports: changed.ports.length }, changed.message ?? 'ports changed');
  }

  async #lead(ports: readonly RunnerPort[], portsMessage?: string): Promise<void> {
    await this.#options.relay.lead(ports);
    this.status.update({ ports, portsMessage });
  }
}

function asFailure(error: unknown): RunnerFailure {
  return error instanceof RunnerFailure
    ? error
    : new RunnerFailure('StartFailed', messageOf(error), { cause: error });
}
