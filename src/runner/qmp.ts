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
  /** Resolves with the first event that fits, from now on; undefined when the connection ends before. */
  nextEvent(isWanted: (event: QmpEvent) => boolean, signal?: AbortSignal): Promise<QmpEvent | undefined>;
  close(): void;
}

interface Pending {
  resolve(value: unknown): void;
  reject(error: Error): void;
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
  const qmp = openQmp(socket);
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

async function raceAbort<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason instanceof Error ? signal.reason : new Error('aborted'));
    signal.addEventListener('abort', abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}

/** Speaks QMP over a connected socket; `greeting` resolves when QEMU has said hello. */
export function openQmp(socket: Socket): Qmp & { greeting: Promise<void> } {
  const pending = new Map<number, Pending>();
  const handlers = new Set<(event: QmpEvent) => void>();
  const closeHandlers = new Set<() => void>();
  let nextId = 1;
  let closed = false;
  let greet: () => void;
  let refuse: (error: Error) => void;
  const greeting = new Promise<void>((resolve, reject) => {
    greet = resolve;
    refuse = reject;
  });
  greeting.catch(() => undefined);

  function receive(reply: Reply): void {
    if (reply.QMP !== undefined) greet();
    else if (reply.event !== undefined) {
      const event = { event: reply.event, data: reply.data ?? {} };
      for (const handler of handlers) handler(event);
    } else if (reply.id !== undefined) {
      const call = pending.get(reply.id);
      pending.delete(reply.id);
      if (reply.error === undefined) call?.resolve(reply.return);
      else call?.reject(new QmpError(reply.error.class, reply.error.desc));
    }
  }

  function end(): void {
    if (closed) return;
    closed = true;
    const error = new Error('QEMU closed its monitor');
    refuse(error);
    for (const call of pending.values()) call.reject(error);
    pending.clear();
    for (const handler of closeHandlers) handler();
  }

  readLines(socket, (line) => {
    const reply = parse(line);
    if (reply !== undefined) receive(reply);
  });
  socket.on('close', end);
  socket.on('error', () => socket.destroy());

  return {
    greeting,
    execute<T>(command: string, args?: object, options: { timeoutMs?: number } = {}): Promise<T> {
      const timeoutMs = options.timeoutMs ?? commandTimeoutMs;
      return new Promise<T>((resolve, reject) => {
        if (closed) {
          reject(new Error('QEMU closed its monitor'));
          return;
        }
        const id = nextId++;
        const giveUp = (): void => {
          pending.delete(id);
          reject(new Error(`QEMU did not answer ${command} within ${timeoutMs} ms`));
        };
        const timer = timeoutMs === Number.POSITIVE_INFINITY ? undefined : setTimeout(giveUp, timeoutMs);
        pending.set(id, {
          resolve: (value) => {
            clearTimeout(timer);
            resolve(value as T);
          },
          reject: (error) => {
            clearTimeout(timer);
            reject(error);
          },
        });
        socket.write(
          `${JSON.stringify({ execute: command, ...(args === undefined ? {} : { arguments: args }), id })}\n`,
        );
      });
    },
    onEvent(handler) {
      handlers.add(handler);
      return () => handlers.delete(handler);
    },
    nextEvent(isWanted, signal) {
      return new Promise((resolve) => {
        const done = (event?: QmpEvent) => {
          handlers.delete(look);
          closeHandlers.delete(done);
          signal?.removeEventListener('abort', onAbort);
          resolve(event);
        };
        const look = (event: QmpEvent) => {
          if (isWanted(event)) done(event);
        };
        const onAbort = () => done();
        if (closed || signal?.aborted === true) {
          resolve(undefined);
          return;
        }
        handlers.add(look);
        closeHandlers.add(done);
        signal?.addEventListener('abort', onAbort, { once: true });
      });
    },
    close() {
      socket.destroy();
      end();
    },
  };
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
