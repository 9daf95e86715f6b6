import { Svc3Error } from '../errors.ts';
import { Unanswered } from './service/unanswered.ts';

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
