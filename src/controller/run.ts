import type { Log } from '../kube/types.ts';
import { messageOf } from '../errors.ts';

export interface ProcessOptions {
  name: string;
  log: Log;
  /** Runs until the signal, then ends by itself within the grace period. */
  start(signal: AbortSignal): Promise<void>;
  /** Milliseconds from SIGTERM to the end, whatever is still going on. Default 20,000. */
  graceMs?: number;
  /** The process; only tests hand in another. */
  host?: ProcessHost;
}

/** The parts of `process` that are used. */
export interface ProcessHost {
  on(event: 'SIGTERM' | 'SIGINT', listener: () => void): unknown;
  on(event: 'uncaughtException' | 'unhandledRejection', listener: (error: unknown) => void): unknown;
  exit(code: number): void;
}

/**
 * Runs a process: SIGTERM or SIGINT aborts the signal, then `start` has its grace period to end. Exit code 0 after a
 * signal, 1 after a failure or when the grace period was not enough; a second signal ends at once.
 */
export async function runProcess(options: ProcessOptions): Promise<void> {
  const { name, log, graceMs = 20_000, host = process } = options;
  const stopping = new AbortController();
  const fields = { component: name };

  const stop = (signal: string): void => {
    if (stopping.signal.aborted) {
      host.exit(1);
      return;
    }
    log.info({ ...fields, signal }, 'stopping');
    stopping.abort(new Error(signal));
    setTimeout(() => {
      log.error(fields, 'did not stop in time');
      host.exit(1);
    }, graceMs).unref();
  };
  const crash = (error: unknown): void => {
    log.error({ ...fields, err: error }, 'crashed');
    host.exit(1);
  };
  host.on('SIGTERM', () => stop('SIGTERM'));
  host.on('SIGINT', () => stop('SIGINT'));
  host.on('uncaughtException', crash);
  host.on('unhandledRejection', crash);

  try {
    await options.start(stopping.signal);
    log.info(fields, 'stopped');
    host.exit(stopping.signal.aborted ? 0 : 1);
  } catch (error) {
    if (stopping.signal.aborted && error === stopping.signal.reason) {
      host.exit(0);
      return;
    }
    log.error({ ...fields, err: error }, `ended: ${messageOf(error)}`);
    host.exit(1);
  }
}
