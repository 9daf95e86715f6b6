import { randomInt } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { parseForeignJson } from '../net/foreign.ts';
import { createQueue } from './powerstate.ts';

export interface GuestAgent {
  /** The value of `return`. Throws when the guest has no agent, it does not answer in time, or it refuses. */
  execute<T = unknown>(command: string, args?: object, options?: { timeoutMs?: number }): Promise<T>;
  /** Sends without waiting for an answer: a guest that shuts down gives none. */
  send(command: string, args?: object): Promise<void>;
  /** False without asking where the signal is aborted before its turn. */
  isAnswering(timeoutMs?: number, signal?: AbortSignal): Promise<boolean>;
  /** Commands that belong together: `work` begins when that of whoever asked so before has ended. Single commands are not held back. */
  alone<T>(work: () => Promise<T>): Promise<T>;
}

interface AgentReply {
  return?: unknown;
  error?: { desc?: unknown };
}

const defaultTimeoutMs = 5000;
/** All that a guest may send to one command, what is left of earlier ones included. Honest replies have a hundred bytes. */
const longestSession = 256 * 1024;
/** Of what a guest says of an error. */
const longestMessage = 300;
/** In front of a reply to guest-sync-delimited: what came before it belongs to nobody. */
const delimiter = 0xff;

/**
 * The guest agent behind a virtio serial port. One connection and one synchronisation per call: the pipe may hold
 * replies to earlier clients, and an agent restarted with its guest knows nothing of us.
 */
export function createGuestAgent(path: string): GuestAgent {
  const inTurn = createQueue();

  function ask<T>(command: string, args: object | undefined, timeoutMs: number): Promise<T> {
    return withSession(path, timeoutMs, async (session) => {
      session.send(command, args);
      const reply = await session.receive();
      if (reply.error !== undefined)
        throw new Error(`guest agent: ${String(reply.error?.desc).slice(0, longestMessage)}`);
      return reply.return as T;
    });
  }

  return {
    execute: (command, args, { timeoutMs = defaultTimeoutMs } = {}) =>
      inTurn(() => ask(command, args, timeoutMs)),
    alone: createQueue(),
    send: (command, args) =>
      inTurn(() =>
        withSession(path, defaultTimeoutMs, async (session) => {
          session.send(command, args);
          await session.flush();
        }),
      ),
    isAnswering: (timeoutMs = 1000, signal) =>
      inTurn(async () => {
        // A guest that resets all the time is looked for each time: what nobody waits for any more keeps no other command waiting.
        signal?.throwIfAborted();
        await ask('guest-ping', undefined, timeoutMs);
      }).then(
        () => true,
        () => false,
      ),
  };
}

interface Session {
  send(command: string, args?: object): void;
  receive(): Promise<AgentReply>;
  flush(): Promise<void>;
}

async function withSession<T>(
  path: string,
  timeoutMs: number,
  work: (session: Session) => Promise<T>,
): Promise<T> {
  const socket = connect(path);
  let timer: NodeJS.Timeout | undefined;
  const failed = new Promise<never>((_resolve, reject) => {
    const fail = (cause?: unknown) => reject(new Error('the guest agent does not answer', { cause }));
    timer = setTimeout(fail, timeoutMs);
    socket.once('error', fail);
    socket.once('close', () => fail());
  });
  failed.catch(() => undefined);
  try {
    return await Promise.race([failed, converse(socket, work)]);
  } finally {
    clearTimeout(timer);
    socket.destroy();
  }
}

async function converse<T>(socket: Socket, work: (session: Session) => Promise<T>): Promise<T> {
  const lines = readReplies(socket);
  const session: Session = {
    send: (command, args) => {
      socket.write(
        `${JSON.stringify({ execute: command, ...(args === undefined ? {} : { arguments: args }) })}\n`,
      );
    },
    receive: () => lines.next(),
    flush: () => new Promise((resolve) => socket.write('\n', () => resolve())),
  };
  const id = randomInt(1, 2 ** 31);
  socket.write(Buffer.from([delimiter]));
  session.send('guest-sync-delimited', { id });
  while ((await lines.next()).return !== id);
  return work(session);
}

/** Replies as they come; the agent's bytes are not always UTF-8, and a delimiter drops what stood before it. */
function readReplies(socket: Socket): { next(): Promise<AgentReply> } {
  let text = '';
  let received = 0;
  const ready: AgentReply[] = [];
  const waiting: ((reply: AgentReply) => void)[] = [];
  socket.on('data', (chunk: Buffer) => {
    received += chunk.length;
    if (received > longestSession) {
      socket.destroy(new Error(`the guest sent more than ${longestSession} bytes`));
      return;
    }
    text += chunk.toString('latin1');
    const cut = text.lastIndexOf('\u00ff');
    if (cut >= 0) text = text.slice(cut + 1);
    const lines = text.split('\n');
    text = lines.pop() ?? '';
    for (const line of lines) {
      const reply = parse(line);
      if (reply === undefined) continue;
      const taker = waiting.shift();
      if (taker === undefined) ready.push(reply);
      else taker(reply);
    }
  });
  return {
    next: () => {
      const reply = ready.shift();
      return reply === undefined ? new Promise((resolve) => waiting.push(resolve)) : Promise.resolve(reply);
    },
  };
}

/** Undefined for what is no reply. */
function parse(line: string): AgentReply | undefined {
  try {
    const value = parseForeignJson(Buffer.from(line, 'latin1'));
    return typeof value === 'object' && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}
