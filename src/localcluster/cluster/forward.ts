/**
 * Ways from the host into a sandbox. The listening sockets belong to the host and are handed to a process in the
 * sandbox's network, which accepts on them and dials inside: nothing is ever dialled on a sandbox address from the host.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { readFile, rm } from 'node:fs/promises';
import { type Server, type Socket, connect, createServer } from 'node:net';
import { Svc3Error } from '../../errors.ts';
import { type Command, boundToParent } from '../host/process.ts';

/** A target inside: an address, or a file that holds one and is read at each connection. */
export type Target = { readonly address: string } | { readonly file: string };

export interface Forward {
  /** A loopback port of the host, or the path of a Unix socket whose clients name their target by HTTP CONNECT. */
  readonly listen: number | string;
  readonly target?: Target;
}

export interface Forwarder {
  /** Resolves when it has ended, which it only does with `stop` or by a fault. */
  readonly exited: Promise<void>;
  stop(): void;
}

/** Opens all forwards; `command` runs `serveForwards` in the sandbox's network. Fails when a port is taken. */
export async function startForwarder(forwards: readonly Forward[], command: Command): Promise<Forwarder> {
  const [program, ...parameters] = boundToParent(command);
  const servers = await Promise.all(forwards.map(({ listen }) => open(listen)));
  const child = spawn(program, parameters, { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
  for (const [index, forward] of forwards.entries()) await handOver(child, forward, servers[index]);
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  return { exited, stop: () => void child.kill('SIGKILL') };
}

/** A Unix socket is opened by the child: whoever closes one removes its path. */
async function open(listen: Forward['listen']): Promise<Server | undefined> {
  if (typeof listen === 'string') return undefined;
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause: NodeJS.ErrnoException) => {
      const message = cause.code === 'EADDRINUSE' ? `port ${listen} of 127.0.0.1 is taken` : cause.message;
      reject(new Svc3Error('Conflict', message, { cause }));
    });
    server.listen(listen, '127.0.0.1', resolve);
  });
  return server;
}

async function handOver(child: ChildProcess, forward: Forward, server: Server | undefined): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    child.send(forward, server, (error) => (error === null ? resolve() : reject(error)));
  });
  // Only the child accepts from here on.
  server?.close();
}

/** The other half: takes what its parent sends and serves it until the parent is gone. */
export function serveForwards(parent: NodeJS.Process): void {
  parent.on('message', (forward: Forward, handle: unknown) => {
    const server = typeof forward.listen === 'string' ? createServer() : (handle as Server);
    const { target } = forward;
    server.on('connection', (socket) => {
      if (target === undefined) serveConnect(socket).catch(() => socket.destroy());
      else void forwardTo(socket, target);
    });
    if (typeof forward.listen === 'string') void listenOn(server, forward.listen);
  });
  parent.on('disconnect', () => parent.exit());
}

async function listenOn(server: Server, path: string): Promise<void> {
  await rm(path, { force: true });
  server.listen(path);
}

/** Joins two streams to an address in the sandbox: what ssh runs as ProxyCommand. Fails when nobody answers there. */
export async function dialThrough(
  socketPath: string,
  address: string,
  input: NodeJS.ReadableStream,
  output: NodeJS.WritableStream,
): Promise<void> {
  const socket = connect(socketPath);
  socket.write(`CONNECT ${address} HTTP/1.1\r\n\r\n`);
  const reply = await readHead(socket);
  if (!reply.startsWith('HTTP/1.1 200')) throw new Svc3Error('BadGateway', `${address} does not answer`);
  input.pipe(socket);
  socket.pipe(output);
  await new Promise<void>((resolve) => socket.once('close', () => resolve()));
}

/** Reads to the empty line and leaves what follows in the socket. */
async function readHead(socket: Socket): Promise<string> {
  return new Promise((resolve, reject) => {
    let head = '';
    const take = (chunk: Buffer): void => {
      head += chunk.toString('latin1');
      const end = head.indexOf('\r\n\r\n');
      if (end < 0 && head.length < longestRequest) return;
      socket.off('data', take);
      socket.pause();
      if (end >= 0 && head.length > end + 4) socket.unshift(Buffer.from(head.slice(end + 4), 'latin1'));
      resolve(head);
    };
    socket.on('data', take);
    socket.once('error', reject);
    socket.once('close', () => resolve(head));
  });
}

async function forwardTo(socket: Socket, target: Target): Promise<void> {
  socket.on('error', () => socket.destroy());
  try {
    join(socket, dial('address' in target ? target.address : await readFile(target.file, 'utf8')));
  } catch {
    socket.destroy();
  }
}

const longestRequest = 4096;

/** HTTP CONNECT, enough for `dialThrough`. */
async function serveConnect(socket: Socket): Promise<void> {
  socket.on('error', () => socket.destroy());
  const address = /^CONNECT ([\d.]+:\d+) HTTP\/1\.1\r\n/.exec(await readHead(socket))?.[1];
  if (address === undefined) {
    socket.end('HTTP/1.1 400 Bad Request\r\n\r\n');
    return;
  }
  const remote = dial(address);
  remote.once('connect', () => {
    socket.write('HTTP/1.1 200 OK\r\n\r\n');
    join(socket, remote);
  });
  remote.once('error', () => socket.end('HTTP/1.1 502 Bad Gateway\r\n\r\n'));
}

function dial(address: string): Socket {
  const [host, port] = address.trim().split(':');
  return connect({ host: host ?? '', port: Number(port) });
}

function join(one: Socket, other: Socket): void {
  one.on('error', () => other.destroy());
  other.on('error', () => one.destroy());
  one.on('close', () => other.destroy());
  other.on('close', () => one.destroy());
  one.setNoDelay(true);
  other.setNoDelay(true);
  one.pipe(other);
  other.pipe(one);
}
