import { group } from '../../../api/meta.ts';
import { Svc3Error, type ErrorReason } from '../../../errors.ts';
import { sleep } from '../../sleep.ts';
import type { VmItem } from '../types.ts';
import type { ApiClient } from './client.ts';
import { look } from './look.ts';

/** A wait for what a server has accepted (202) and waits for no longer. */
export interface RequestWaiting {
  /** Of the VM. */
  readonly name: string;
  /** Of the VM, in the HTTP API. */
  readonly path: string;
  /** By which servers tell what has become of it; undefined: the server is older than that. */
  readonly request: string | undefined;
  /** When the time to wait is over, by `performance.now()`. */
  readonly endsAt: number;
  /** What to say where no server tells what has become of it. */
  readonly left: string;
  readonly signal: AbortSignal;
  progress(text: string): void;
}

const pollMs = 1_000;

/**
 * The VM once a server says that what was asked of it is done; undefined where the time is over before. It is asked what has become of that, never for it once
 * more: a restart or a revert would be carried out twice.
 *
 * @throws Svc3Error Conflict where nothing comes of it any more, NotFound where the VM is gone, Timeout where no server tells; Unanswered where servers refuse to
 * tell, or cannot be reached for a minute
 */
export async function waitForRequest(
  api: ApiClient,
  { name, path, request, endsAt, left, signal, progress }: RequestWaiting,
): Promise<VmItem | undefined> {
  if (performance.now() >= endsAt) return undefined;
  const notTold = new Svc3Error('Timeout', left);
  if (request === undefined) throw notTold;
  for (let isTold = false; ;) {
    if (signal.aborted) throw refusal(name, 'Timeout', `stopped waiting for VM ${name}`);
    const warnings: string[] = [];
    const seen = await look(async () => {
      warnings.length = 0;
      const onWarning = (text: string) => warnings.push(text);
      return (await api.json({ method: 'GET', path, query: { request }, onWarning, signal })).value as VmItem;
    }, signal);
    if (seen === undefined) throw refusal(name, 'NotFound', `vms "${name}" not found`);
    const { outcome, message, status } = seen;
    progress(`${name}: ${message ?? status}`);
    isTold ||= outcome !== undefined;
    if (outcome?.state === 'Done') {
      for (const text of warnings) api.warn(text);
      return seen;
    }
    if (outcome?.state === 'Refused')
      throw refusal(name, 'Conflict', outcome.message ?? `VM ${name}: refused`);
    if (performance.now() >= endsAt) {
      if (isTold) return undefined;
      throw notTold;
    }
    await sleep(pollMs, signal);
  }
}

function refusal(name: string, reason: ErrorReason, message: string): Svc3Error {
  return new Svc3Error(reason, message, { details: { group, kind: 'vms', name } });
}
