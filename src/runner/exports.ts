import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, open, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { Logger } from 'pino';
import { ejectedRefusal, memoryParts, memoryRefusal, type MemoryPart } from '../api/memory.ts';
import { mostExports, type ExportTicket, type RunnerExport } from '../api/runner.ts';
import { messageOf, Svc3Error } from '../errors.ts';
import type { MachineInput } from './args.ts';
import { noRoom, shortage, type CopyStorage } from './copyroom.ts';
import { copyLive, copyStopped, type CopyOutcome } from './diskcopy.ts';
import { copyWithMemory, type MemoryCopyContext } from './memorycopy.ts';
import { overlaySize } from './overlay.ts';
import { overlayPath } from './preparation.ts';
import type { RunnerFolders } from './preparation.ts';
import { isForWantOfRoom } from './storage.ts';
import type { Supervisor } from './supervisor.ts';
import type { Running } from './watch.ts';

/** Flat copies of the VM's disk, one per id, for save and commit. */
export interface Exports {
  /**
   * Begins a copy, with the guest's memory where that is asked for; asking again for the same id is answered with what there is. A failed one begins anew. An owner has one: what it asked
   * for before is deleted.
   *
   * @param podLimitBytes - the pod's limit of ephemeral storage, where one is known (`ExportRequest`)
   */
  start(id: string, owner?: string, memory?: boolean, podLimitBytes?: number): Promise<RunnerExport>;
  get(id: string): RunnerExport;
  /** A new ticket makes the one before void. */
  ticket(id: string): ExportTicket;
  delete(id: string): Promise<void>;
  /** The file behind a ticket: the disk, or a part of the memory. Unauthorized: no such ticket, or it is used up. */
  open(id: string, ticket: string, part?: MemoryPart): Promise<ExportFile>;
  /** Takes away what an earlier life of the runner left. */
  clear(): Promise<void>;
}

export interface ExportFile {
  readonly path: string;
  readonly size: number;
  /** Another one for every file. */
  readonly etag: string;
  /** Aborted when it is taken away. */
  readonly signal: AbortSignal;
  /** To be called when the last byte has been delivered. */
  used(): void;
}

interface Ticket {
  readonly value: Buffer;
  /** Milliseconds since 1970. */
  readonly expiresAt: number;
  /** What has not been fetched yet. */
  readonly missing: Set<'disk' | MemoryPart>;
}

interface Entry {
  view: RunnerExport;
  readonly owner: string | undefined;
  readonly hasMemory: boolean;
  readonly podLimitBytes: number | undefined;
  /** Until then somebody may come to fetch it; undefined while it is made. */
  wantedUntil?: number;
  /** Ends with the copy, however that ends; undefined before its turn. */
  copying?: Promise<void>;
  ticket?: Ticket | undefined;
  /** It was deleted. */
  readonly abort: AbortController;
  /** It came to nothing, or was given up. */
  readonly failure: AbortController;
  /** Either of the two. */
  readonly gone: AbortSignal;
}

const ticketLifetimeMs = 3_600_000;

/** How copies are made; only tests have another way. */
const qemuCopies = { live: copyLive, stopped: copyStopped, memory: copyWithMemory, shortage } as const;

/** @param ephemeralStorageBytes - of the storage that copies are made on (`CopyStorage`) */
export function createExports(
  supervisor: Supervisor,
  {
    folders,
    ephemeralStorageBytes,
  }: { readonly folders: RunnerFolders } & Pick<CopyStorage, 'ephemeralStorageBytes'>,
  log: Logger,
  copies: typeof qemuCopies = qemuCopies,
): Exports {
  return new DiskExports(
    supervisor,
    { folder: folders.state, ephemeralStorageBytes },
    overlayPath(folders),
    log,
    copies,
  );
}

class DiskExports implements Exports {
  readonly #supervisor: Supervisor;
  readonly #log: Logger;
  readonly #copies: typeof qemuCopies;
  readonly #storage: CopyStorage;
  readonly #folder: string;
  readonly #overlay: string;
  readonly #entries = new Map<string, Entry>();

  constructor(
    supervisor: Supervisor,
    storage: CopyStorage,
    overlay: string,
    log: Logger,
    copies: typeof qemuCopies,
  ) {
    this.#supervisor = supervisor;
    this.#log = log;
    this.#copies = copies;
    this.#storage = storage;
    this.#folder = join(storage.folder, 'exports');
    this.#overlay = overlay;
  }

  async start(id: string, owner?: string, hasMemory = false, podLimitBytes?: number): Promise<RunnerExport> {
    const entries = this.#entries;
    if (entries.get(id) === undefined) await this.#makeRoom(owner);
    const known = entries.get(id);
    if (known !== undefined && known.view.state !== 'Failed') return known.view;
    const isCopying = [...entries.values()].some((entry) => entry.view.state === 'Copying');
    if (isCopying || (known === undefined && entries.size >= mostExports))
      throw new Svc3Error('Conflict', 'the VM is being saved already; delete an export that is done first');
    if (hasMemory) this.#requireMemory();
    const entry = newEntry(id, { owner, hasMemory, podLimitBytes });
    entries.set(id, entry);
    void this.#begin(id, entry);
    return entry.view;
  }

