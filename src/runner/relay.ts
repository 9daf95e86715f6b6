import { createSocket, type RemoteInfo, type Socket as Datagrams } from 'node:dgram';
import { once } from 'node:events';
import { connect, createServer, isIPv6, type Socket } from 'node:net';
import type { Logger } from 'pino';
import type { RunnerPort } from '../api/runner.ts';
import { messageOf } from '../errors.ts';

/** Connections to one port at a time, and senders of datagrams that are remembered. */
const mostPeers = 512;
/** So long a sender of datagrams is remembered without an answer, in milliseconds; conntrack takes 30 to 120 s. */
const silenceMs = 60_000;

/** Where QEMU's own forwards listen: they know IPv4 only. */
export function forwardAddress(bind: string): string {
  if (!isIPv6(bind)) return bind;
  return bind === '::' ? '0.0.0.0' : '127.0.0.1';
}

/** Stops listening; connections that are open go on. */
type Close = () => void;

/**
 * Leads mapped ports of an IPv6 address to QEMU's forwards of the same ports, which know IPv4 only; they may come and go
 * with QEMU. A port that cannot be had is told in the log: the guest runs all the same.
 */
export class PortRelay {
  readonly #bind: string;
  readonly #log: Logger;
  readonly #open = new Map<string, Close>();

  constructor(bind: string, log: Logger) {
    this.#bind = bind;
    this.#log = log;
  }

  /** These ports and no others; calls must not overlap. */
  async lead(ports: readonly RunnerPort[]): Promise<void> {
    if (!isIPv6(this.#bind)) return;
    const wanted = new Map(ports.map((port) => [`${port.podPort}/${port.protocol}`, port]));
    for (const [key, close] of this.#open) {
      if (wanted.has(key)) continue;
      close();
      this.#open.delete(key);
    }
    await Promise.all([...wanted].map(([key, port]) => this.#relay(key, port)));
  }

  async #relay(key: string, { podPort, protocol }: RunnerPort): Promise<void> {
    if (this.#open.has(key)) return;
    try {
      const relay = protocol === 'TCP' ? relayConnections : relayDatagrams;
      this.#open.set(key, await relay(podPort, this.#bind));
    } catch (error) {
      this.#log.warn({ port: podPort }, `a mapped port is not reached by IPv6: ${messageOf(error)}`);
    }
  }
}

/** One end may go on when the other has said all; who is gone without a word is noticed. */
const socketOptions = { allowHalfOpen: true, noDelay: true, keepAlive: true, keepAliveInitialDelay: 60_000 };

async function relayConnections(port: number, host: string): Promise<Close> {
  const server = createServer(socketOptions, join(port));
  server.maxConnections = mostPeers;
  server.listen({ port, host, ipv6Only: true });
  await once(server, 'listening');
  // One connection less, for want of a file: no fault of the runner.
  server.on('error', () => undefined);
  return () => void server.close();
}

/** Each end is told when the other has no more to say, and goes when the other fails. */
const join = (port: number) => (outside: Socket) => {
  const inside = connect({ host: '127.0.0.1', port, ...socketOptions });
  for (const [from, to] of [
    [outside, inside],
    [inside, outside],
  ] as const) {
    from.pipe(to);
    from.on('error', () => to.destroy());
  }
};

async function relayDatagrams(port: number, host: string): Promise<Close> {
  const outside = createSocket({ type: 'udp6', ipv6Only: true });
  const peers = new Map<string, Datagrams>();
  outside.on('message', (data, from) => {
    const key = `${from.address} ${from.port}`;
    const known = peers.get(key);
    if (known === undefined && peers.size >= mostPeers) return;
    const inside = known ?? peerOf(outside, from, () => peers.delete(key));
    peers.set(key, inside);
    inside.send(data, port, '127.0.0.1', () => undefined);
  });
  outside.bind(port, host);
  await once(outside, 'listening');
  outside.on('error', () => undefined);
  return () => {
    outside.close();
    for (const inside of peers.values()) inside.close();
  };
}

/** A socket of its own for each sender: what comes back on it is for that one. */
function peerOf(outside: Datagrams, { address, port }: RemoteInfo, gone: () => void): Datagrams {
  const inside = createSocket('udp4');
  const timer = setTimeout(() => inside.close(), silenceMs).unref();
  inside.on('close', () => {
    clearTimeout(timer);
    gone();
  });
  inside.once('error', () => inside.close());
  inside.on('message', (data) => {
    timer.refresh();
    outside.send(data, port, address, () => undefined);
  });
  return inside;
}
