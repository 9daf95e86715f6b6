import type { WorkFailed } from '../api/worker.ts';
import { isSvc3Error, messageOf, Svc3Error, type ErrorReason } from '../errors.ts';
import { failedRequestOf, RegistryUnreachable } from '../registry/transport.ts';

const failureOf: Partial<Record<ErrorReason, WorkFailed['reason']>> = {
  Invalid: 'DiskRefused',
  NotFound: 'SourceNotFound',
  Unauthorized: 'RegistryDenied',
  Forbidden: 'RegistryDenied',
  BadGateway: 'RegistryUnreachable',
  ServiceUnavailable: 'RegistryUnreachable',
  TooManyRequests: 'RegistryUnreachable',
  Timeout: 'RegistryUnreachable',
};

/** The store has an upload no more: nobody but its client can bring it back. */
export class UploadLost extends Error {
  override readonly name = 'UploadLost';

  constructor(cause: unknown) {
    super('the upload is not in the store any more; send it again', { cause });
  }
}

/** What went wrong with registry or disk, in the words of conditions, and which registry failed where one did. */
export function failureFrom(error: unknown): WorkFailed {
  const message = messageOf(error).slice(0, 1024);
  const failedRequest = failedRequestOf(error);
  return {
    result: 'Failed',
    reason: reasonFor(error),
    message,
    ...(failedRequest === undefined ? {} : { failedRequest }),
  };
}

function reasonFor(error: unknown): WorkFailed['reason'] {
  if (error instanceof RegistryUnreachable) return 'RegistryUnreachable';
  if (error instanceof UploadLost) return 'UploadLost';
  return (isSvc3Error(error) ? failureOf[error.reason] : undefined) ?? 'WorkerFailed';
}

/** The worker's volume is full: nothing is wrong with the disk, and there may be room next time. */
export function noRoom(cause?: unknown): Svc3Error {
  return new Svc3Error(
    'RequestEntityTooLarge',
    "the worker's volume has no room for the disk (chart value store.maxFileSize, or the node's own storage)",
    cause === undefined ? {} : { cause },
  );
}

/** The node did not let a tool come to its end: nothing is wrong with the disk, and the next try may succeed. */
export function cutShort(why: string): Svc3Error {
  return new Svc3Error('InternalError', `qemu-img did not come to an end on this node (${why})`);
}
