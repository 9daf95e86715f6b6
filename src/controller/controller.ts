import { randomUUID } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { isSvc3Error } from '../errors.ts';
import type { Log, ReconcileResult } from '../kube/types.ts';
import { WaitingError } from './outcome.ts';
import { createWorkqueue } from './workqueue.ts';
import type { BackoffOptions } from './backoff.ts';
import type { Priority, Workqueue, WorkqueueState } from './workqueue.ts';

/** Says whether this process may write now. */
export interface Gate {
  isHeld(): boolean;
  /** Throws ServiceUnavailable where it may not. */
  assertHeld(): void;
}

export type ReconcileOutcome = 'done' | 'requeued' | 'conflict' | 'waiting' | 'error';

export interface ControllerMetrics {
  /** Once for each queue; it is read when somebody asks. */
  workqueue(name: string, state: WorkqueueState): void;
  /** A key was handed to a worker after so many seconds in the queue. */
  queued(name: string, seconds: number): void;
  /** A key was worked on for so many seconds. */
  worked(name: string, seconds: number): void;
  reconciled(controller: string, outcome: ReconcileOutcome): void;
}

export interface ReconcileContext {
  /** Aborted when the process is to end; the pass may finish what it has begun. */
  readonly signal: AbortSignal;
  readonly reconcileId: string;
}

export interface ControllerOptions {
  name: string;
  /** Keys worked on at the same time; never the same key twice, and of one namespace not all of them. Default 1. */
  workers?: number;
  /**
   * Whether there is an object of this key, where keys are those of objects and one that is gone needs no pass of a process that had not
   * begun to work by then: a replica that waits to lead keeps no key of it.
   */
  isThere?: (key: string) => boolean;
  /** Of a key that is to be looked at. Default `normal`. */
  priorityOf?: (key: string) => Priority;
  log: Log;
  /**
   * One pass over one key, `namespace/name` or `name`. Level-triggered and idempotent. What it throws is retried with
   * exponential backoff; Conflict and AlreadyExists quietly.
   */
  reconcile(key: string, context: ReconcileContext): Promise<ReconcileResult | void>;
  /** Passes only run while it is held. */
  gate?: Gate;
  metrics?: ControllerMetrics;
  backoff?: BackoffOptions;
}

export interface Controller {
  readonly name: string;
  /** Before `run` it is remembered, and waits for nobody. */
  enqueue(key: string): void;
  /** Works until the signal; resolves when the passes under way have ended. */
  run(signal: AbortSignal): Promise<void>;
  /** Keys waiting for a worker or being worked on. */
  pending(): number;
}

/** How long passes may follow each other before timers, probes and watches have their turn, in milliseconds. */
const turnMs = 10;

/** How soon a key is looked at again while the gate is closed. */
const closedGateMs = 1_000;

/** `namespace/name` or `name` in its parts. */
export function splitKey(key: string): { namespace: string | undefined; name: string } {
  const slash = key.indexOf('/');
  return slash === -1
    ? { namespace: undefined, name: key }
    : { namespace: key.slice(0, slash), name: key.slice(slash + 1) };
}

/** The key of an object. */
export function keyOf(object: { metadata?: { namespace?: string; name?: string } }): string {
  const { namespace, name = '' } = object.metadata ?? {};
  return namespace === undefined || namespace === '' ? name : `${namespace}/${name}`;
}

/** For `isThere`. */
export function isCached(informer: { get(name: string, namespace?: string): unknown }, key: string): boolean {
  const { name, namespace } = splitKey(key);
  return informer.get(name, namespace) !== undefined;
}

/** A workqueue and the workers that call `reconcile` for its keys. Knows no kind. */
export function createController(options: ControllerOptions): Controller {
  return new QueueController(options);
}

class QueueController implements Controller {
  readonly name: string;
  readonly #options: ControllerOptions;
  readonly #queue: Workqueue;
  /** Keys of before `run`: they are no work that is late. */
  #early: Set<string> | undefined = new Set();
  /** When timers, probes and watches have to have their turn. */
  #turnEnds = 0;

  constructor(options: ControllerOptions) {
    const { name, metrics, workers = 1, priorityOf } = options;
    this.name = name;
    this.#options = options;
    this.#queue = createWorkqueue({
      ...options.backoff,
      workers,
      ...(priorityOf === undefined ? {} : { priorityOf }),
      onTaken: (seconds) => metrics?.queued(name, seconds),
      onDone: (seconds) => metrics?.worked(name, seconds),
    });
    metrics?.workqueue(name, this.#queue);
  }

  enqueue(key: string): void {
    if (this.#early === undefined) this.#queue.add(key);
    else if (this.#options.isThere?.(key) === false) this.#early.delete(key);
    else this.#early.add(key);
  }

  async run(signal: AbortSignal): Promise<void> {
    const stop = (): void => this.#queue.shutDown();
    signal.addEventListener('abort', stop, { once: true });
    if (signal.aborted) stop();
    for (const key of this.#early ?? []) this.#queue.add(key);
    this.#early = undefined;
    await Promise.all(Array.from({ length: this.#options.workers ?? 1 }, () => this.#work(signal)));
  }

  pending(): number {
    return this.#queue.depth() + this.#queue.active();
  }

  async #work(signal: AbortSignal): Promise<void> {
    const queue = this.#queue;
    for (let key = await queue.take(); key !== undefined; key = await queue.take())
      try {
        await this.#breathe();
        await this.#pass(key, signal);
      } finally {
        queue.done(key);
      }
  }

  /** Passes that wait for nothing would otherwise keep the process to themselves for as long as there are keys. */
  async #breathe(): Promise<void> {
    if (performance.now() < this.#turnEnds) return;
    await nextTurn();
    this.#turnEnds = performance.now() + turnMs;
  }

  async #pass(key: string, signal: AbortSignal): Promise<void> {
    const { name, gate, metrics, reconcile } = this.#options;
    if (gate?.isHeld() === false) {
      this.#queue.addAfter(key, closedGateMs);
      return;
    }
    const reconcileId = randomUUID();
    let outcome: ReconcileOutcome;
    try {
      outcome = this.#succeed(key, await reconcile(key, { signal, reconcileId }));
    } catch (error) {
      if (signal.aborted) return;
      outcome = this.#fail(key, error, { controller: name, ...splitKey(key), reconcileId });
    }
    metrics?.reconciled(name, outcome);
  }

  #succeed(key: string, result: ReconcileResult | void): ReconcileOutcome {
    this.#queue.forget(key);
    if (result?.requeueAfterMs === undefined) return 'done';
    this.#queue.addAfter(key, result.requeueAfterMs);
    return 'requeued';
  }

  #fail(key: string, error: unknown, fields: object): ReconcileOutcome {
    const { log } = this.#options;
    if (error instanceof WaitingError) {
      this.#queue.forget(key);
      this.#queue.addAfter(key, error.afterMs);
      log.debug({ ...fields, err: error }, 'reconcile waits');
      return 'waiting';
    }
    const retryAfterMs = isSvc3Error(error) ? (error.details.retryAfterSeconds ?? 0) * 1000 : 0;
    this.#queue.addBackoff(key, retryAfterMs);
    if (isSvc3Error(error, 'Conflict', 'AlreadyExists')) {
      log.debug({ ...fields, err: error }, 'reconcile met a newer object');
      return 'conflict';
    }
    log.warn({ ...fields, err: error, failures: this.#queue.failures(key) }, 'reconcile failed');
    return 'error';
  }
}
