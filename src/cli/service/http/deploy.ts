import { group } from '../../../api/meta.ts';
import { ifFound, Svc3Error, type ErrorReason } from '../../../errors.ts';
import { deployItemOf } from '../../../wire/vm.ts';
import { retryWhileUnreachable } from '../../unreachable.ts';
import { sleep } from '../../sleep.ts';
import type { DeployItem, VmItem } from '../types.ts';

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
 * (contract: `POST NS/vms`).
 *
 * @throws Svc3Error Timeout, Invalid where it can never run, Conflict where it has run, NotFound, or what `read` throws for a minute
 */
export async function waitForDeployed(
  created: DeployItem,
  { read, timeoutMs, signal, progress }: DeployWaiting,
): Promise<DeployItem> {
  const begin = performance.now();
  let last: SeenVm | undefined;
  let hasRun = created.status === 'Running';
  for (;;) {
    if (signal.aborted) throw refusal(created, 'Timeout', `stopped waiting for VM ${created.name}`);
    const seen = await retryWhileUnreachable(() => ifFound(read()), signal);
    if (seen === undefined) throw gone(created, hasRun, last);
    last = seen;
    hasRun ||= seen.item.status === 'Running';
    progress(`${created.name}: ${reasonOf(seen) ?? seen.item.status}`);
    if (isDeployed(seen, hasRun)) return deployItemOf(seen.item, created.portWarnings);
    if (performance.now() - begin > timeoutMs + (hasRun ? 0 : deadlineGraceMs))
      throw late(created, hasRun, seen);
    await sleep(pollMs, signal);
  }
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
