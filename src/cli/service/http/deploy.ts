import { group } from '../../../api/meta.ts';
import { Svc3Error, type ErrorReason } from '../../../errors.ts';
import { deployItemOf } from '../../../wire/vm.ts';
import { mostOthers } from '../../unreachable.ts';
import { sleep } from '../../sleep.ts';
import type { DeployItem, VmItem } from '../types.ts';
import { look } from './look.ts';

/** A VM as it was seen last. */
export interface SeenVm {
  readonly item: VmItem;
  /** Whether its guest answers what `spec.readiness` asks; undefined where nobody waits for that. */
  readonly isReady?: boolean;
  /** Why it does not. */
  readonly why?: string | undefined;
}

/** A wait for a VM that the server has created and waits for no longer: its process ends. */
export interface DeployWaiting {
  /** Undefined: it is not there. */
  read(): Promise<SeenVm | undefined>;
  /** How long the server would have waited, in milliseconds. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  progress(text: string): void;
}

const pollMs = 1_000;
/** As long as the server waits for the operator to remove a VM at its start deadline. */
const deadlineGraceMs = 5_000;

/**
 * The VM once it runs, and is reachable where `read` tells that. What it is refused with is what the server would have said
 * (contract: `POST NS/vms`). Another VM that has got its name by then is not it: it is gone.
 *
 * @throws Svc3Error Timeout, Invalid where it can never run, Conflict where it has run, NotFound; Unanswered where `read` is refused, or fails for a minute
 */
export async function waitForDeployed(
  created: DeployItem,
  { read, timeoutMs, signal, progress }: DeployWaiting,
): Promise<DeployItem> {
  const begin = performance.now();
  let last: SeenVm | undefined;
  let hasRun = created.status === 'Running';
  // A server that does not tell it is believed in its first look.
  let { uid } = created;
  for (let others = 0; ;) {
    if (signal.aborted) throw refusal(created, 'Timeout', `stopped waiting for VM ${created.name}`);
    const seen = await look(read, signal);
    uid ??= seen?.item.uid;
    others = isAnother(seen, uid) ? others + 1 : 0;
    if (seen === undefined || others > mostOthers) throw gone(created, hasRun, last);
    if (others > 0) {
      await sleep(pollMs, signal);
      continue;
    }
    last = seen;
    hasRun ||= seen.item.status === 'Running';
    progress(`${created.name}: ${reasonOf(seen) ?? seen.item.status}`);
    if (isDeployed(seen, hasRun)) return deployItemOf(seen.item, created.portWarnings);
    if (performance.now() - begin > timeoutMs + (hasRun ? 0 : deadlineGraceMs))
      throw late(created, hasRun, seen);
    await sleep(pollMs, signal);
  }
}

function isAnother(seen: SeenVm | undefined, uid: string | undefined): boolean {
  return seen?.item.uid !== undefined && seen.item.uid !== uid;
}

/** @throws Svc3Error where it never will be, and does not run any more */
function isDeployed(seen: SeenVm, hasRun: boolean): boolean {
  const { item, isReady = true } = seen;
  if (item.status === 'Running') return isReady;
  const why = reasonOf(seen);
  if (item.status === 'Failed' && !hasRun)
    throw refusal(item, 'Invalid', why ?? `VM ${item.name} cannot run`);
  // It has run unseen, or was seen to run and does not any more: its guest may have ended what it was started for.
  if (hasRun || item.status !== 'Pending')
    throw refusal(item, 'Conflict', `VM ${item.name} is ${item.status}${because(why)}`);
  return false;
}

function gone(created: DeployItem, hasRun: boolean, last: SeenVm | undefined): Svc3Error {
  const { name } = created;
  if (hasRun) return refusal(created, 'NotFound', `vms "${name}" not found`);
  const why = because(last === undefined ? created.message : reasonOf(last));
  return refusal(created, 'Timeout', `VM ${name} did not run within its timeout and was removed${why}`);
}

function late(created: DeployItem, hasRun: boolean, seen: SeenVm): Svc3Error {
  const { name } = created;
  const why = reasonOf(seen);
  return refusal(
    created,
    'Timeout',
    hasRun
      ? `VM ${name} was not reachable within its timeout and stays: ${why ?? 'it runs'}`
      : `VM ${name} did not run within its timeout and is removed by the operator unless it has started meanwhile${because(why)}`,
  );
}

function reasonOf({ item, why }: SeenVm): string | undefined {
  return item.message ?? why;
}

function because(why: string | undefined): string {
  return why === undefined ? '' : `: ${why}`;
}

function refusal({ name }: { readonly name: string }, reason: ErrorReason, message: string): Svc3Error {
  return new Svc3Error(reason, message, { details: { group, kind: 'vms', name } });
}
