import { invalidField, type Svc3Error } from '../../errors.ts';
import type { UploadTurns } from './turns.ts';

/** What all uploads of the process have in common. */
export interface UploadLimits {
  /** Default: of the uploads of one way alone. */
  readonly turns?: UploadTurns;
  /** The largest file that is taken: no worker takes a larger one. Default: that of the chart. */
  readonly maxBytes?: number;
}

/**
 * A disk file that no worker would take, whatever is in it.
 *
 * @param field - header that says so, or `body` where only the bytes do
 * @param maxBytes - the largest that is taken
 */
export function fileTooLarge(field: string, maxBytes: number): Svc3Error {
  return invalidField(
    field,
    `the disk file must not be larger than ${maxBytes} bytes (chart value store.maxFileSize)`,
  );
}
