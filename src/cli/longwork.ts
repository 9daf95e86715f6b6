import { isSvc3Error, Svc3Error } from '../errors.ts';
import type { Context } from './context.ts';
import type { OptionSpecs } from './command.ts';
import { mostOthers, retryWhileUnreachable } from './unreachable.ts';
import { sleep } from './sleep.ts';
import type { DiskItem, Disks } from './service/types.ts';
import { diskView } from './views.ts';

/** Options of everything that makes an image or ISO in the background. */
export const longWorkOptions = {
  wait: { kind: 'flag', summary: 'Wait until it is ready, and show how far it is' },
} as const satisfies OptionSpecs;

/** Options of what takes the disk of a VM, which people delete next. */
export const savingOptions = {
  'no-wait': {
    kind: 'flag',
    summary: 'Return at once; the work goes on, and a deletion of the VM waits for it',
  },
  wait: { kind: 'flag', summary: 'Wait until it is ready, which is the default' },
} as const satisfies OptionSpecs;

/** Option of everything that makes an image or ISO. */
export const descriptionOption = {
  description: { kind: 'text', short: 'd', placeholder: 'TEXT', summary: 'Free text for people' },
} as const satisfies OptionSpecs;

/** Option of everything that makes a disk of which nothing else says for which guests it is. */
export const architectureOption = {
  architecture: {
    kind: 'choice',
    alias: 'arch',
    choices: ['amd64', 'arm64'],
    summary: 'For which guests the disk is; else amd64',
  },
} as const satisfies OptionSpecs;

const pollMs = 1000;

/** Prints what has begun, or waits for its end; returns what was printed. */
export async function showWork(
  context: Context,
  kind: 'image' | 'iso',
  { begun, disks, wait }: { readonly begun: DiskItem; readonly disks: Disks; readonly wait: boolean },
): Promise<DiskItem> {
  const { out, signal, namespace } = context;
  const ns = await namespace();
  let item = begun;
  // A commit changes an image that was ready before: the first look may still see that state.
  const shown = `svc3 ${kind} get ${begun.name} shows it`;
  const goesOn =
    begun.commitRequest === undefined
      ? `${kind} ${begun.name} goes on being made: ${shown}, svc3 ${kind} delete ${begun.name} ends it`
      : `the commit of ${kind} ${begun.name} goes on: ${shown}`;
  context.ifInterrupted(`no longer waiting; ${goesOn}`);
  const look = async (): Promise<DiskItem> => {
    try {
      return await retryWhileUnreachable(() => disks.get(ns, begun.name), signal);
    } catch (error) {
      if (!isSvc3Error(error) || error.reason === 'NotFound') throw error;
      throw new Svc3Error(error.reason, `${error.message}; ${goesOn}`, { cause: error });
    }
  };
  let isDone = !wait;
  const waits = () => !isDone && !signal.aborted;
  if (wait) await sleep(pollMs, signal);
  for (let others = 0; waits();) {
    item = await look();
    const other = overtaken(kind, begun, item);
    others = other === undefined ? 0 : others + 1;
    if (other !== undefined) {
      if (others > mostOthers) throw other;
      await sleep(pollMs, signal);
      continue;
    }
    // An image whose commit failed is ready in the version before.
    if (item.state === 'Failed' || (item.state === 'Ready' && item.errorMessage !== undefined))
      throw new Svc3Error('Invalid', `${kind} ${item.name}: ${item.errorMessage ?? 'failed'}`);
    isDone = item.state === 'Ready';
    if (isDone) break;
    out.progress(`${kind} ${item.name}: ${item.progress === undefined ? item.state : `${item.progress}%`}`);
    await sleep(pollMs, signal);
  }
  if (!isDone) throw new Svc3Error('Timeout', `stopped waiting for ${kind} ${item.name}`);
  await out.item(diskView(kind), item);
  return item;
}

/** Why what is there is not what was begun; undefined where it is, or where the server told nothing to know it by. */
function overtaken(kind: 'image' | 'iso', begun: DiskItem, now: DiskItem): Svc3Error | undefined {
  const { name, createdAt, commitRequest } = begun;
  const isAnother = createdAt !== undefined && now.createdAt !== undefined && createdAt !== now.createdAt;
  if (isAnother) return new Svc3Error('NotFound', `${kind} ${name} was deleted before it was ready`);
  if (commitRequest === undefined || commitRequest === now.commitRequest) return undefined;
  const what =
    now.commitRequest === undefined
      ? `the commit of ${kind} ${name} was withdrawn`
      : `another commit of ${kind} ${name} came in between`;
  return new Svc3Error('Conflict', what);
}

/** Waits until the disk of a VM is in the store, unless the user does not want to. */
export async function showSaving(
  context: Context,
  vm: string,
  { begun, images, wait }: { readonly begun: DiskItem; readonly images: Disks; readonly wait: boolean },
): Promise<void> {
  const { memory } = await showWork(context, 'image', { begun, disks: images, wait });
  const { out } = context;
  if (out.format !== 'table' && out.format !== 'wide') return;
  if (!wait) out.line(`The disk of VM ${vm} is being saved; a deletion of the VM waits for it.`);
  else if (memory?.stoppedMs !== undefined)
    out.line(`The guest of VM ${vm} was stopped for ${lengthOf(memory.stoppedMs)}.`);
}

function lengthOf(milliseconds: number): string {
  return milliseconds < 1000 ? `${milliseconds} ms` : `${(milliseconds / 1000).toFixed(1)} s`;
}
