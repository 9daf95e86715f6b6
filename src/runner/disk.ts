import { rm } from 'node:fs/promises';
import type { ResizeReply, RunnerSpec } from '../api/runner.ts';
import { invalidField, Svc3Error } from '../errors.ts';
import {
  checkGrows,
  growFileSystem,
  growLive,
  liveDiskSize,
  resizeReply,
  roundDiskSize,
  sizeOnImage,
} from './disksize.ts';
import { RunnerFailure } from './failure.ts';
import { imageStampOf } from './imagestamp.ts';
import type { Machine } from './machine.ts';
import {
  createOverlay,
  ensureOverlay,
  findDisk,
  growOverlay,
  overlaySize,
  type BaseDisk,
} from './overlay.ts';
import { overlayPath, varsPath, type Host } from './preparation.ts';
import type { StateFile } from './statefile.ts';
import type { StatusBoard } from './status.ts';
import { roomRefusal } from './storage.ts';

/** The VM's own disk: a qcow2 overlay on the image, and how large it is to be. */
export class Disk {
  readonly #host: Host;
  readonly #state: StateFile;
  readonly #status: StatusBoard;
  readonly #overlay: string;
  #held: Promise<unknown> = Promise.resolve();
  #isHeld = false;
  #refusal: RunnerFailure | undefined;

  constructor(host: Host, state: StateFile, status: StatusBoard) {
    this.#host = host;
    this.#state = state;
    this.#status = status;
    this.#overlay = overlayPath(host.folders);
  }

