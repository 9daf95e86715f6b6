import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { PowerRequest, RunnerSpec } from '../api/runner.ts';
import { Svc3Error } from '../errors.ts';
import { endNow } from './bringdown.ts';
import type { Disk } from './disk.ts';
import { unlessAborted, type Hibernation } from './hibernation.ts';
import { checkVerb, isCarriedOut } from './powerstate.ts';
import { guestDown } from './readiness.ts';
import type { Retries } from './retries.ts';
import { catchUp, letGoOn, pause } from './standstill.ts';
import type { SavedState, StateFile } from './statefile.ts';
import type { StatusBoard } from './status.ts';
import type { Running } from './watch.ts';

/** Nobody waits longer for a memory that is written to a disk, in milliseconds. */
const longestWriteMs = 3_600_000;

/** Of what nobody takes back. */
export const forEver = new AbortController().signal;

/** The guest as verbs start and end it. */
export interface VerbGuest {
  /** The QEMU that runs now. */
  running(): Running | undefined;
  /** Whether the pod is being ended. */
  isEnding(): boolean;
  /** Starts the guest where it does not run; what fails is in the status. */
  boot(): Promise<void>;
  /** Ends the guest within the time, where it runs. */
  takeDown(graceMs: number): Promise<void>;
  /** A start that was to be tried again is not. */
  cancelRetry(): void;
  /** Says that the guest is down since that was requested. */
  stopped(reason: 'Requested'): Promise<void>;
  /** Writes down what is so whether or not it can be. */
  note(change: Partial<SavedState>): Promise<void>;
}

export interface VerbParts {
  readonly spec: RunnerSpec;
  readonly state: StateFile;
  readonly disk: Disk;
  readonly memory: Hibernation;
  readonly retries: Retries;
  readonly status: StatusBoard;
  readonly log: Logger;
  readonly guest: VerbGuest;
}

/**
 * The power verbs of a VM. To be called in turn, one at a time: what a verb has to outlive this process with is in the state file before it is
 * done.
 */
export class PowerVerbs {
  readonly #parts: VerbParts;
  /** Of the memory that is being written for a verb: whether it came to the disk. */
  #writing: Promise<boolean> = Promise.resolve(true);
  /** Aborted once the pod's end waits no longer for a memory that is being written for a verb. */
  readonly #podEnds = new AbortController();

  constructor(parts: VerbParts) {
    this.#parts = parts;
  }

  /** Whether the guest is where its memory is, on its disk: that is not all of the guest. */
  isAsleep(): boolean {
    return this.#parts.guest.running() === undefined && this.#parts.memory.isThere;
  }

  /**
   * Throws Conflict where the verb does not fit the state, ServiceUnavailable where the pod is being ended.
   *
   * @param wanted - aborted when nobody waits for it any more: the verb is given up, with the signal's reason, until it has the disk to itself
   */
  async carryOut(request: PowerRequest, wanted: AbortSignal = forEver): Promise<void> {
    const { action } = request;
    wanted.throwIfAborted();
    if (isCarriedOut(request, this.#parts.state.current)) return;
    this.#checkStays();
    const { powerState } = this.#parts.status.current;
    if (request.suspendTo !== 'Disk' || powerState !== 'Suspended') checkVerb(action, powerState);
    this.#parts.status.update({ busy: action });
    this.#parts.log.info({ action }, 'power verb begun');
    const verbs = {
      start: () => this.#start(request, wanted),
      stop: () => this.#stopOrSay(wanted),
      restart: () => this.#restart(request, wanted),
      suspend: () => (request.suspendTo === 'Disk' ? this.#suspendToDisk(wanted) : this.#suspend()),
      resume: () => this.#resume(),
      revert: () => this.#revert(request, wanted),
    };
    try {
      await verbs[action]();
    } finally {
      this.#parts.status.update({ busy: undefined });
    }
  }

  async #start(request: PowerRequest, wanted: AbortSignal): Promise<void> {
    if (this.#parts.guest.running() !== undefined) return this.#startPaused(request, wanted);
    await this.#noteRequest(request);
    this.#parts.retries.renew();
    await this.#parts.guest.boot();
  }

  /** A guest that a full disk has paused goes on by itself, with the settings that it has; only a restart that the start answers ends it. */
  async #startPaused({ settings, ...request }: PowerRequest, wanted: AbortSignal): Promise<void> {
    const restart = { ...request, action: 'restart' } as const;
    const isAsked = request.restartRequest !== undefined && !isCarriedOut(restart, this.#parts.state.current);
    if (isAsked) return this.#restart(settings === undefined ? restart : { ...restart, settings }, wanted);
    await this.#noteRequest(request);
    this.#parts.retries.renew();
  }

  /** Written down first: a runner that is killed before the guest is down takes it along, and boots it anew by itself. */
  async #restart(request: PowerRequest, wanted: AbortSignal): Promise<void> {
    await this.#haveDisk(wanted);
    await this.#noteRequest(request);
    await this.#parts.guest.takeDown(this.#parts.spec.graceSeconds * 1000);
    this.#parts.status.update({ powerState: 'Stopped', ...guestDown, retrying: false });
    this.#parts.retries.renew();
    await this.#parts.guest.boot();
  }

  /** The VM is to run, and the boot that follows answers these requests. */
  async #noteRequest(request: PowerRequest): Promise<void> {
    const { current } = this.#parts.state;
    const startRequest = request.startRequest ?? current.startRequest;
    const restartRequest = request.restartRequest ?? current.restartRequest;
    const settings = request.settings ?? current.settings;
    const told = { reason: undefined, message: undefined, crashes: undefined };
    await this.#parts.state.save({ powerState: 'Running', ...told, startRequest, restartRequest, settings });
    this.#parts.status.update({ startRequest, restartRequest, settingsVersion: settings?.version });
  }

  /** Whoever asks is to ask again: what keeps the guest from going on may go away. */
  async #stopOrSay(wanted: AbortSignal): Promise<void> {
    if (await this.stop(wanted)) return;
    const { message = 'it does not go on' } = this.#parts.status.current;
    const why = `the guest has to go on from its memory before it can be shut down: ${message}`;
    throw new Svc3Error('ServiceUnavailable', why);
  }