  get(id: string): RunnerExport {
    return this.#find(id).view;
  }

  ticket(id: string): ExportTicket {
    const entry = this.#find(id);
    if (entry.view.state !== 'Ready') throw new Svc3Error('Conflict', `export ${id} is ${entry.view.state}`);
    const value = randomBytes(32);
    const expiresAt = Date.now() + ticketLifetimeMs;
    const parts = entry.hasMemory ? Object.values(memoryParts) : [];
    entry.ticket = { value, expiresAt, missing: new Set(['disk', ...parts]) };
    entry.wantedUntil = expiresAt;
    return {
      ticket: value.toString('base64url'),
      path: `/v1/exports/${id}/data`,
      ...(entry.hasMemory ? { memoryPath: `/v1/exports/${id}/memory` } : {}),
      expiresAt: new Date(expiresAt).toISOString(),
    };
  }

  async open(id: string, ticket: string, part?: MemoryPart): Promise<ExportFile> {
    const entry = this.#entries.get(id);
    const kept = entry?.ticket;
    if (entry === undefined || kept === undefined || !isGood(kept, ticket))
      throw new Svc3Error('Unauthorized', 'the ticket is not valid');
    if (part !== undefined && !entry.hasMemory) throw new Svc3Error('NotFound', `export ${id} has no memory`);
    const path = part === undefined ? this.#fileOf(id) : join(this.#memoryOf(id), part);
    const { size } = await stat(path);
    const used = () => {
      kept.missing.delete(part ?? 'disk');
      if (entry.ticket !== kept || kept.missing.size > 0) return;
      entry.ticket = undefined;
      entry.wantedUntil = 0;
    };
    const { sha256 = '' } = entry.view;
    const etag = part === undefined ? sha256 : `${sha256}-${part}`;
    return { path, size, etag, signal: entry.gone, used };
  }

  async delete(id: string): Promise<void> {
    const entry = this.#entries.get(id);
    this.#entries.delete(id);
    entry?.abort.abort(new Error('the export was deleted'));
    // Another copy is made when this one no longer takes up room.
    await entry?.copying;
    await this.#remove(id);
  }

  clear(): Promise<void> {
    return rm(this.#folder, { recursive: true, force: true });
  }

  /** @throws Conflict where no guest runs now, Invalid where the memory of the one that does can never be saved */
  #requireMemory(): void {
    const running = this.#supervisor.running();
    if (running === undefined) throw new Svc3Error('Conflict', noMemory);
    const refusal = refusalOf(running.input, this.#supervisor.status.current.ejected);
    if (refusal !== undefined) throw new Svc3Error('Invalid', refusal);
  }

  #fileOf(id: string): string {
    return join(this.#folder, `${id}.qcow2`);
  }

  #memoryOf(id: string): string {
    return join(this.#folder, `${id}.memory`);
  }

  async #remove(id: string): Promise<void> {
    await rm(this.#fileOf(id), { force: true });
    await rm(this.#memoryOf(id), { recursive: true, force: true });
  }

  #find(id: string): Entry {
    const entry = this.#entries.get(id);
    if (entry === undefined) throw new Svc3Error('NotFound', `there is no export ${id}`);
    return entry;
  }

  /** Whoever asked may have been killed before it came to delete what it no longer needs. */
  async #makeRoom(owner: string | undefined): Promise<void> {
    for (const [id, entry] of this.#entries) {
      const isReplaced = owner !== undefined && entry.owner === owner;
      if (isReplaced || (this.#entries.size >= mostExports && isSpent(entry))) await this.delete(id);
    }
  }

  /**
   * One after the other with the verbs: nobody else may stop or continue a guest that runs until its copy has begun, nor start one that does not
   * until its copy is done.
   */
  #begin(id: string, entry: Entry): Promise<void> {
    const supervisor = this.#supervisor;
    return supervisor.inTurn(async () => {
      const { promise: goesOn, resolve: onGoesOn } = Promise.withResolvers<void>();
      const done = this.#run(id, entry, onGoesOn);
      entry.copying = done;
      supervisor.holdDisk(done);
      const begun = Promise.race([goesOn, done]);
      if (supervisor.running() !== undefined) supervisor.holdGuest(begun);
      await begun;
    });
  }

  /** In turn with the verbs until the copy is under way; the disk stays until it is done. */
  async #run(id: string, entry: Entry, onGoesOn: () => void): Promise<void> {
    try {
      await this.#copy(id, entry, onGoesOn);
    } catch (error) {
      await this.#fail(id, entry, error);
    }
  }

