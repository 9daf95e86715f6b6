import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { PowerRequest, ResizeReply } from '../api/runner.ts';
import { invalidField, messageOf, Svc3Error } from '../errors.ts';
import { devices, qemuArguments } from './args.ts';
import { bringDown, endNow } from './bringdown.ts';
import {
  checkGrows,
  growFileSystem,
  growLive,
  liveDiskSize,
  resizeReply,
  roundDiskSize,
} from './disksize.ts';
import { diagnoseExit, RunnerFailure } from './failure.ts';
import { launchMachine } from './machine.ts';
import {
  createOverlay,
  ensureOverlay,
  findDisk,
  growOverlay,
  overlaySize,
  type BaseDisk,
} from './overlay.ts';
import { checkVerb, createQueue } from './powerstate.ts';
import { clearSockets, overlayPath, prepareMachine, varsPath, type Host } from './preparation.ts';
import { createRetries } from './retries.ts';
import { readSavedState, writeSavedState, type SavedState } from './statefile.ts';
import { roomRefusal } from './storage.ts';
import { createStatusBoard, type StatusBoard } from './status.ts';
import { watchMachine, type Running } from './watch.ts';

export interface Supervisor {
  readonly status: StatusBoard;
  /** Reads what was saved and boots the VM where it is to run. */
  start(): Promise<void>;
  /** One verb at a time, in the order of asking. Throws Conflict when it does not fit the state. */
  power(request: PowerRequest): Promise<void>;
  resize(bytes: number): Promise<ResizeReply>;
  eject(): Promise<void>;
  /** The QEMU that runs now. */
  running(): Running | undefined;
  /** Runs in turn with the verbs; `until` keeps the disk from being taken away until it is settled. */
  inTurn<T>(task: () => Promise<T>): Promise<T>;
  holdDisk(until: Promise<unknown>): void;
  /** Takes the guest down within the time and starts nothing again. Not in turn: a hung verb must not stop it. */
  shutdown(graceMs: number): Promise<void>;
}

export interface SupervisorOptions {
  readonly host: Host;
  readonly podUid: string | undefined;
  readonly log: Logger;
  readonly onSerial: (chunk: Buffer) => void;
}

