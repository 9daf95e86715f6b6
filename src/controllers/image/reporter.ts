import type { ImageStatus } from '../../api/image.ts';
import { typeMeta } from '../../api/resources.ts';
import { findCondition } from '../../controller/conditions.ts';
import { keyOf } from '../../controller/controller.ts';
import { applyStatus, isSameStatus } from '../../controller/status.ts';
import type { Expectations } from '../../controller/expectations.ts';
import type { EventRecorder, KubeClient, Log } from '../../kube/types.ts';
import { resourceOf, type Disk } from './caches.ts';
import { watchMs } from './decide.ts';
import type { DiskKind } from './repositorypath.ts';

export interface ReporterParts {
  readonly client: KubeClient;
  readonly recorder: EventRecorder;
  readonly log: Log;
  readonly kind: DiskKind;
  readonly expected: Expectations<Disk>;
  /** Milliseconds of a clock that never jumps. */
  readonly monotonic: () => number;
}

/** Writes status and events: one apply a pass, none when nothing changed, progress at most every five seconds. */
export class Reporter {
  readonly #parts: ReporterParts;
  readonly #writtenAt = new Map<string, number>();

  constructor(parts: ReporterParts) {
    this.#parts = parts;
  }

  async report(disk: Disk, status: ImageStatus): Promise<void> {
    const { client, kind, expected, monotonic } = this.#parts;
    const { uid } = disk.metadata;
    if (isSameStatus(disk.status, status) || this.#isTooSoon(disk, status)) return;
    const written = await applyStatus(client, resourceOf(kind), disk, status);
    if (written === undefined) return;
    expected.wrote(keyOf(disk), written);
    this.#writtenAt.set(uid, monotonic());
    this.#tell(disk, status);
  }

  forget(uid: string): void {
    this.#writtenAt.delete(uid);
  }

  /** In the log as well: kube-apiserver takes no event of a namespace that is being deleted, and those that are there go with it. */
  warn(disk: Disk, reason: string, message: string): void {
    const { recorder, log, kind } = this.#parts;
    const { namespace, name } = disk.metadata;
    log.warn({ controller: kind.toLowerCase(), namespace, name, reason }, message);
    recorder.event(
      { ...typeMeta(resourceOf(kind)), metadata: disk.metadata },
      { type: 'Warning', reason, message },
    );
  }

  #isTooSoon(disk: Disk, status: ImageStatus): boolean {
    const writtenAt = this.#writtenAt.get(disk.metadata.uid);
    if (writtenAt === undefined || this.#parts.monotonic() - writtenAt >= watchMs) return false;
    const { progress: _before, ...before } = disk.status ?? {};
    const { progress: _after, ...after } = status;
    return isSameStatus(before, after);
  }

  /** Events tell of transitions: what is ready, and what went wrong. */
  #tell(disk: Disk, status: ImageStatus): void {
    const said = eventOf(disk.status);
    const event = eventOf(status);
    if (event === undefined || (said?.reason === event.reason && said.message === event.message)) return;
    const isQuiet = ['Working', 'Pending', 'AwaitingUpload', 'SourceNotReady'].includes(event.reason);
    if (isQuiet) return;
    const { recorder, kind } = this.#parts;
    recorder.event({ ...typeMeta(resourceOf(kind)), metadata: disk.metadata }, event);
  }
}

function eventOf(
  status: ImageStatus | undefined,
): { type: 'Normal' | 'Warning'; reason: string; message: string } | undefined {
  const stalled = findCondition(status?.conditions, 'Stalled');
  if (stalled?.status === 'True')
    return { type: 'Warning', reason: stalled.reason, message: stalled.message };
  const committed = findCondition(status?.conditions, 'Committed');
  // The version before is ready all the while.
  if (committed?.status === 'Unknown') return undefined;
  if (committed?.status === 'False')
    return { type: 'Warning', reason: committed.reason, message: committed.message };
  const ready = findCondition(status?.conditions, 'Ready');
  if (ready === undefined) return undefined;
  return {
    type: ready.status === 'True' ? 'Normal' : 'Warning',
    reason: ready.reason,
    message: ready.message,
  };
}
