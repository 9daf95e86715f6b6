import { Svc3Error } from '../errors.ts';
import { Unanswered } from './service/unanswered.ts';

/**
 * Whoever is told of something that goes on without them only that nobody answered would take it for refused.
 *
 * @throws what `asked` does; an `Unanswered` says `fate`, too
 */
export async function tellingFate<T>(asked: Promise<T>, fate: string): Promise<T> {
  try {
    return await asked;
  } catch (error) {
    if (!(error instanceof Unanswered)) throw error;
    throw new Svc3Error(error.reason, `${error.message}; ${fate}`, { cause: error });
  }
}
