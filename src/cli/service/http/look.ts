import { ifFound, isSvc3Error } from '../../../errors.ts';
import { retryWhileUnreachable } from '../../unreachable.ts';
import { Unanswered } from '../unanswered.ts';

/**
 * What `read` finds, for whoever waits for what was accepted before: a refusal to look says nothing of that, and neither does a server that is away.
 *
 * @returns undefined: it is not there
 * @throws Unanswered where `read` is refused, or fails for a minute; the signal's reason
 */
export async function look<T>(read: () => Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  try {
    return await retryWhileUnreachable(() => ifFound(read()), signal);
  } catch (error) {
    if (!isSvc3Error(error)) throw error;
    throw new Unanswered(error.reason, error.message, { details: error.details, cause: error });
  }
}