export function createSupervisor(options: SupervisorOptions): Supervisor {
  const { host, log } = options;
  const { spec, folders } = host;
  const statePath = join(folders.state, 'state.json');
  const overlay = overlayPath(folders);
  const status = createStatusBoard({
    powerState: 'Stopped',
    guestReachable: false,
    reason: 'Starting',
    retrying: false,
    restarts: 0,
    ejected: false,
    guestStarted: false,
  });
  const inTurn = createQueue();
  let saved: SavedState = {
    version: 1,
    powerState: spec.powerState,
    ejected: false,
    guestStarted: false,
  };
  let current: Running | undefined;
  let retryTimer: NodeJS.Timeout | undefined;
  const retries = createRetries(spec.restart, () => performance.now());
  let isEnding = false;
  let diskHeld: Promise<unknown> = Promise.resolve();
  let booting: Promise<void> = Promise.resolve();

  async function save(change: Partial<SavedState>): Promise<void> {
    saved = { ...saved, ...change, podUid: options.podUid };
    await writeSavedState(statePath, saved);
  }

  async function prepareDisk(base: BaseDisk): Promise<void> {
    const size = Math.max(saved.diskBytes ?? 0, spec.diskBytes ?? 0);
    const refusal = roomRefusal(Math.max(size, base.virtualSize), spec.diskLimitBytes);
    if (refusal !== undefined) throw new RunnerFailure('DiskTooLarge', refusal);
    if (saved.reverting === undefined) {
      const isNew = await ensureOverlay(overlay, base, size);
      if (isNew) await save({ imageDigest: spec.imageDigest, revertRequest: spec.revertRequest });
      else checkImage(saved.imageDigest, spec.imageDigest);
      if (size > 0) await growOverlay(overlay, roundDiskSize(size));
    } else {
      await createOverlay(overlay, base, size);
      await rm(varsPath(folders), { force: true });
      const revertRequest = saved.reverting.request ?? saved.revertRequest;
      await save({ reverting: undefined, revertRequest, imageDigest: spec.imageDigest });
    }
    status.update({ diskSize: await overlaySize(overlay), revertRequest: saved.revertRequest });
  }

  function boot(): Promise<void> {
    booting = bootNow();
    return booting;
  }

  async function bootNow(): Promise<void> {
    clearTimeout(retryTimer);
    if (isEnding || current !== undefined) return;
    try {
      await prepareDisk(await findDisk(folders.image));
      const { input } = await prepareMachine(host, saved.ejected);
      await clearSockets(folders.run);
      const command = qemuArguments(input);
      const machine = await launchMachine({ command, run: folders.run, onSerial: options.onSerial });
      retries.started();
      log.info({ pid: machine.pid, accelerator: input.accelerator }, 'QEMU started');
      adopt(
        watchMachine(machine, {
          accelerator: input.accelerator,
          status,
          log,
          mayQuit: () => (isEnding ? Promise.resolve() : diskHeld),
        }),
      );
      await noteStart();
      if (isEnding) await takeDown(1000);
    } catch (error) {
      fail(asFailure(error), false);
    }
  }

  /** Before anybody gives this VM up as one that never ran; a disk that is full of the guest's data stops no guest. */
  async function noteStart(): Promise<void> {
    if (saved.guestStarted === true) return;
    await save({ guestStarted: true }).catch((error: unknown) =>
      log.error({ err: error }, 'that the guest has started could not be written down'),
    );
  }

  function adopt(running: Running): void {
    current = running;
    status.update({
      powerState: 'Running',
      guestReachable: false,
      reason: undefined,
      message: undefined,
      retrying: false,
      restarts: retries.crashes,
      guestStarted: true,
    });
    void running.machine.exited.then(async (exit) => {
      if (current !== running) return;
      current = undefined;
      if (running.expected) return;
      if (running.end === 'guestShutdown')
        await settle('Stopped', 'GuestShutdown', 'the guest has shut itself down');
      else fail(running.failure ?? diagnoseExit(exit, true), true);
    });
  }

  async function settle(
    powerState: 'Stopped',
    reason: 'GuestShutdown' | 'Requested' | 'SuspendedStateLost',
    message?: string,
  ): Promise<void> {
    await save({ powerState, reason, message });
    status.update({ powerState, guestReachable: false, reason, message, retrying: false });
    log.info({ reason }, 'VM stopped');
  }

  function fail(failure: RunnerFailure, hasRun: boolean): void {
    const pauseMs = retries.after(failure, hasRun);
    const retrying = pauseMs !== undefined && !isEnding && saved.powerState === 'Running';
    const message = retrying ? `${failure.message}; starting again in ${pauseMs / 1000} s` : failure.message;
    const { reason } = failure;
    status.update({
      powerState: 'Failed',
      guestReachable: false,
      reason,
      message,
      retrying,
      restarts: retries.crashes,
    });
    log.error({ reason, retrying }, message);
    if (retrying) retryTimer = setTimeout(() => void inTurn(boot), pauseMs);
  }

  async function takeDown(graceMs: number): Promise<void> {
    const running = current;
    if (running === undefined) return;
    running.expected = true;
    await bringDown(running.machine, isEnding ? running.machine.shutdownQmp : running.machine.qmp, graceMs);
    log.info({ by: running.end ?? 'runner' }, 'QEMU ended');
  }

  async function startAnew({ startRequest = saved.startRequest }: PowerRequest): Promise<void> {
    await save({ powerState: 'Running', reason: undefined, message: undefined, startRequest });
    status.update({ startRequest });
    retries.renew();
    await boot();
  }

  async function stop(): Promise<void> {
    clearTimeout(retryTimer);
    await diskHeld;
    await save({ powerState: 'Stopped', reason: 'Requested', message: undefined });
    await takeDown(spec.graceSeconds * 1000);
    await settle('Stopped', 'Requested');
  }

  async function pause(): Promise<void> {
    await need().machine.qmp.execute('stop');
    await save({ powerState: 'Suspended', reason: 'Requested', message: undefined });
    const message = `suspended in memory${spec.gpuPassthrough ? ' only, since the VM has a GPU' : ''}: it is lost when the pod ends`;
    status.update({ powerState: 'Suspended', reason: 'Requested', message });
  }

  async function resume(): Promise<void> {
    await need().machine.qmp.execute('cont');
    await save({ powerState: 'Running', reason: undefined, message: undefined });
    status.update({ powerState: 'Running', reason: undefined, message: undefined });
  }

  async function revert(request: PowerRequest): Promise<void> {
    clearTimeout(retryTimer);
    await diskHeld;
    const powerState = request.stopped === true ? 'Stopped' : 'Running';
    await save({
      powerState,
      reason: 'Requested',
      message: undefined,
      reverting: { request: request.revertRequest },
    });
    if (current !== undefined) {
      current.expected = true;
      await endNow(current.machine);
    }
    status.update({
      powerState: 'Stopped',
      guestReachable: false,
      reason: 'Requested',
      message: undefined,
      retrying: false,
    });
    retries.renew();
    if (powerState === 'Running') await boot();
    else await prepareDisk(await findDisk(folders.image));
  }

  async function carryOut(request: PowerRequest): Promise<void> {
    const { action } = request;
    if (isCarriedOut(request, saved)) return;
    if (isEnding) throw new Svc3Error('ServiceUnavailable', 'the VM is being shut down');
    checkVerb(action, status.current.powerState);
    status.update({ busy: action });
    log.info({ action }, 'power verb begun');
    try {
      await { start: () => startAnew(request), stop, suspend: pause, resume, revert: () => revert(request) }[
        action
      ]();
    } finally {
      status.update({ busy: undefined });
    }
  }

  function need(): Running {
    if (current === undefined) throw new Svc3Error('Conflict', 'the VM does not run');
    return current;
  }

  async function resize(wished: number): Promise<ResizeReply> {
    await diskHeld;
    const bytes = roundDiskSize(wished);
    const size = current === undefined ? await overlaySize(overlay) : await liveDiskSize(current.machine.qmp);
    checkGrows(bytes, size);
    const refusal = roomRefusal(bytes, spec.diskLimitBytes);
    if (refusal !== undefined) throw invalidField('bytes', refusal);
    if (current === undefined) await growOverlay(overlay, bytes);
    else if (bytes > size) await growLive(current.machine.qmp, bytes);
    await save({ diskBytes: bytes });
    status.update({ diskSize: bytes });
    if (current === undefined) return resizeReply(bytes, { grown: false, why: 'the VM does not run' });
    return resizeReply(bytes, await growFileSystem(current.machine.agent));
  }

  async function eject(): Promise<void> {
    if (!spec.iso || saved.ejected) throw new Svc3Error('Conflict', 'the VM has no CD');
    await current?.machine.qmp.execute('eject', { id: devices.cd, force: true });
    await save({ ejected: true });
    status.update({ ejected: true });
  }

  async function start(): Promise<void> {
    const before = await readSavedState(statePath);
    const isSamePod = before?.podUid === options.podUid;
    if (before !== undefined) saved = { ...before, guestStarted: before.guestStarted ?? true };
    // In a new pod the operator's wish wins.
    if (!isSamePod) saved = { ...saved, powerState: spec.powerState, startRequest: spec.startRequest };
    const { ejected, guestStarted, startRequest } = saved;
    status.update({ ejected, guestStarted, startRequest });
    if (saved.powerState === 'Running') return boot();
    try {
      await prepareDisk(await findDisk(folders.image));
    } catch (error) {
      return fail(asFailure(error), false);
    }
    if (saved.powerState === 'Suspended') {
      return settle(
        'Stopped',
        'SuspendedStateLost',
        'the memory of the suspended guest was lost with its pod or runner',
      );
    }
    const reason = isSamePod && before?.reason === 'GuestShutdown' ? 'GuestShutdown' : 'Requested';
    return settle('Stopped', reason, isSamePod ? before?.message : undefined);
  }

  return {
    status,
    inTurn,
    start: () => inTurn(start),
    power: (request) => inTurn(() => carryOut(request)),
    resize: (bytes) => inTurn(() => resize(bytes)),
    eject: () => inTurn(eject),
    running: () => current,
    holdDisk: (until) => {
      diskHeld = Promise.allSettled([diskHeld, until]);
    },
    async shutdown(graceMs) {
      isEnding = true;
      clearTimeout(retryTimer);
      status.update({ reason: 'ShuttingDown', message: 'the pod is being ended' });
      await Promise.race([booting, delay(graceMs / 2, undefined, { ref: false })]);
      await takeDown(graceMs);
    },
  };
}

/** The requests of a verb are done once per value, whoever asks again after a cut connection. */
function isCarriedOut({ action, revertRequest, startRequest }: PowerRequest, saved: SavedState): boolean {
  if (action === 'revert') return revertRequest !== undefined && revertRequest === saved.revertRequest;
  return action === 'start' && startRequest !== undefined && startRequest === saved.startRequest;
}

function asFailure(error: unknown): RunnerFailure {
  return error instanceof RunnerFailure
    ? error
    : new RunnerFailure('StartFailed', messageOf(error), { cause: error });
}

function checkImage(made: string | undefined, given: string | undefined): void {
  if (made === undefined || given === undefined || made === given) return;
  throw new RunnerFailure(
    'ImageInvalid',
    `the VM's disk was made on image ${made}, the pod has ${given}: revert the VM to begin anew on it`,
  );
}
