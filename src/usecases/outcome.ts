import { createHash } from 'node:crypto';
import * as z from 'zod';
import { PowerState, type Vm } from '../api/vm.ts';
import { invalidField, isSvc3Error } from '../errors.ts';
import type { PowerRequest } from '../wire/power.ts';
import type { VmItem } from '../wire/vm.ts';
import { isLookedAt, newWarnings, type WrittenChange } from './change.ts';
import { isCarriedOut } from './power.ts';

/**
 * Replies that do not wait for what they accept have a text (`request`) by which any replica of the api tells later what has become of it (docs/http.md): it
 * holds what was written into the VM, so that nobody has to keep it.
 */

const id = z.string().max(64).optional();
const Written = z.object({
  uid: z.string().max(64),
  generation: z.int(),
  power: z
    .object({
      asked: z.object({ powerState: PowerState, revertRequest: id, startRequest: id, restartRequest: id }),
      /** Of the status, when it was asked for. */
      before: z.object({ revertRequest: id, restartRequest: id }),
    })
    .optional(),
  change: z.object({ isOfDisks: z.boolean(), known: z.array(z.string()).max(64) }).optional(),
});

/** What was written into a VM by a request. */
export type WrittenRequest = z.output<typeof Written>;

/** The text for a power verb. @param patched - the VM as the verb was written */
export function textOfVerb({ metadata, status }: Vm, asked: PowerRequest): string {
  const { uid, generation = 0 } = metadata;
  const before = { revertRequest: status?.revertRequest, restartRequest: status?.restartRequest };
  return textOf({ uid, generation, power: { asked, before } });
}

/** The text for a change of settings. Its warnings that are known are named by a hash: the text is part of an address. */
export function textOfChange(uid: string, { generation, isOfDisks, known }: WrittenChange): string {
  return textOf({ uid, generation, change: { isOfDisks, known: known.map(hashOf) } });
}

function textOf(written: z.input<typeof Written>): string {
  return Buffer.from(JSON.stringify(written)).toString('base64url');
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('base64url').slice(0, 8);
}

/** @throws Svc3Error Invalid where it is no such text */
export function requestIn(text: string): WrittenRequest {
  try {
    return Written.parse(JSON.parse(Buffer.from(text, 'base64url').toString('utf8')));
  } catch {
    throw invalidField('request', 'must be request of a reply to exec or PATCH');
  }
}

type Outcome = NonNullable<VmItem['outcome']>;

/**
 * What has become of a request, by what is seen of its VM.
 *
 * @param warn - told what the operator says of a change that it has looked at, as whoever waits for the change is
 */
export function outcomeOf(vm: Vm, request: WrittenRequest, warn: (text: string) => void): Outcome {
  try {
    return { state: isDone(vm, request, warn) ? 'Done' : 'UnderWay' };
  } catch (error) {
    if (!isSvc3Error(error, 'Conflict')) throw error;
    return { state: 'Refused', message: error.message };
  }
}

function isDone(
  vm: Vm,
  { generation, power, change }: WrittenRequest,
  warn: (text: string) => void,
): boolean {
  if (power !== undefined)
    return isCarriedOut(vm, power.asked, { metadata: { generation }, status: power.before });
  if (!isLookedAt(vm, { generation, isOfDisks: change?.isOfDisks ?? false })) return false;
  const isNew = (warning: string) => change?.known.includes(hashOf(warning)) !== true;
  for (const warning of newWarnings(vm, []).filter(isNew)) warn(warning);
  return true;
}
