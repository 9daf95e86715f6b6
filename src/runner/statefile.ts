import { randomBytes } from 'node:crypto';
import { appendFile, open, readFile, rm, stat } from 'node:fs/promises';
import { z } from 'zod';
import { SavedMachine } from '../api/memory.ts';
import { BootSettings, RunnerPort, RunnerSpec } from '../api/runner.ts';
import { messageOf } from '../errors.ts';
import { RunnerFailure } from './failure.ts';
import { asStorage, fileMode, flushFolder, isForWantOfRoom, putInPlace } from './storage.ts';

/** A disk as it was at a moment: its file, bytes, and nanoseconds since 1970. */
export const DiskStamp = z.object({ path: z.string(), size: z.string(), modified: z.string() });

/** What must outlive the runner's process; `/var/lib/svc3/state.json`. */
export const SavedState = z.object({
  version: z.literal(1),
  /** The pod that wrote it: in a new pod what the operator asks for wins. */
  podUid: z.string().optional(),
  powerState: z.enum(['Running', 'Stopped', 'Suspended']),
  reason: z.string().optional(),
  message: z.string().optional(),
  revertRequest: z.string().optional(),
  /** The last start request that was carried out. */
  startRequest: z.string().optional(),
  /** The last restart request that a boot has answered. */
  restartRequest: z.string().optional(),
  /** A revert that was begun: carried out again after a crash. */
  reverting: z.object({ request: z.string().optional() }).optional(),
  diskBytes: z.number().optional(),
  /** The guest's memory lies beside its disk, and has not been used. */
  memory: z.object({ vmUid: z.string(), machine: SavedMachine, disks: z.array(DiskStamp) }).optional(),
  /** Why the end of the pod before did not suspend the guest. */
  notSuspended: z.string().optional(),
  /** The image that the overlay lies on. */
  imageDigest: z.string().optional(),
  /** The same by its content (`imageStampOf`), for a pod that has no digest. A runner from before this member drops it, with a disk that it has reverted perhaps. */
  imageStamp: z.string().optional(),
  /** Nothing has run on the overlay since it was made on an image with memory: the memory still belongs to it. */
  untouched: z.boolean().optional(),
  /** Told with the last start in this pod; before that the pod's own hold. */
  settings: z.object({ version: z.string(), values: BootSettings }).optional(),
  /** The VM that has claimed the guest; there is never another in this pod. */
  claimedBy: RunnerSpec.shape.vm.optional(),
  ejected: z.boolean().default(false),
  /** The ports that are to lead into the guest; in a new pod those that it was made with. */
  ports: z.array(RunnerPort).optional(),
  /** QEMU has run the guest on this disk; a runner from before this member did not say. */
  guestStarted: z.boolean().optional(),
  /** Crashes of the guest without ten quiet minutes between, in all lives of this pod's container. */
  crashes: z.int().min(0).optional(),
  /** Boot id of the node on which the guest runs; still there where the container has ended under it. */
  runsOn: z.string().optional(),
});
export type SavedState = z.infer<typeof SavedState>;

/** What a runner begins with: in the same pod what it wrote down, in a new one what the operator asks for. */
export function startingState(
  before: SavedState | undefined,
  isSamePod: boolean,
  fresh: SavedState,
  { powerState, startRequest, restartRequest }: RunnerSpec,
): SavedState {
  // A runner from before that member never said whether the guest has run: it may have.
  const known = before === undefined ? fresh : { ...before, guestStarted: before.guestStarted ?? true };
  const ofPod = {
    powerState,
    startRequest,
    // A guest that goes on has not been started again: that is still to be done.
    ...(known.memory === undefined ? { restartRequest } : {}),
    ports: undefined,
    settings: undefined,
    // A new pod has a medium only where one is asked for.
    ejected: false,
    crashes: undefined,
    runsOn: undefined,
  };
  return isSamePod ? known : { ...known, ...ofPod };
}