  async #fail(id: string, entry: Entry, error: unknown): Promise<void> {
    entry.failure.abort(error);
    entry.ticket = undefined;
    await rm(`${this.#fileOf(id)}.part`, { force: true });
    await this.#remove(id);
    const message = isForWantOfRoom(error) ? noRoom : messageOf(error);
    entry.view = { ...entry.view, state: 'Failed', message };
    if (!entry.abort.signal.aborted) this.#log.error({ export: id }, `export failed: ${message}`);
  }

  /** A guest that runs, and the disk itself, come before a copy, which takes room on the same volume while it is made and until it has been fetched. */
  async #guardRoom(id: string, entry: Entry): Promise<void> {
    const hasGuest = () => this.#supervisor.running() !== undefined;
    const storage = { ...this.#storage, podLimitBytes: entry.podLimitBytes };
    const reason = await this.#copies.shortage(storage, { hasGuest, signal: entry.gone });
    if (reason === undefined || entry.gone.aborted) return;
    const error = new Error(reason);
    if (entry.view.state === 'Ready') entry.copying = this.#fail(id, entry, error);
    else entry.failure.abort(error);
  }

  async #copy(id: string, entry: Entry, onGoesOn: () => void): Promise<void> {
    const draft = `${this.#fileOf(id)}.part`;
    // What is done by then can be fetched while the pod is being ended.
    const signal = AbortSignal.any([entry.gone, this.#supervisor.copiesEnd]);
    signal.throwIfAborted();
    await mkdir(this.#folder, { recursive: true });
    await rm(draft, { force: true });
    void this.#guardRoom(id, entry);
    const running = this.#supervisor.running();
    const virtualSize = await overlaySize(this.#overlay);
    const onProgress = (progress: number) => {
      entry.view = { ...entry.view, progress };
    };
    const context = { target: draft, virtualSize, signal, onProgress };
    const memory = { folder: this.#memoryOf(id), onGoesOn };
    const how = await this.#copyBy(running, entry.hasMemory, { ...context, ...memory });
    const { size } = await stat(draft);
    const sha256 = await hashFile(draft, signal);
    // One that was deleted meanwhile would take up the VM's storage, and nobody would know of it.
    signal.throwIfAborted();
    await rename(draft, this.#fileOf(id));
    signal.throwIfAborted();
    entry.view = { ...entry.view, ...how, state: 'Ready', progress: 100, size, virtualSize, sha256 };
    entry.wantedUntil = Date.now() + ticketLifetimeMs;
    const { consistency, stoppedMs } = how;
    this.#log.info({ export: id, size, consistency, stoppedMs }, 'export is ready');
  }

  async #copyBy(
    running: Running | undefined,
    hasMemory: boolean,
    context: MemoryCopyContext,
  ): Promise<CopyOutcome & { readonly stoppedMs?: number }> {
    // Without the memory it is a disk as after a power cut.
    if (this.#supervisor.isAsleep())
      throw new Error('the VM is suspended on its disk, which is saved once it goes on');
    const refusal = this.#supervisor.diskRefusal();
    if (refusal !== undefined) throw refusal;
    if (running === undefined && !hasMemory) return this.#copies.stopped(this.#overlay, context);
    if (running === undefined) throw new Error(noMemory);
    return hasMemory ? this.#copies.memory(running, context) : this.#copies.live(running.machine, context);
  }
}

function newEntry(id: string, asked: Pick<Entry, 'owner' | 'hasMemory' | 'podLimitBytes'>): Entry {
  const [abort, failure] = [new AbortController(), new AbortController()];
  const gone = AbortSignal.any([abort.signal, failure.signal]);
  return { view: { id, state: 'Copying', progress: 0 }, ...asked, abort, failure, gone };
}

function isGood({ value, expiresAt }: Ticket, ticket: string): boolean {
  const given = Buffer.from(ticket, 'base64url');
  return given.length === value.length && timingSafeEqual(given, value) && expiresAt > Date.now();
}

const noMemory = 'the VM does not run: only the memory of one that runs can be saved';

/** Why the memory of a guest that was started so cannot be saved; undefined where it can. */
function refusalOf(
  { gpuAddresses, disks, iso, hasEmptyDrive, spec }: MachineInput,
  isEjected: boolean,
): string | undefined {
  const refusal = memoryRefusal({
    architecture: spec.architecture,
    gpuPassthrough: gpuAddresses.length > 0 ? 'Enabled' : 'Disabled',
    disks: disks?.map(({ name }) => ({ name })),
    iso: isEjected ? undefined : iso,
  });
  // Another VM has no drive: the memory would not fit it.
  return refusal ?? (iso !== undefined || hasEmptyDrive === true ? ejectedRefusal : undefined);
}

/** Delivered whole, failed, or not fetched for as long as a ticket is good. */
function isSpent({ view, wantedUntil = Number.POSITIVE_INFINITY }: Entry): boolean {
  return view.state === 'Failed' || wantedUntil <= Date.now();
}

async function hashFile(path: string, signal: AbortSignal): Promise<string> {
  const file = await open(path);
  await file.sync();
  await file.close();
  const hash = createHash('sha256');
  try {
    await pipeline(createReadStream(path, { highWaterMark: 1024 * 1024 }), hash, { signal });
  } catch (error) {
    // Why it was given up, which the stream does not say.
    signal.throwIfAborted();
    throw error;
  }
  return hash.digest('hex');
}
