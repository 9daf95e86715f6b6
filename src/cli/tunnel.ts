import { createServer, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { endpoint } from '../net/endpoint.ts';
import { isSvc3Error, messageOf, Svc3Error } from '../errors.ts';
import type { Context } from './context.ts';
import { usageError } from './usage.ts';

/** A WebSocket has no half-close: after the end of the input the answer is waited for as long as something comes. */
const answerIdleMs = 5000;

/**
 * Ends a stream behind all that was sent, once nothing has come for that long; `refresh` is for each chunk.
 *
 * @param isTold - whether what has come is with its reader: one that is slow gets the rest, too
 */
function endWhenIdle(stream: Duplex, isTold: () => boolean): NodeJS.Timeout {
  const timer = setTimeout(() => {
    if (stream.destroyed || isTold()) stream.end();
    else timer.refresh();
  }, answerIdleMs);
  return timer;
}

/**
 * Joins a stream to standard input and output until the other side ends, or has nothing more to say after our end.
 *
 * @throws BadGateway, or why the api ended it, where it was cut
 */
export async function pipeTerminal({ environment, signal }: Context, stream: Duplex): Promise<void> {
  const { stdin, stdout } = environment;
  let idle: NodeJS.Timeout | undefined;
  const stop = () => void stream.destroy();
  signal.addEventListener('abort', stop, { once: true });
  const ended = new Promise<void>((resolve, reject) => {
    stream.on('error', (cause) => {
      const broken = `the tunnel broke: ${messageOf(cause)}`;
      reject(isSvc3Error(cause) ? cause : new Svc3Error('BadGateway', broken, { cause }));
    });
    stream.once('end', resolve);
    stream.once('close', resolve);
  });
  // Somebody may have had enough while it was being opened.
  if (signal.aborted) stop();
  stream.on('data', (chunk: Uint8Array) => {
    idle?.refresh();
    // A reader that is slower than the guest must not fill the memory.
    if (stdout.write(chunk)) return;
    stream.pause();
    stdout.once?.('drain', () => stream.resume());
  });
  const sending = (async () => {
    for await (const chunk of stdin)
      if (!stream.write(chunk)) await new Promise((resolve) => stream.once('drain', resolve));
    idle = endWhenIdle(stream, () => !stream.isPaused());
  })();
  // The end of the stream destroys the input under its reader, which is no failure.
  sending.catch(stop);
  try {
    await ended;
  } finally {
    clearTimeout(idle);
    signal.removeEventListener('abort', stop);
    stop();
    stdin.destroy?.();
  }
}

/** Accepts connections until Ctrl-C; each gets a stream of its own. */
export async function listen(context: Context, where: string, open: () => Promise<Duplex>): Promise<void> {
  const { host, port } = endpointOf(where);
  const { out, signal } = context;
  const sockets = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    socket.on('error', () => socket.destroy());
    connect(socket, open).catch((error: unknown) => {
      socket.destroy();
      if (!signal.aborted) out.warning(messageOf(error));
    });
  });
  await new Promise<void>((resolve, reject) => {
    signal.addEventListener('abort', () => resolve(), { once: true });
    server.once('error', (cause) => {
      reject(new Svc3Error('BadRequest', `cannot listen on ${where}: ${messageOf(cause)}`, { cause }));
    });
    server.listen(port, host, () => {
      const address = server.address();
      const bound = typeof address === 'object' && address !== null ? address.port : port;
      out.line(`Listening on ${endpoint(host, bound)}; Ctrl-C ends it`);
    });
  });
  server.close();
  for (const socket of sockets) socket.destroy();
}

/** Joins a connection to a stream of its own until either is gone, or the other side has nothing more to say after the end of ours. */
async function connect(socket: Socket, open: () => Promise<Duplex>): Promise<void> {
  const stream = await open();
  if (socket.destroyed) {
    stream.destroy();
    return;
  }
  let idle: NodeJS.Timeout | undefined;
  const sending = async () => {
    await pipeline(socket, stream, { end: false });
    idle = endWhenIdle(stream, () => socket.writableLength === 0);
  };
  try {
    const answering = pipeline(stream, socket);
    stream.on('data', () => idle?.refresh());
    await Promise.all([sending(), answering]);
  } catch (error) {
    // Either side hung up: so does the other. Why the api did is told.
    if (isSvc3Error(error)) throw error;
  } finally {
    clearTimeout(idle);
    stream.destroy();
    socket.destroy();
  }
}

function endpointOf(text: string): { host: string; port: number } {
  const match = /^(?:(\[[0-9a-fA-F:]+\]|[^:[\]]+):)?(\d{1,5})$/.exec(text);
  const port = Number(match?.[2]);
  if (match === null || port > 65_535) throw usageError(`--listen: "${text}" is not [ADDRESS:]PORT`);
  return { host: (match[1] ?? '127.0.0.1').replaceAll(/[[\]]/g, ''), port };
}
