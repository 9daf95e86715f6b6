import { invalidField } from '../errors.ts';
import { readWhole } from '../net/foreign.ts';
import type { Context } from './context.ts';
import type { InputStream } from './environment.ts';
import { orAborted } from './sleep.ts';

/** Far above any password or token; a wrong file is not read to its end. */
const longest = 65_536;

/**
 * A secret that was given, or all of standard input without the line end that an editor or `echo` puts there.
 *
 * @throws the reason of the environment's signal where that is aborted first; Svc3Error Invalid naming the field when nothing is left, and never quoting what was read
 */
export async function readSecret(
  { environment }: Context,
  field: string,
  given: string | undefined,
): Promise<string> {
  const text = given ?? (await readAll(environment, field)).replace(/\r?\n$/, '');
  if (text === '') throw invalidField(field, 'must not be empty', 'FieldValueRequired');
  // oxlint-disable-next-line no-control-regex -- control characters are what this refuses
  if (/[\u0000-\u001f\u007f]/.test(text))
    throw invalidField(field, 'must be one line without control characters');
  return text;
}

async function readAll(
  { stdin, signal }: { readonly stdin: InputStream; readonly signal: AbortSignal },
  field: string,
): Promise<string> {
  const tooLong = () => invalidField(field, `must be at most ${longest} bytes`);
  try {
    return (await orAborted(readWhole(stdin, longest, tooLong), signal)).toString('utf8');
  } catch (error) {
    // An input that is open keeps the process.
    if (signal.aborted) stdin.destroy?.();
    throw error;
  }
}
