import { Svc3Error } from '../../errors.ts';
import type { Reply } from '../call/route.ts';

/**
 * 2.4.x answered when the work was done, and its clients go on from there. `/api/v1` answers 202 where it goes on: there is no such answer here.
 *
 * @param goesOn - says that it goes on, and which request tells when it is done
 * @throws Svc3Error Timeout with that sentence
 */
export async function finished(reply: Promise<Reply>, goesOn: (body: unknown) => string): Promise<void> {
  const { status, body } = await reply;
  if (status === 202) throw new Svc3Error('Timeout', goesOn(body));
}

/** The sentence about a VM, whose request tells. */
export function seeStatus(what: string, name: string): string {
  return `${what}; GET /resources/vm/status/${name} tells`;
}
