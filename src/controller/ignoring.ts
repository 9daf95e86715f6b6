import { type ErrorReason, isSvc3Error } from '../errors.ts';

/** The reply, or undefined where the server refused for one of these reasons: what was to be done is done already. */
export async function ignoring<T>(reasons: readonly ErrorReason[], call: Promise<T>): Promise<T | undefined> {
  try {
    return await call;
  } catch (error) {
    if (isSvc3Error(error, ...reasons)) return undefined;
    throw error;
  }
}