  /** A copy of the disk is being made until then: QEMU must not end, and nothing may change the file. */
  hold(until: Promise<unknown>): void {
    const held = Promise.allSettled([this.#held, until]);
    this.#held = held;
    this.#isHeld = true;
    // Before whoever waits for it goes on.
    void held.then(() => {
      if (this.#held === held) this.#isHeld = false;
    });
  }

  /** Resolves when no copy needs the disk any more. */
  free(): Promise<unknown> {
    return this.#held;
  }

  /** Why the disk was not opened on the image of the pod: it was made on another one, and what could be read of it on this one is nobody's disk. */
  get refusal(): RunnerFailure | undefined {
    return this.#refusal;
  }

  /** Makes the disk ready for a start: makes the overlay, carries out a revert that was begun, grows it. */
  async prepare(): Promise<void> {
    const { spec, folders } = this.#host;
    const base = await findDisk(folders.image);
    const asked = Math.max(this.#state.current.diskBytes ?? 0, spec.diskBytes ?? 0);
    const size = sizeOnImage(asked, base.virtualSize);
    // What is asked for: whole MiB may be more than a limit is that is none of them.
    const refusal = roomRefusal(Math.max(asked, base.virtualSize), spec.diskLimitBytes);
    if (refusal !== undefined) throw new RunnerFailure('DiskTooLarge', refusal);
    if (this.#state.current.reverting === undefined) await this.#open(spec, base, size);
    else await this.#revert(spec, base, size);
    const { revertRequest } = this.#state.current;
    this.#status.update({ diskSize: await overlaySize(this.#overlay), revertRequest });
  }

  async #open({ imageDigest, revertRequest, warm }: RunnerSpec, base: BaseDisk, size: number): Promise<void> {
    const isNew = await ensureOverlay(this.#overlay, base, size);
    if (isNew) {
      const imageStamp = await imageStampOf(base.path);
      await this.#state.save({ imageDigest, imageStamp, revertRequest, ...untouched(warm) });
    } else await this.#checkImage(imageDigest, base);
    // A guest that goes on has to find the disk as it was; it grows when it runs.
    if (this.#state.current.memory === undefined) await growOverlay(this.#overlay, size);
  }

  /**
   * An overlay on another image than its own is garbage: the file system of one under the changes of another. What is not known yet of the image that it
   * was made on, as of an overlay of an earlier build or with a state file that could not be read, is that of the first one that it is opened on.
   */
  async #checkImage(given: string | undefined, { path }: BaseDisk): Promise<void> {
    const { imageDigest: made, imageStamp: noted } = this.#state.current;
    const hasDigests = made !== undefined && given !== undefined;
    if (hasDigests && made !== given) throw this.#refuse(otherDigest(made, given));
    if (hasDigests && noted !== undefined) return;
    const imageStamp = await imageStampOf(path);
    if (!hasDigests && noted !== undefined && noted !== imageStamp)
      throw this.#refuse(otherStamp(made, given));
    const imageDigest = made ?? given;
    if (imageDigest === made && imageStamp === noted) return;
    await this.#state.save({ imageDigest, imageStamp });
  }

  #refuse(failure: RunnerFailure): RunnerFailure {
    this.#refusal = failure;
    return failure;
  }

  /** The overlay goes first: a volume that it has filled has no room for another, and the state file says what it is to be. */
  async #revert({ imageDigest, warm }: RunnerSpec, base: BaseDisk, size: number): Promise<void> {
    await rm(this.#overlay, { force: true });
    await createOverlay(this.#overlay, base, size);
    await rm(varsPath(this.#host.folders), { force: true });
    const imageStamp = await imageStampOf(base.path);
    const { reverting, revertRequest } = this.#state.current;
    await this.#state.save({
      reverting: undefined,
      revertRequest: reverting?.request ?? revertRequest,
      imageDigest,
      imageStamp,
      ...untouched(warm),
    });
    this.#refusal = undefined;
  }

  /** The disk as the image has it, after a start that came to nothing before the guest was known to run. */
  async renew(): Promise<void> {
    const { folders } = this.#host;
    await createOverlay(this.#overlay, await findDisk(folders.image), await overlaySize(this.#overlay));
    await rm(varsPath(folders), { force: true });
  }

  /**
   * Grows the disk and, where its agent answers, the guest's file system. To be called in turn with the verbs: it waits for no copy.
   *
   * @throws Svc3Error Invalid where it would shrink or has no room; Conflict while it is copied, or the guest is suspended on it
   */
  async resize(requested: number, machine: Machine | undefined): Promise<ResizeReply> {
    if (this.#isHeld)
      throw new Svc3Error('Conflict', 'the disk is being copied for a save or commit: it grows after that');
    if (this.#state.current.memory !== undefined)
      throw new Svc3Error('Conflict', 'the VM is suspended on its disk, which can only grow once it goes on');
    const bytes = roundDiskSize(requested);
    const size = machine === undefined ? await overlaySize(this.#overlay) : await liveDiskSize(machine.qmp);
    checkGrows(bytes, size);
    const refusal = roomRefusal(requested, this.#host.spec.diskLimitBytes);
    if (refusal !== undefined) throw invalidField('bytes', refusal);
    if (machine === undefined) await growOverlay(this.#overlay, bytes);
    else if (bytes > size) await growLive(machine.qmp, bytes);
    await this.#state.save({ diskBytes: bytes });
    this.#status.update({ diskSize: bytes });
    if (machine === undefined) return resizeReply(bytes, { grown: false, why: 'the VM does not run' });
    return resizeReply(bytes, await growFileSystem(machine.agent, bytes));
  }
}

/** Said only where it matters: a state file that says nothing is one of an overlay that has been used. */
function untouched(warm: boolean): { readonly untouched?: true } {
  return warm ? { untouched: true } : {};
}

/** @param made - how the image is deployed that the disk was made on */
function otherImage(what: string, made: string): RunnerFailure {
  return new RunnerFailure(
    'ImageInvalid',
    `${what}; the disk stays as it is: a VM that is deployed with its claim and ${made} goes on with it, a revert discards it and begins anew on this image`,
  );
}

function otherDigest(made: string, given: string): RunnerFailure {
  return otherImage(`the VM's disk was made on image ${made}, the pod has ${given}`, `digest ${made}`);
}

/** One of the digests is not known. */
function otherStamp(made: string | undefined, given: string | undefined): RunnerFailure {
  const has = given === undefined ? "the image under the VM's tag" : `image ${given} of the pod`;
  const [which, how] =
    made === undefined ? ['', 'the digest of that image'] : [` (${made})`, `digest ${made}`];
  return otherImage(`${has} is another one than the VM's disk was made on${which}`, how);
}
