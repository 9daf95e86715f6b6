import type { Logger } from 'pino';
import type { RunnerPort } from '../api/runner.ts';
import { messageOf } from '../errors.ts';
import { qemuArguments, type MachineInput, type QemuCommand } from './args.ts';
import { endNow } from './bringdown.ts';
import type { Disk } from './disk.ts';
import type { Hibernation } from './hibernation.ts';
import { wake } from './introduction.ts';
import { launchMachine, type Machine } from './machine.ts';
import { clearSockets, prepareMachine, type Host } from './preparation.ts';
import type { SerialConsole } from './serialconsole.ts';
import { catchUp } from './standstill.ts';
import type { SavedState, StateFile } from './statefile.ts';
import type { StatusBoard } from './status.ts';
import { wokenFromImage } from './wokenstatus.ts';
import { ColdStart, startFromMemory } from './warmstart.ts';
import { watchMachine, type Running } from './watch.ts';

export interface LauncherParts {
  /** With the settings that were told last. */
  host(): Host;
  readonly state: StateFile;
  readonly disk: Disk;
  readonly memory: Hibernation;
  readonly status: StatusBoard;
  readonly serial: SerialConsole;
  readonly log: Logger;
  /** There is a QEMU. */
  started(): void;
  lead(ports: readonly RunnerPort[]): Promise<void>;
  isEnding(): boolean;
}

/** What the state file says from before a guest runs on the overlay. */
const used = { untouched: false } satisfies Partial<SavedState>;

/**
 * Starts QEMU, and the guest in it: from its own memory on the disk, from the memory of its image, or by a boot. A memory that cannot be used
 * is no failed start; the status says why the guest boots.
 */
export class Launcher {
  readonly #parts: LauncherParts;
  /** Why a guest that was suspended is lost has been said, and no guest has been started since. */
  #isLossTold = false;

  constructor(parts: LauncherParts) {
    this.#parts = parts;
  }

  /** Throws RunnerFailure, or the Error of a QEMU that makes no progress. */
  async launch(): Promise<Running> {
    const running = await this.#start();
    this.#isLossTold = false;
    return running;
  }

  async #start(): Promise<Running> {
    const { memory, state, status } = this.#parts;
    const { spec } = this.#parts.host();
    const isResumed = memory.isThere;
    const resumed = isResumed ? await this.#fromOwnMemory() : undefined;
    if (resumed !== undefined) return resumed;
    if (isResumed || (await this.#tellNotSuspended())) this.#isLossTold = true;
    const warm = spec.warm ? await this.#fromImage() : undefined;
    if (warm !== undefined) return warm;
    // What was said of the start before is not true of this one.
    if (!this.#isLossTold && !spec.warm) status.update({ warmStart: undefined });
    const input = await this.#prepare();
    // Also of a pod that has no use for the memory of the image: the next one may.
    if (state.current.untouched === true) await state.save(used);
    return this.#watch(await this.#startQemu(qemuArguments(input)), input);
  }

  /** Undefined where the guest has to boot. */
  async #fromOwnMemory(): Promise<Running | undefined> {
    const { memory, status } = this.#parts;
    try {
      const input = memory.withDevices(await this.#prepare());
      const machine = await memory.load(input, (command) => this.#startQemu(command));
      const running = await this.#goOn(machine, input, () => memory.forget());
      void catchUp(machine.agent);
      const message = 'the guest goes on from its memory';
      status.update({ warmStart: { fromMemory: true, reason: 'StartedFromMemory', message } });
      return running;
    } catch (error) {
      await this.#boots(error, () => memory.forget());
      return undefined;
    }
  }

  /** Whether the guest was to be suspended with the pod before, and was not. */
  async #tellNotSuspended(): Promise<boolean> {
    const { state, status } = this.#parts;
    const { notSuspended } = state.current;
    if (notSuspended === undefined) return false;
    status.update({ warmStart: { fromMemory: false, reason: 'NotSuspended', message: notSuspended } });
    await state.save({ notSuspended: undefined });
    return true;
  }

  /** Undefined where the guest has to boot. */
  async #fromImage(): Promise<Running | undefined> {
    const { state, status, disk, log } = this.#parts;
    const { spec, folders } = this.#parts.host();
    if (state.current.untouched !== true) {
      const message =
        'the guest has run on its disk before; memory of the image belongs to the disk as the image has it';
      // Before it has run, a boot is being tried again, and why it is one has been said; so has why a suspended guest does not go on.
      if (status.current.guestStarted === true && !this.#isLossTold)
        status.update({ warmStart: { fromMemory: false, reason: 'MemoryUsed', message } });
      return undefined;
    }
    try {
      const launch = (command: QemuCommand) => this.#startQemu(command);
      const { machine, input } = await startFromMemory(await this.#prepare(), folders.image, launch);
      const running = await this.#goOn(machine, input, () => state.save(used));
      // One that waits in a pool is told whose it is when it is claimed.
      running.woken = wake(machine, spec, log).then(wokenFromImage);
      return running;
    } catch (error) {
      await this.#boots(error, async () => {
        await state.save(used);
        await disk.renew();
      });
      return undefined;
    }
  }

  /**
   * From here on the disk changes, and the memory no longer belongs to it: that is written down before the guest goes on, and not before all
   * else is there. What fails until then fails the start, which is tried again with the memory; a pod that is being ended leaves it to the next.
   */
  async #goOn(machine: Machine, input: MachineInput, noteUse: () => Promise<void>): Promise<Running> {
    let running: Running | undefined;
    try {
      running = await this.#watch(machine, input);
      if (this.#parts.isEnding()) throw new Error('the pod is being ended: the guest stays where it is');
      await noteUse();
    } catch (error) {
      if (running !== undefined) running.expected = true;
      await endNow(machine);
      throw error;
    }
    try {
      await machine.qmp.execute('cont');
      running.goesOn = true;
      return running;
    } catch (cause) {
      running.expected = true;
      await endNow(machine);
      throw new ColdStart('MemoryNotLoaded', `the guest did not go on: ${messageOf(cause)}`, { cause });
    }
  }

  /** Throws what is no reason to boot. */
  async #boots(error: unknown, discard: () => Promise<void>): Promise<void> {
    if (!(error instanceof ColdStart)) throw error;
    const { reason, message } = error;
    this.#parts.log.warn({ reason }, message);
    await discard();
    this.#parts.status.update({ warmStart: { fromMemory: false, reason, message } });
  }

  async #prepare(): Promise<MachineInput> {
    const { input } = await prepareMachine(this.#parts.host(), this.#parts.state.current);
    return input;
  }

  async #startQemu(command: QemuCommand): Promise<Machine> {
    const { run } = this.#parts.host().folders;
    await clearSockets(run);
    return launchMachine({ command, run, serial: this.#parts.serial });
  }

  async #watch(machine: Machine, input: MachineInput): Promise<Running> {
    const { log, disk, status } = this.#parts;
    this.#parts.started();
    await this.#parts.lead(input.ports);
    log.info({ pid: machine.pid, accelerator: input.accelerator }, 'QEMU started');
    return watchMachine(machine, {
      input,
      readiness: this.#parts.host().spec.readiness,
      status,
      log,
      beforeQuit: () => (this.#parts.isEnding() ? Promise.resolve() : disk.free()),
    });
  }
}