  /** @returns false where a guest that is asleep could not go on: it is asleep still, and the message says why. */
  async stop(wanted: AbortSignal = forEver): Promise<boolean> {
    await this.#haveDisk(wanted);
    await this.#parts.guest.note({ powerState: 'Stopped', reason: 'Requested', message: undefined });
    // What it has not written yet is in its memory.
    if (this.#parts.memory.isThere) await this.#parts.guest.boot();
    if (this.isAsleep()) {
      this.asleep(this.#parts.status.current.message);
      return false;
    }
    await this.#parts.guest.takeDown(this.#parts.spec.graceSeconds * 1000);
    await this.#parts.guest.stopped('Requested');
    return true;
  }

  async #suspend(): Promise<void> {
    const { machine } = this.#need();
    await pause(machine);
    try {
      await this.#parts.state.save({ powerState: 'Suspended', reason: 'Requested', message: undefined });
    } catch (error) {
      letGoOn(machine);
      throw error;
    }
    const only = this.#parts.spec.gpuPassthrough ? ' only, since the VM has a GPU' : '';
    const message = `suspended in memory${only}: it is lost when the pod ends`;
    this.#parts.status.update({ powerState: 'Suspended', reason: 'Requested', message });
  }

  async #suspendToDisk(wanted: AbortSignal): Promise<void> {
    if (this.isAsleep()) return;
    const running = this.#need();
    await unlessAborted(this.#parts.disk.free(), wanted);
    // Whoever ends the pod lets the guest go on.
    this.#checkStays();
    const saved = { powerState: 'Suspended', reason: 'Requested', message: undefined } as const;
    const signal = AbortSignal.any([AbortSignal.timeout(longestWriteMs), this.#podEnds.signal]);
    const written = this.writeMemory(running, { signal, saved });
    this.#writing = written.then(
      () => true,
      () => false,
    );
    try {
      await written;
    } finally {
      this.#writing = Promise.resolve(true);
    }
  }

  /**
   * Of a pod that is being ended: waits so long for the memory that is being written for a verb, and gives it up then.
   *
   * @returns false where the guest goes on instead
   */
  async endWriting(withinMs: number): Promise<boolean> {
    const writing = this.#writing;
    await Promise.race([writing, delay(withinMs, undefined, { ref: false })]);
    this.giveUpWriting();
    // However long that takes: the guest must not go on before its memory is nobody's.
    return writing;
  }

  /** The pod that is being ended has no use for a memory that is being written for a verb. */
  giveUpWriting(): void {
    this.#podEnds.abort(new Error('the pod of the VM is being ended'));
  }

  async #resume(): Promise<void> {
    if (this.isAsleep()) {
      await this.#parts.state.save({ powerState: 'Running', reason: undefined, message: undefined });
      return this.#parts.guest.boot();
    }
    const { machine } = this.#need();
    await machine.qmp.execute('cont');
    void catchUp(machine.agent);
    await this.#parts.state.save({ powerState: 'Running', reason: undefined, message: undefined });
    this.#parts.status.update({ powerState: 'Running', reason: undefined, message: undefined });
  }

  async #revert({ stopped, revertRequest }: PowerRequest, wanted: AbortSignal): Promise<void> {
    await this.#haveDisk(wanted);
    const powerState = stopped === true ? 'Stopped' : 'Running';
    const told = { reason: 'Requested', message: undefined } as const;
    const reverting = { request: revertRequest };
    await this.#parts.memory.forget({
      powerState,
      ...told,
      reverting,
      crashes: undefined,
      runsOn: undefined,
    });
    const running = this.#parts.guest.running();
    if (running !== undefined) {
      running.expected = true;
      await endNow(running.machine);
    }
    const down = { powerState: 'Stopped', suspendKind: undefined, ...guestDown } as const;
    this.#parts.status.update({ ...down, ...told, retrying: false });
    this.#parts.retries.renew();
    if (powerState === 'Running') await this.#parts.guest.boot();
    else await this.#parts.disk.prepare();
  }

  /** From here on the guest is where its memory is. */
  async writeMemory(running: Running, how: Parameters<Hibernation['write']>[1]): Promise<void> {
    await this.#parts.memory.write(running, how);
    running.expected = true;
    await endNow(running.machine);
    this.asleep();
  }

  /** Says that the guest is where its memory is. */
  asleep(message = "the guest's memory is on its disk"): void {
    const told = { reason: 'Requested', message } as const;
    this.#parts.status.update({
      powerState: 'Suspended',
      suspendKind: 'Disk',
      retrying: false,
      ...guestDown,
      ...told,
    });
    this.#parts.log.info({}, message);
  }

  /** Until then the VM is as if the verb had not been asked for: a QEMU that ends meanwhile is to be started again. */
  async #haveDisk(wanted: AbortSignal): Promise<void> {
    await unlessAborted(this.#parts.disk.free(), wanted);
    this.#parts.guest.cancelRetry();
  }

  #checkStays(): void {
    if (this.#parts.guest.isEnding()) throw new Svc3Error('ServiceUnavailable', 'the VM is being shut down');
  }

  #need(): Running {
    const running = this.#parts.guest.running();
    if (running === undefined) throw new Svc3Error('Conflict', 'the VM does not run');
    return running;
  }
}
