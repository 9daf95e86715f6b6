import { createServer } from 'node:net';
import type { Duplex } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { messageOf, Svc3Error } from '../errors.ts';
import type { Context } from './context.ts';
import { usageError } from './parse.ts';

/** Joins a stream to standard input and output until either side ends. */
export async function pipeTerminal({ environment, signal }: Context, stream: Duplex): Promise<void> {
  const { stdin, stdout } = environment;
  const failure = new Promise<never>((_resolve, reject) => {
    stream.once('error', (cause) => {
      reject(new Svc3Error('BadGateway', `the tunnel broke: ${messageOf(cause)}`, { cause }));
    });
  });
  const ended = new Promise<void>((resolve) => {
    stream.once('close', resolve);
    stream.once('end', resolve);
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
  stream.on('data', (chunk: Uint8Array) => {
    // A reader that is slower than the guest must not fill the memory.
    if (!stdout.write(chunk)) {
      stream.pause();
      stdout.once?.('drain', () => stream.resume());
    }
  });
  void (async () => {
    for await (const chunk of stdin)
      if (!stream.write(chunk)) await new Promise((resolve) => stream.once('drain', resolve));
    stream.end();
  })().catch((error: unknown) =>
    stream.destroy(error instanceof Error ? error : new Error(messageOf(error))),
  );
  try {
    await Promise.race([ended, failure]);
  } finally {
    stream.destroy();
    stdin.destroy?.();
  }
}

/** Accepts connections until Ctrl-C; each gets a stream of its own. */
export async function listen(context: Context, where: string, open: () => Promise<Duplex>): Promise<void> {
  const { host, port } = endpointOf(where);
  const { out, signal } = context;
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    open().then(
      (stream) => pipeline(socket, stream, socket).catch(() => socket.destroy()),
      (error: unknown) => {
        out.warning(messageOf(error));
        socket.destroy();
      },
    );
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause) => {
      reject(new Svc3Error('BadRequest', `cannot listen on ${where}: ${messageOf(cause)}`, { cause }));
    });
    server.listen(port, host, () => {
      const address = server.address();
      const bound = typeof address === 'object' && address !== null ? address.port : port;
      out.line(`Listening on ${host.includes(':') ? `[${host}]` : host}:${bound}; Ctrl-C ends it`);
    });
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
  server.close();
}

function endpointOf(text: string): { host: string; port: number } {
  const match = /^(?:(\[[0-9a-fA-F:]+\]|[^:[\]]+):)?(\d{1,5})$/.exec(text);
  const port = Number(match?.[2]);
  if (match === null || port > 65_535) throw usageError(`--listen: "${text}" is not [ADDRESS:]PORT`);
  return { host: (match[1] ?? '127.0.0.1').replaceAll(/[[\]]/g, ''), port };
}
