import { setTimeout as delay } from 'node:timers/promises';
import { chardevs } from './args.ts';
import { raceAbort, type Qmp } from './qmp.ts';

/** `mapped-ram`: each page has its place in the file. `x-ignore-shared`: memory that lies in a shared file is left out. */
export type Capability = 'mapped-ram' | 'x-ignore-shared';

const lookEveryMs = 10;
/**
 * QEMU's own are for networks: 128 MiB/s; and a guest that runs is stopped as soon as the rest takes 300 ms, which may be all of its memory.
 */
const limits = { 'max-bandwidth': 2 ** 40, 'downtime-limit': 0 } as const;

interface Migration {
  readonly status?: string;
  readonly 'error-desc'?: string;
  /** How often it has been looked up what the guest has written: once at the beginning, and after each pass over the memory. */
  readonly ram?: { readonly 'dirty-sync-count': number };
}

/** Writes memory and device state of a stopped guest into a file. Throws with QEMU's words, or what the signal ends it with. */
export async function migrateOut(
  qmp: Qmp,
  file: string,
  { capability, signal }: { readonly capability: Capability; readonly signal: AbortSignal },
): Promise<void> {
  await withCapability(qmp, capability, () => sendTo(qmp, `file:${file}`, signal));
}

/** Loads what `migrateOut` has written, into a QEMU that waits for it. The guest is paused afterwards. */
export async function migrateIn(
  qmp: Qmp,
  file: string,
  { capability, signal }: { readonly capability: Capability; readonly signal: AbortSignal },
): Promise<void> {
  await withCapability(qmp, capability, async () => {
    await receiveFrom(qmp, `file:${file}`);
    await untilReceived(qmp, signal);
  });
}

export interface HandedOver {
  /** Resolves when the other QEMU has loaded all of it. Throws with its words, or what the signal ends it with. */
  readonly received: (signal: AbortSignal) => Promise<void>;
}

/**
 * Hands memory and device state of a guest that runs to another QEMU, which waits for them; that one's guest is paused afterwards. The guest is
 * stopped when all of its memory has been sent once, and what it has written meanwhile is sent then. A guest that has written nothing is stopped
 * by QEMU itself.
 *
 * @param socket - path at which the other QEMU listens meanwhile
 * @returns when all is sent: the guest is stopped, and may go on
 * @throws Error with the words of the QEMU that hands over, or what the signal ends it with
 */
export async function handOver(
  from: Qmp,
  to: Qmp,
  { socket, signal }: { readonly socket: string; readonly signal: AbortSignal },
): Promise<HandedOver> {
  // Else it would go on with a guest that QEMU itself has stopped.
  await to.execute('stop');
  await receiveFrom(to, `unix:${socket}`);
  let isStopped = false;
  await sendTo(from, `unix:${socket}`, signal, async ({ ram }) => {
    if (isStopped || (ram?.['dirty-sync-count'] ?? 0) < 2) return;
    isStopped = true;
    await from.execute('stop');
  });
  return { received: (until) => untilReceived(to, until) };
}

/** What QEMU says of a migration that has failed; undefined where none has. */
export async function migrationError(qmp: Qmp): Promise<string | undefined> {
  const { status, 'error-desc': error } = await qmp.execute<Migration>('query-migrate');
  return status === 'failed' ? (error ?? 'the migration failed') : undefined;
}

/** @param meanwhile - where it throws the migration is ended, too */
async function sendTo(
  qmp: Qmp,
  uri: string,
  signal: AbortSignal,
  meanwhile: (state: Migration) => Promise<void> = async () => undefined,
): Promise<void> {
  const failing = new AbortController();
  const ending = AbortSignal.any([signal, failing.signal]);
  await qmp.execute('migrate-set-parameters', limits);
  await qmp.execute('migrate', { uri });
  await untilDone(qmp, async (state) => {
    if (ending.aborted) await qmp.execute('migrate_cancel').catch(() => undefined);
    else await meanwhile(state).catch((error: unknown) => failing.abort(error));
  });
  ending.throwIfAborted();
}

async function receiveFrom(qmp: Qmp, uri: string): Promise<void> {
  // Else QEMU ends, and its words with it.
  await qmp.execute('migrate-incoming', { uri, 'exit-on-error': false });
}

/** QEMU answers nobody while it reads a memory from a file, however long a disk takes for that: only the signal gives it up. */
function untilReceived(qmp: Qmp, signal: AbortSignal): Promise<void> {
  const received = untilDone(qmp, async () => signal.throwIfAborted(), {
    timeoutMs: Number.POSITIVE_INFINITY,
  });
  return raceAbort(received, signal);
}

async function withCapability(qmp: Qmp, capability: Capability, work: () => Promise<void>): Promise<void> {
  const set = (state: boolean) =>
    qmp.execute('migrate-set-capabilities', { capabilities: [{ capability, state }] });
  await set(true);
  try {
    await work();
  } finally {
    await set(false).catch(() => undefined);
  }
}

async function untilDone(
  qmp: Qmp,
  meanwhile: (state: Migration) => Promise<void>,
  options?: { readonly timeoutMs: number },
): Promise<void> {
  for (;;) {
    const state = await qmp.execute<Migration>('query-migrate', undefined, options);
    const { status } = state;
    if (status === 'completed' || status === 'cancelled') return;
    if (status === 'failed') throw new Error(`QEMU: ${await migrationError(qmp)}`);
    await meanwhile(state);
    await delay(lookEveryMs);
  }
}

/** Of a guest that runs before the work and after it. */
export async function withoutClipboard<T>(qmp: Qmp, work: () => Promise<T>): Promise<T> {
  const giveBack = await takeClipboard(qmp);
  try {
    return await work();
  } finally {
    await giveBack();
  }
}

/**
 * QEMU 10.0 writes no memory while its clipboard has a backend (`args.ts`): it is taken away, the guest's device stays. Only a guest that
 * runs takes another backend.
 *
 * @returns what gives it back
 */
export async function takeClipboard(qmp: Qmp): Promise<() => Promise<void>> {
  const known = await qmp.execute<{ label: string }[]>('query-chardev');
  if (!known.some(({ label }) => label === chardevs.clipboard)) return async () => undefined;
  const change = async (backend: object) => {
    await qmp.execute('chardev-change', { id: chardevs.clipboard, backend });
  };
  await change({ type: 'null', data: {} });
  return () => change({ type: 'qemu-vdagent', data: { mouse: false, clipboard: true } });
}
