import { setTimeout as delay } from 'node:timers/promises';
import { chardevs } from './args.ts';
import type { Qmp } from './qmp.ts';

/** `mapped-ram`: each page has its place in the file. `x-ignore-shared`: memory that lies in a shared file is left out. */
export type Capability = 'mapped-ram' | 'x-ignore-shared';

const lookEveryMs = 10;
/** QEMU's own limit is for networks: 128 MiB/s. */
const bytesPerSecond = 2 ** 40;

interface Migration {
  readonly status?: string;
  readonly 'error-desc'?: string;
}

/** Writes memory and device state of a stopped guest into a file. Throws with QEMU's words, or what the signal ends it with. */
export async function migrateOut(
  qmp: Qmp,
  file: string,
  { capability, signal }: { readonly capability: Capability; readonly signal: AbortSignal },
): Promise<void> {
  await qmp.execute('migrate-set-parameters', { 'max-bandwidth': bytesPerSecond });
  await withCapability(qmp, capability, async () => {
    await qmp.execute('migrate', { uri: `file:${file}` });
    await untilDone(qmp, async () => {
      if (signal.aborted) await qmp.execute('migrate_cancel').catch(() => undefined);
    });
    signal.throwIfAborted();
  });
}

/** Loads what `migrateOut` has written, into a QEMU that waits for it. The guest is paused afterwards. */
export async function migrateIn(
  qmp: Qmp,
  file: string,
  { capability, signal }: { readonly capability: Capability; readonly signal: AbortSignal },
): Promise<void> {
  await withCapability(qmp, capability, async () => {
    // Else QEMU ends, and its words with it.
    await qmp.execute('migrate-incoming', { uri: `file:${file}`, 'exit-on-error': false });
    await untilDone(qmp, async () => signal.throwIfAborted());
  });
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

async function untilDone(qmp: Qmp, meanwhile: () => Promise<void>): Promise<void> {
  for (;;) {
    const { status, 'error-desc': error } = await qmp.execute<Migration>('query-migrate');
    if (status === 'completed' || status === 'cancelled') return;
    if (status === 'failed') throw new Error(`QEMU: ${error ?? 'the migration failed'}`);
    await meanwhile();
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
