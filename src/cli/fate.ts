import { Svc3Error } from '../errors.ts';
import { Unanswered } from './service/unanswered.ts';

/**
 * What was accepted and waited for, and is not done when the wait ends. It goes on, and whoever began it, as a script, may not go on as if it were done.
 *
 * @param message - what was accepted, and what tells when it is done
 */
export function notInTime(message: string): Svc3Error {
  return new Svc3Error('Timeout', message);
}

/**
 * Whoever is told of something that goes on without them only that nobody answered would take it for refused.
 *
 * @param fate - a function where more of it is known later
 * @throws what `asked` does; an `Unanswered` says `fate`, too
 */
export async function tellingFate<T>(asked: Promise<T>, fate: string | (() => string)): Promise<T> {
  try {
    return await asked;
  } catch (error) {
    if (!(error instanceof Unanswered)) throw error;
    const said = typeof fate === 'string' ? fate : fate();
    throw new Svc3Error(error.reason, `${error.message}; ${said}`, { cause: error });
  }
}
