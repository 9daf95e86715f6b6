import { readFile, rm, stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import type { z } from 'zod';
import { Svc3Error } from '../errors.ts';
import { memoryBackends, memoryId, qemuArguments, type MachineInput } from './args.ts';
import { runState } from './bringdown.ts';
import type { Machine } from './machine.ts';
import { qemuVersion } from './memorycopy.ts';
import { migrateOut, takeClipboard } from './migration.ts';
import { overlaySize } from './overlay.ts';
import type { RunnerFolders } from './preparation.ts';
import { raceAbort, type Qmp } from './qmp.ts';
import { describeMachine, hasDrive, readHostCpu, withKnownDevices } from './savedmachine.ts';
import { catchUp } from './standstill.ts';
import type { DiskStamp, SavedState, StateFile } from './statefile.ts';
import { flushFile, putInPlace } from './storage.ts';
import { ColdStart, loadMemory, loadSeconds, type Launch } from './warmstart.ts';
import type { Running } from './watch.ts';

type DiskStamps = z.infer<typeof DiskStamp>[];

const mebibyte = 2 ** 20;

/** For the state of the devices, and for what QEMU writes between the pages. */
const besideMemoryBytes = 32 * mebibyte;

/** A disk that reads slower than this has come to nothing. */
const loadSecondsPerGibibyte = 30;

/** What QEMU says of a guest whose memory it has written, and which has done nothing since. */
const withMemoryAway: ReadonlySet<string> = new Set(['finish-migrate', 'postmigrate']);

/**
 * The memory of a guest on the volume of its disk. It is used once, and only with the disks as they were when it was written: the state file
 * names it from when it is whole until the guest goes on.
 */
export class Hibernation {
  readonly #folders: Pick<RunnerFolders, 'state'>;
  readonly #state: StateFile;
  readonly #flush: typeof flushFile;

  /** @param flush - of the memory's file; only tests have another */
  constructor(folders: Pick<RunnerFolders, 'state'>, state: StateFile, flush = flushFile) {
    this.#folders = folders;
    this.#state = state;
    this.#flush = flush;
  }

  get #file(): string {
    return join(this.#folders.state, 'memory');
  }

  get #draft(): string {
    return `${this.#file}.new`;
  }

  /** Whether there is a memory to go on from. */
  get isThere(): boolean {
    return this.#state.current.memory !== undefined;
  }

  /** Takes away what a runner that was killed has left: a memory that was not whole, and one that nothing goes on from any more. */
  async clear(): Promise<void> {
    const left = this.isThere ? [this.#draft] : [this.#draft, this.#file];
    await Promise.all(left.map((path) => rm(path, { force: true })));
  }

  /**
   * Writes memory and device state of a guest that is stopped for good; its QEMU is to be ended then. Where that fails the guest goes on as
   * before, with the time of now, and nothing is left on the volume.
   *
   * @param saved - what the state file says from then on, in the same write
   * @throws Svc3Error Conflict where the volume has no room, Error in QEMU's words or the signal's reason
   */
  async write(
    { machine, input }: Pick<Running, 'machine' | 'input'>,
    { signal, saved }: { readonly signal: AbortSignal; readonly saved: Partial<SavedState> },
  ): Promise<void> {
    const { qmp } = machine;
    await this.clear();
    await this.#checkRoom(machine, input.spec.memoryMiB * mebibyte);
    const hasRun = (await runState(qmp)) === 'running';
    if (!hasRun) await qmp.execute('cont');
    const giveBack = await takeClipboard(qmp);
    try {
      await unlessAborted(qmp.execute('stop', undefined, { timeoutMs: Number.POSITIVE_INFINITY }), signal);
      await this.#save(qmp, input, { signal, saved });
    } catch (error) {
      // QEMU gives its disks away with the memory.
      await qmp.execute('blockdev-set-active', { active: true }).catch(() => undefined);
      await qmp.execute('cont');
      await giveBack();
      if (hasRun) void catchUp(machine.agent);
      else await qmp.execute('stop');
      throw error;
    }
  }

  /** Nobody is told of a file that is not whole. */
  async #save(
    qmp: Qmp,
    input: MachineInput,
    { signal, saved }: { readonly signal: AbortSignal; readonly saved: Partial<SavedState> },
  ): Promise<void> {
    const draft = this.#draft;
    try {
      await migrateOut(qmp, draft, { capability: 'mapped-ram', signal });
      // What QEMU has written may lie in the node's page cache: a slow disk takes its time for it here.
      await unlessAborted(this.#flush(draft), signal);
      await unlessAborted(putInPlace(draft, this.#file), signal);
      const qemu = await qemuVersion(qmp);
      const found = { qemu, diskBytes: await overlaySize(input.overlay), hostCpu: await readHostCpu() };
      const machine = describeMachine(input, found);
      const memory = { vmUid: input.spec.vm.uid, machine, disks: await stamps(input) };
      // Somebody may have let the guest go on meanwhile: the memory would be older than the disk.
      signal.throwIfAborted();
      const status = await runState(qmp);
      if (!withMemoryAway.has(status))
        throw new Error(`the guest went on without its memory: QEMU says ${status}`);
      await this.#state.save({ ...saved, memory, notSuspended: undefined, runsOn: undefined });
    } catch (error) {
      await Promise.allSettled([draft, this.#file].map((path) => rm(path, { force: true })));
      throw error;
    }
  }

  /** The machine with the devices that the guest of the memory knows: its CD may have been taken out since, and metrics turned on or off. */
  withDevices(input: MachineInput): MachineInput {
    const { memory } = this.#state.current;
    if (memory === undefined) return input;
    const known = withKnownDevices(memory.machine, input);
    const lacksDrive = input.iso === undefined && hasDrive(memory.machine);
    return lacksDrive ? { ...known, hasEmptyDrive: true } : known;
  }

  /**
   * Starts a QEMU with the memory; the guest is paused where it was.
   *
   * @throws ColdStart where it does not fit, or QEMU does not take it, RunnerFailure where QEMU does not start; no QEMU is left then.
   */
  async load(input: MachineInput, launch: Launch): Promise<Machine> {
    const { memory } = this.#state.current;
    if (memory === undefined) throw new ColdStart('MemoryMissing', 'there is no memory to go on from');
    if (memory.vmUid !== input.spec.vm.uid)
      throw new ColdStart(
        'MachineDiffers',
        'the memory on the disk is that of the VM that had the disk before',
      );
    const changed = changedDisk(memory.disks, await stamps(input));
    if (changed !== undefined)
      throw new ColdStart('DiskChanged', `${changed} has been written since the memory was saved`);
    return loadMemory(input, memory.machine, {
      // A QEMU that cannot be started says nothing of the memory: the start fails, and is tried again.
      launch: () => launch(qemuArguments({ ...input, isResumed: true })),
      file: this.#file,
      capability: 'mapped-ram',
      seconds: loadSeconds + (loadSecondsPerGibibyte * input.spec.memoryMiB) / 1024,
    });
  }

  /** Before the guest goes on, or where it never will: nobody uses the memory a second time. */
  async forget(saved: Partial<SavedState> = {}): Promise<void> {
    await this.#state.save({ ...saved, memory: undefined });
    await rm(this.#file, { force: true });
  }

  async #checkRoom(machine: Machine, memoryBytes: number): Promise<void> {
    const { bavail, bsize } = await statfs(this.#folders.state);
    const needed = Math.min(memoryBytes, await touchedBytes(machine)) + besideMemoryBytes;
    const free = bavail * bsize;
    if (free >= needed) return;
    throw new Svc3Error(
      'Conflict',
      `the disk's volume has no room for the memory of the guest: ${Math.ceil(needed / mebibyte)} MiB are needed, ${Math.floor(free / mebibyte)} MiB are free`,
    );
  }
}

/**
 * An upper bound of what is written of the memory. What the guest has never touched is not, and QEMU has no memory for it; but what it has not come
 * to yet of the memory of an image is no less its own, and is in the file alone.
 */
async function touchedBytes({ pid, qmp }: Machine): Promise<number> {
  const backend = await qmp.execute('qom-get', { path: `/objects/${memoryId}`, property: 'type' });
  return backend === memoryBackends.file ? Infinity : ownBytes(pid);
}

/** Memory of a process, also what the kernel has swapped out. */
async function ownBytes(pid: number): Promise<number> {
  const text = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  const [resident, swapped = 0] = ['VmRSS', 'VmSwap'].map((name) => {
    const kibibytes = new RegExp(`^${name}:\\s*(\\d+) kB$`, 'm').exec(text)?.[1];
    return kibibytes === undefined ? undefined : Number(kibibytes) * 1024;
  });
  return resident === undefined ? Infinity : resident + swapped;
}

/** What nobody can end is left to itself. */
export async function unlessAborted(work: Promise<unknown>, signal: AbortSignal): Promise<void> {
  await raceAbort(work, signal);
}

/** What tells that somebody has written to the disks. */
async function stamps({ overlay, firmware, disks = [] }: MachineInput): Promise<DiskStamps> {
  const vars = firmware.kind === 'uefi' ? [firmware.vars] : [];
  const paths = [overlay, ...vars, ...disks.map(({ path }) => path)];
  return Promise.all(
    paths.map(async (path) => {
      const { size, mtimeNs } = await stat(path, { bigint: true });
      return { path, size: `${size}`, modified: `${mtimeNs}` };
    }),
  );
}

function changedDisk(before: DiskStamps, now: DiskStamps): string | undefined {
  const found = new Map(now.map((each) => [each.path, each]));
  return before.find(({ path, size, modified }) => {
    const here = found.get(path);
    return here?.size !== size || here.modified !== modified;
  })?.path;
}
