import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { queryStatus } from './bringdown.ts';
import type { Machine } from './machine.ts';
import { catchUp } from './standstill.ts';
import type { StatusBoard } from './status.ts';

export interface FullDiskParts {
  readonly machine: Machine;
  readonly status: StatusBoard;
  readonly log: Logger;
  /** Aborted when QEMU has ended. */
  readonly gone: AbortSignal;
}

/** Why QEMU could not write for a guest, as far as it says. */
export interface WriteFault {
  /** For certain: a quota that is used up is not known to QEMU as that. */
  readonly isForWantOfRoom: boolean;
  /** Of the system. */
  readonly words?: string;
}

const retryMs = 5000;
/** Long enough for a guest that goes on to meet the full disk again. */
const confirmMs = 1000;

/** A guest that QEMU stopped because its storage is full, or takes no writes: says so, and lets it go on when it does again. */
export class FullDisk {
  readonly #parts: FullDiskParts;
  #isWaiting = false;

  constructor(parts: FullDiskParts) {
    this.#parts = parts;
  }

  /** Each try that meets a full disk stops the guest anew: that begins no second wait. */
  async wait(fault: WriteFault): Promise<void> {
    this.#say(messageFor(fault));
    if (this.#isWaiting) return;
    this.#isWaiting = true;
    try {
      await this.#goOnWithSpace();
    } finally {
      this.#isWaiting = false;
    }
  }

  #say(message: string): void {
    const { status, log } = this.#parts;
    if (status.current.reason === 'DiskFull' && status.current.message === message) return;
    status.update({ powerState: 'Failed', reason: 'DiskFull', message, retrying: true });
    log.error({ reason: 'DiskFull' }, message);
  }

  async #goOnWithSpace(): Promise<void> {
    const { machine, status, gone } = this.#parts;
    const wait = (ms: number) => delay(ms, undefined, { signal: gone }).catch(() => undefined);
    while (!gone.aborted && status.current.reason === 'DiskFull') {
      await wait(retryMs);
      await machine.qmp.execute('cont').catch(() => undefined);
      await wait(confirmMs);
      if ((await queryStatus(machine.qmp)) === 'running' && status.current.reason === 'DiskFull') {
        status.update({ powerState: 'Running', reason: undefined, message: undefined, retrying: false });
        void catchUp(machine.agent);
      }
    }
  }
}

function messageFor({ isForWantOfRoom, words }: WriteFault): string {
  if (isForWantOfRoom) return "the VM's storage is full; the guest is paused and goes on when there is space";
  const why = words === undefined ? '' : ` (${words})`;
  return `the VM's storage is full or not writable${why}; the guest is paused and goes on when it can write again`;
}
