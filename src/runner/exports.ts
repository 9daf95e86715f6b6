import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, open, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { Logger } from 'pino';
import { mostExports, type ExportTicket, type RunnerExport } from '../api/runner.ts';
import { messageOf, Svc3Error } from '../errors.ts';
import { copyLive, copyStopped } from './diskcopy.ts';
import { overlaySize } from './overlay.ts';
import { overlayPath } from './preparation.ts';
import type { RunnerFolders } from './preparation.ts';
import type { Supervisor } from './supervisor.ts';

/** Flat copies of the VM's disk, one per id, for save and commit. */
export interface Exports {
  /**
   * Begins a copy; asking again for the same id is answered with what there is. A failed one begins anew. An owner has one: what it asked
   * for before is deleted.
   */
  start(id: string, owner?: string): Promise<RunnerExport>;
  get(id: string): RunnerExport;
  /** A new ticket makes the one before void. */
  ticket(id: string): ExportTicket;
  delete(id: string): Promise<void>;
  /** The file behind a ticket. Unauthorized: no such ticket, or it is used up. */
  open(id: string, ticket: string): Promise<ExportFile>;
  /** Takes away what an earlier life of the runner left. */
  clear(): Promise<void>;
}

export interface ExportFile {
  readonly path: string;
  readonly size: number;
  readonly sha256: string;
  /** To be called when the last byte has been delivered. */
  used(): void;
}

interface Entry {
  view: RunnerExport;
  readonly owner: string | undefined;
  /** Until then somebody may come to fetch it; undefined while it is made. */
  wantedUntil?: number;
  /** Ends with the copy, however that ends; undefined before its turn. */
  copying?: Promise<void>;
  ticket?: { value: Buffer; expiresAt: number } | undefined;
  readonly abort: AbortController;
}

const ticketLifetimeMs = 3_600_000;

/** How copies are made; only tests have another way. */
const qemuCopies = { live: copyLive, stopped: copyStopped } as const;

export function createExports(
  supervisor: Supervisor,
  folders: RunnerFolders,
  log: Logger,
  copies: typeof qemuCopies = qemuCopies,
): Exports {
  const folder = join(folders.state, 'exports');
  const entries = new Map<string, Entry>();
  const fileOf = (id: string) => join(folder, `${id}.qcow2`);

  function find(id: string): Entry {
    const entry = entries.get(id);
    if (entry === undefined) throw new Svc3Error('NotFound', `there is no export ${id}`);
    return entry;
  }

  async function copy(id: string, entry: Entry): Promise<void> {
    const draft = `${fileOf(id)}.part`;
    const { signal } = entry.abort;
    signal.throwIfAborted();
    await mkdir(folder, { recursive: true });
    await rm(draft, { force: true });
    const running = supervisor.running();
    const virtualSize = await overlaySize(overlayPath(folders));
    const onProgress = (progress: number) => {
      entry.view = { ...entry.view, progress };
    };
    const context = { target: draft, virtualSize, signal, onProgress };
    const how =
      running === undefined
        ? await copies.stopped(overlayPath(folders), context)
        : await copies.live(running.machine, context);
    const { size } = await stat(draft);
    const sha256 = await hashFile(draft);
    // One that was deleted meanwhile would take up the VM's storage, and nobody would know of it.
    signal.throwIfAborted();
    await rename(draft, fileOf(id));
    entry.view = { ...entry.view, ...how, state: 'Ready', progress: 100, size, virtualSize, sha256 };
    entry.wantedUntil = Date.now() + ticketLifetimeMs;
    log.info({ export: id, size, consistency: how.consistency }, 'export is ready');
  }

  /** In turn with the verbs until the copy is under way; the disk stays until it is done. */
  async function run(id: string, entry: Entry): Promise<void> {
    try {
      await copy(id, entry);
    } catch (error) {
      await rm(`${fileOf(id)}.part`, { force: true });
      const full = /No space left|ENOSPC/i.test(messageOf(error));
      const message = full ? "the VM's storage has no room for the copy" : messageOf(error);
      entry.view = { ...entry.view, state: 'Failed', message };
      if (!entry.abort.signal.aborted) log.error({ export: id }, `export failed: ${message}`);
    }
  }

  async function remove(id: string): Promise<void> {
    const entry = entries.get(id);
    entries.delete(id);
    entry?.abort.abort(new Error('the export was deleted'));
    // Another copy is made when this one no longer takes up room.
    await entry?.copying;
    await rm(fileOf(id), { force: true });
  }

  /** Whoever asked may have been killed before it came to delete what it no longer needs. */
  async function makeRoom(owner: string | undefined): Promise<void> {
    for (const [id, entry] of entries) {
      const isReplaced = owner !== undefined && entry.owner === owner;
      if (isReplaced || (entries.size >= mostExports && isSpent(entry))) await remove(id);
    }
  }

  return {
    async start(id, owner) {
      if (entries.get(id) === undefined) await makeRoom(owner);
      const known = entries.get(id);
      if (known !== undefined && known.view.state !== 'Failed') return known.view;
      const isCopying = [...entries.values()].some((entry) => entry.view.state === 'Copying');
      if (isCopying || (known === undefined && entries.size >= mostExports)) {
        throw new Svc3Error('Conflict', 'the VM is being saved already; delete an export that is done first');
      }
      const entry: Entry = {
        view: { id, state: 'Copying', progress: 0 },
        owner,
        abort: new AbortController(),
      };
      entries.set(id, entry);
      void supervisor.inTurn(() => {
        const done = run(id, entry);
        entry.copying = done;
        supervisor.holdDisk(done);
        return supervisor.running() === undefined ? done : Promise.resolve();
      });
      return entry.view;
    },
    get: (id) => find(id).view,
    ticket(id) {
      const entry = find(id);
      if (entry.view.state !== 'Ready')
        throw new Svc3Error('Conflict', `export ${id} is ${entry.view.state}`);
      const value = randomBytes(32);
      const expiresAt = Date.now() + ticketLifetimeMs;
      entry.ticket = { value, expiresAt };
      entry.wantedUntil = expiresAt;
      return {
        ticket: value.toString('base64url'),
        path: `/v1/exports/${id}/data`,
        expiresAt: new Date(expiresAt).toISOString(),
      };
    },
    delete: remove,
    async open(id, ticket) {
      const entry = entries.get(id);
      const given = Buffer.from(ticket, 'base64url');
      const kept = entry?.ticket;
      const isGood =
        kept !== undefined &&
        given.length === kept.value.length &&
        timingSafeEqual(given, kept.value) &&
        kept.expiresAt > Date.now();
      if (entry === undefined || !isGood) throw new Svc3Error('Unauthorized', 'the ticket is not valid');
      const { size = 0, sha256 = '' } = entry.view;
      const used = () => {
        if (entry.ticket !== kept) return;
        entry.ticket = undefined;
        entry.wantedUntil = 0;
      };
      return { path: fileOf(id), size, sha256, used };
    },
    clear: () => rm(folder, { recursive: true, force: true }),
  };
}

/** Delivered whole, failed, or not fetched for as long as a ticket is good. */
function isSpent({ view, wantedUntil = Number.POSITIVE_INFINITY }: Entry): boolean {
  return view.state === 'Failed' || wantedUntil <= Date.now();
}

async function hashFile(path: string): Promise<string> {
  const file = await open(path);
  await file.sync();
  await file.close();
  const hash = createHash('sha256');
  await pipeline(createReadStream(path, { highWaterMark: 1024 * 1024 }), hash);
  return hash.digest('hex');
}