/** More than a state ever has: most of one are the settings, with metadata and keys of the guest. */
const spareBytes = 256 * 1024;

/**
 * The state that is on disk, and what it was in memory last. A guest may fill the volume that both write to: room for a state is kept in a file
 * beside it, so that a VM whose disk is full can still be stopped, started and reverted.
 */
export class StateFile {
  readonly #path: string;
  readonly #spare: string;
  readonly #podUid: string | undefined;
  readonly #flush: typeof flushFolder;
  #current: SavedState;
  #last: Promise<unknown> = Promise.resolve();

  /**
   * @param fresh - what holds where nothing has been written yet
   * @param flush - of the file's folder; only tests have another
   */
  constructor(path: string, podUid: string | undefined, fresh: SavedState, flush = flushFolder) {
    this.#path = path;
    this.#spare = `${path}.spare`;
    this.#podUid = podUid;
    this.#current = fresh;
    this.#flush = flush;
  }

  get current(): SavedState {
    return this.#current;
  }

  /**
   * Undefined where there is no file, or none that a runner has written: the runner starts as in a new pod.
   *
   * @throws RunnerFailure where the volume does not give it: what it says of the disk would be lost.
   */
  async read(): Promise<SavedState | undefined> {
    const text = await readFile(this.#path, 'utf8').catch(onlyWithout);
    if (text === undefined) return undefined;
    try {
      return SavedState.parse(JSON.parse(text));
    } catch {
      return undefined;
    }
  }

  /** Goes on from a state that was read, without writing it. */
  adopt(state: SavedState): void {
    this.#current = state;
  }

  /**
   * Atomic: a crash leaves the old or the new content, and after a save a power cut leaves the new one. One after the other: the guest's own end is written beside the verbs. What could not be
   * written does not hold.
   */
  save(change: Partial<SavedState>): Promise<void> {
    return this.#inTurn(() => this.#write(change));
  }

  /** Takes room for a later write, as far as there is any. */
  reserve(): Promise<void> {
    return this.#inTurn(() => this.#reserve());
  }

  #inTurn(task: () => Promise<void>): Promise<void> {
    const done = this.#last.then(task);
    this.#last = done.catch(() => undefined);
    return done;
  }

  async #write(change: Partial<SavedState>): Promise<void> {
    const next = { ...this.#current, ...change, podUid: this.#podUid };
    await asStorage("the VM's state", () => this.#put(JSON.stringify(next)));
    this.#current = next;
  }

  async #put(content: string): Promise<void> {
    try {
      await writeWhole(this.#path, content, this.#flush);
    } catch (error) {
      if (!isForWantOfRoom(error)) throw error;
      await rm(this.#spare, { force: true });
      await writeWhole(this.#path, content, this.#flush);
    } finally {
      await this.#reserve();
    }
  }

  /** What there is no room for now is taken later; what a file system could pack would be no room. */
  async #reserve(): Promise<void> {
    const { size } = await stat(this.#spare).catch(() => ({ size: 0 }));
    if (size >= spareBytes) return;
    const room = randomBytes(spareBytes - size);
    await appendFile(this.#spare, room, { mode: fileMode }).catch(() => undefined);
  }
}

function onlyWithout(cause: unknown): undefined {
  if (cause instanceof Error && 'code' in cause && cause.code === 'ENOENT') return undefined;
  throw new RunnerFailure('StartFailed', `the VM's state cannot be read: ${messageOf(cause)}`, { cause });
}

/** Whole or not at all, and there to stay: a node may lose its power at any moment. */
export async function writeWhole(path: string, content: string, flush = flushFolder): Promise<void> {
  const draft = `${path}.new`;
  const file = await open(draft, 'w', fileMode);
  try {
    await file.writeFile(content);
    await file.sync();
  } finally {
    await file.close();
  }
  await putInPlace(draft, path, flush);
}
