import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

/** An error that QEMU answered with. */
export class QmpError extends Error {
  override readonly name = 'QmpError';
  readonly kind: string;

  constructor(kind: string, description: string) {
    super(description);
    this.kind = kind;
  }
}

export interface QmpEvent {
  readonly event: string;
  readonly data: Readonly<Record<string, unknown>>;
}

export interface Qmp {
  /** The value of `return`. Throws QmpError for QEMU's refusal, Error when the connection ends or time is over. */
  execute<T = unknown>(command: string, args?: object, options?: { timeoutMs?: number }): Promise<T>;
  /** Returns the function that ends the subscription. */
  onEvent(handler: (event: QmpEvent) => void): () => void;
  close(): void;
}

interface Pending {
  resolve(value: unknown): void;
  reject(error: Error): void;
  /** Gives the call up; undefined for one that may take for ever. */
  readonly timer: NodeJS.Timeout | undefined;
}

interface Reply {
  QMP?: unknown;
  event?: string;
  data?: Record<string, unknown>;
  id?: number;
  return?: unknown;
  error?: { class: string; desc: string };
}

const commandTimeoutMs = 10_000;
/** Of a reply or event; the longest that QEMU sends to our commands is a few kilobytes. */
const longestLine = 4 * 1024 * 1024;
const retryEveryMs = 25;

/**
 * Connects to a monitor that may not be there yet, until the signal. One client per monitor: a second one on the same
 * socket would wait for its greeting for ever.
 */
export async function connectQmp(path: string, signal: AbortSignal): Promise<Qmp> {
  const socket = await dial(path, signal);
  const qmp = new Monitor(socket);
  try {
    await raceAbort(qmp.greeting, signal);
    // Until the signal too: a QEMU that is still starting answers when it gets to it.
    await raceAbort(
      qmp.execute('qmp_capabilities', undefined, { timeoutMs: Number.POSITIVE_INFINITY }),
      signal,
    );
    return qmp;
  } catch (error) {
    qmp.close();
    throw error;
  }
}

async function dial(path: string, signal: AbortSignal): Promise<Socket> {
  for (;;) {
    signal.throwIfAborted();
    const socket = await tryConnect(path);
    if (socket !== undefined) return socket;
    // With the reason of whoever gave up, which the error of an aborted delay does not tell.
    await delay(retryEveryMs, undefined, { signal }).catch(() => signal.throwIfAborted());
  }
}

function tryConnect(path: string): Promise<Socket | undefined> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once('connect', () => {
      socket.removeAllListeners('error');
      resolve(socket);
    });
    socket.once('error', () => resolve(undefined));
  });
}

/** What comes of the promise, or the signal's reason where that is first; nobody hears of the promise then. */
export async function raceAbort<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  // Also where it fails after a signal that was there before.
  promise.catch(() => undefined);
  signal.throwIfAborted();
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason instanceof Error ? signal.reason : new Error('aborted'));
    signal.addEventListener('abort', abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}

/** QMP over a connected socket. */
class Monitor implements Qmp {
  /** Resolves when QEMU has said hello. */
  readonly greeting: Promise<void>;
  readonly #socket: Socket;
  readonly #pending = new Map<number, Pending>();
  readonly #handlers = new Set<(event: QmpEvent) => void>();
  readonly #greeted = Promise.withResolvers<void>();
  #nextId = 1;
  #closed = false;

  constructor(socket: Socket) {
    this.#socket = socket;
    this.greeting = this.#greeted.promise;
    // Whoever does not wait for it learns of the end from what it executes.
    this.greeting.catch(() => undefined);
    readLines(socket, (line) => {
      const reply = parse(line);
      if (reply !== undefined) this.#receive(reply);
    });
    socket.on('close', () => this.#end());
    socket.on('error', () => socket.destroy());
  }

  execute<T>(command: string, args?: object, options: { timeoutMs?: number } = {}): Promise<T> {
    const { timeoutMs = commandTimeoutMs } = options;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    if (this.#closed) {
      reject(closedError());
      return promise as Promise<T>;
    }
    const id = this.#nextId++;
    const giveUp = (): void => {
      this.#pending.delete(id);
      reject(new Error(`QEMU did not answer ${command} within ${timeoutMs} ms`));
    };
    const timer = timeoutMs === Number.POSITIVE_INFINITY ? undefined : setTimeout(giveUp, timeoutMs);
    this.#pending.set(id, { resolve, reject, timer });
    const message = { execute: command, ...(args === undefined ? {} : { arguments: args }), id };
    this.#socket.write(`${JSON.stringify(message)}\n`);
    return promise as Promise<T>;
  }

  onEvent(handler: (event: QmpEvent) => void): () => void {
    this.#handlers.add(handler);
    return () => this.#handlers.delete(handler);
  }

  close(): void {
    this.#socket.destroy();
    this.#end();
  }

  #receive(reply: Reply): void {
    if (reply.QMP !== undefined) this.#greeted.resolve();
    else if (reply.event !== undefined) {
      const event = { event: reply.event, data: reply.data ?? {} };
      for (const handler of this.#handlers) handler(event);
    } else if (reply.id !== undefined) this.#answer(reply.id, reply);
  }

  /** Nothing where the call has been given up: its reply comes late. */
  #answer(id: number, { error, return: value }: Reply): void {
    const call = this.#pending.get(id);
    if (call === undefined) return;
    this.#pending.delete(id);
    clearTimeout(call.timer);
    if (error === undefined) call.resolve(value);
    else call.reject(new QmpError(error.class, error.desc));
  }

  #end(): void {
    if (this.#closed) return;
    this.#closed = true;
    const error = closedError();
    this.#greeted.reject(error);
    for (const call of this.#pending.values()) {
      clearTimeout(call.timer);
      call.reject(error);
    }
    this.#pending.clear();
  }
}

function closedError(): Error {
  return new Error('QEMU closed its monitor');
}

function parse(line: string): Reply | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

function readLines(socket: Socket, onLine: (line: string) => void): void {
  let rest = '';
  socket.setEncoding('utf8');
  socket.on('data', (chunk: string) => {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) if (line.trim() !== '') onLine(line);
    if (rest.length > longestLine) socket.destroy();
  });
}
