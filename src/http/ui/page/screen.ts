import { isForbidden, messageOf } from './api.ts';

/** The program that shows screens is not there: browsers may keep for as long as the page is shown that its import has failed. */
class NotLoaded extends Error {}

/** What is said of a screen that was not opened, and what is to be done: nothing, trying again, or loading the page again. */
export interface AfterFailure {
  readonly state: string;
  readonly next: 'none' | 'again' | 'reload';
}

export function afterFailure(error: unknown): AfterFailure {
  if (error instanceof NotLoaded)
    return {
      state: 'The program that shows the screen could not be loaded. Load the page again.',
      next: 'reload',
    };
  const why = `${messageOf(error)}.`;
  return isForbidden(error)
    ? { state: why, next: 'none' }
    : { state: `${why} Trying again …`, next: 'again' };
}

/**
 * Gets a ticket, then the program: where the server cannot be reached, the ticket shows it, and no import fails.
 * @throws whatever the ticket was refused with; what `afterFailure` knows where the program is not loaded
 */
export async function prepared<T, P>(
  ticket: () => Promise<T>,
  load: () => Promise<P>,
): Promise<{ readonly ticket: T; readonly program: P }> {
  const given = await ticket();
  try {
    return { ticket: given, program: await load() };
  } catch (cause) {
    throw new NotLoaded('the program was not loaded', { cause });
  }
}
