import type { Logger } from 'pino';
import { runState } from './bringdown.ts';
import { emulateInstead, RunnerFailure } from './failure.ts';
import type { MachineInput } from './args.ts';
import type { Machine } from './machine.ts';
import type { QmpEvent } from './qmp.ts';
import type { RunnerReadiness } from '../api/runner.ts';
import { FullDisk, type WriteFault } from './fulldisk.ts';
import { guestCheck } from './guestcheck.ts';
import { followGuest } from './readiness.ts';
import type { StatusBoard, WarmStart } from './status.ts';
import { createGuestPorts, type GuestPorts } from './usernet.ts';

/** A QEMU under watch. */
export interface Running {
  readonly machine: Machine;
  /** What QEMU was started with. */
  readonly input: MachineInput;
  readonly ports: GuestPorts;
  /** Set by the verb that ends QEMU: its exit is then nobody's fault. */
  expected: boolean;
  /** The guest is stopped for a moment, for its memory to be written: that says nothing about it. */
  isBeingSaved?: boolean;
  /** The guest was not booted: it went on from a memory, and has what it has not written yet. */
  goesOn?: boolean;
  /** It goes on from the memory of its image and is being made one of its own: until then it does not count as running. What is to be said of it. */
  woken?: Promise<WarmStart>;
  /** What the guest did, as far as QEMU told before it was ended. */
  end?: 'guestShutdown';
  failure?: RunnerFailure;
}

export interface WatchOptions {
  readonly input: MachineInput;
  readonly readiness: RunnerReadiness;
  readonly status: StatusBoard;
  readonly log: Logger;
  /** Awaited before QEMU quits: resolves when nobody needs its disk any more. */
  readonly beforeQuit: () => Promise<unknown>;
}

/** Follows QEMU's events: what the guest does by itself becomes status, and what is over is ended. */
export function watchMachine(machine: Machine, options: WatchOptions): Running {
  const { status, log } = options;
  const { input } = options;
  const running: Running = { machine, input, ports: createGuestPorts(machine.qmp), expected: false };
  const gone = new AbortController();
  void machine.exited.then(() => gone.abort());
  const fullDisk = new FullDisk({ machine, status, log, gone: gone.signal });
  let search = new AbortController();
  let fault: WriteFault = { isForWantOfRoom: false };

  function lookForGuest(): void {
    search.abort();
    search = new AbortController();
    const { readiness } = options;
    const check = guestCheck(readiness, machine.agent, running.ports);
    const signal = AbortSignal.any([search.signal, gone.signal]);
    void followGuest({ readiness, check, status, signal });
  }

  async function quit(): Promise<void> {
    await options.beforeQuit();
    await machine.qmp.execute('quit').catch(() => undefined);
  }

  /**
   * QEMU stops by itself when the disk is full or the accelerator cannot go on. While it flushes a disk that is full it answers nobody, and nothing
   * else tells later why the guest does not run: it is waited for as long as it lives.
   */
  async function explainStop(): Promise<void> {
    const state = await runState(machine.qmp, { timeoutMs: Number.POSITIVE_INFINITY }).catch(() => undefined);
    if (running.expected) return;
    if (state === 'internal-error') {
      running.failure =
        input.accelerator === 'kvm'
          ? new RunnerFailure(
              'AcceleratorFailed',
              `KVM cannot run this guest on this node; ${emulateInstead}`,
            )
          : new RunnerFailure('QemuCrashed', 'QEMU met an internal error');
      await quit();
    }
    if (state === 'io-error') await fullDisk.wait(fault);
  }

  machine.qmp.onEvent(({ event, data }: QmpEvent) => {
    if (event === 'SHUTDOWN' && data['guest'] === true && data['reason'] === 'guest-shutdown') {
      running.end = 'guestShutdown';
      void quit();
    } else if (event === 'GUEST_PANICKED') {
      running.failure = new RunnerFailure('GuestPanicked', 'the guest system has panicked');
      void quit();
    } else if (event === 'RESET') lookForGuest();
    else if (event === 'BLOCK_IO_ERROR' && data['action'] === 'stop') fault = faultOf(data);
    // Whoever is to sleep cannot be kept from it: without S3 (`disable_s3`) Linux sleeps in a way that QEMU knows nothing of, and cannot end.
    else if (event === 'SUSPEND') void machine.qmp.execute('system_wakeup').catch(() => undefined);
    else if (event === 'STOP' && !running.expected) void explainStop();
  });
  lookForGuest();
  return running;
}

/** Of the event that comes before QEMU stops its guest for it. */
function faultOf({ nospace, reason }: QmpEvent['data']): WriteFault {
  return { isForWantOfRoom: nospace === true, ...(typeof reason === 'string' ? { words: reason } : {}) };
}
