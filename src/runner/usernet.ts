import type { RunnerPort } from '../api/runner.ts';
import { createQueue } from './powerstate.ts';
import type { Qmp } from './qmp.ts';

/** Loopback ports that lead into the guest, of one QEMU process. */
export interface GuestPorts {
  /** A port of 127.0.0.1 behind which the guest's TCP port is. It accepts before the guest listens. */
  loopbackPort(guestPort: number): Promise<number>;
  /** Whether the guest has taken a connection that came in through that loopback port and is still open. */
  isConnected(guestPort: number): Promise<boolean>;
  /** A port of the pod now leads to the guest's. Throws what QEMU says where it cannot be had. */
  open(port: RunnerPort, address: string): Promise<void>;
  /** No new connections by that port of the pod; those that are open go on. */
  close(port: RunnerPort, address: string): Promise<void>;
}

/** Loopback ports that are opened here, at a time. */
const largestNumberOfPorts = 64;

/** Asks QEMU's user-mode network; a port that is not mapped yet gets a loopback port that the system chooses. */
export function createGuestPorts(qmp: Qmp): GuestPorts {
  /** Guest port → loopback port that was opened for it here, in the order of their last use. */
  const opened = new Map<number, number>();
  /** Guest port → port of the pod that leads there by loopback, and is closed by whoever opened it. */
  const borrowed = new Map<number, number>();
  const podPorts = new Set<number>();
  const inTurn = createQueue();

  function known(guestPort: number): number | undefined {
    const port = opened.get(guestPort);
    if (port === undefined) return borrowed.get(guestPort);
    opened.delete(guestPort);
    opened.set(guestPort, port);
    return port;
  }

  async function find(guestPort: number): Promise<number> {
    const port = known(guestPort);
    if (port !== undefined) return port;
    const table = await monitor(qmp, 'info usernet');
    const mapped = parseForwards(table).get(guestPort);
    if (mapped !== undefined) {
      borrowed.set(guestPort, mapped);
      return mapped;
    }
    if (opened.size >= largestNumberOfPorts) await closeOldest(table);
    const refusal = await monitor(qmp, `hostfwd_add net0 tcp:127.0.0.1:0-:${guestPort}`);
    const added = parseForwards(await monitor(qmp, 'info usernet')).get(guestPort);
    if (added === undefined)
      throw new Error(`port ${guestPort} of the guest cannot be reached: ${refusal.trim()}`);
    // Another way there may have been opened meanwhile.
    (podPorts.has(added) ? borrowed : opened).set(guestPort, added);
    return added;
  }

  /** Of those that nobody is connected by. */
  async function closeOldest(table: string): Promise<void> {
    const connected = connectedPorts(table);
    const oldest = [...opened].find(([guestPort]) => !connected.has(guestPort));
    if (oldest === undefined) throw new Error('too many ports of the guest are in use');
    const [guestPort, port] = oldest;
    opened.delete(guestPort);
    await monitor(qmp, `hostfwd_remove net0 tcp:127.0.0.1:${port}`);
  }

  return {
    loopbackPort: async (guestPort) => known(guestPort) ?? inTurn(() => find(guestPort)),
    async open({ podPort, guestPort, protocol }, address) {
      podPorts.add(podPort);
      const listen = `${protocol.toLowerCase()}:${address}:${podPort}`;
      // One that QEMU has opened although its answer came too late is nobody's.
      await monitor(qmp, `hostfwd_remove net0 ${listen}`);
      const refusal = (await monitor(qmp, `hostfwd_add net0 ${listen}-:${guestPort}`)).trim();
      if (refusal !== '') throw new Error(refusal);
    },
    async close({ podPort, guestPort, protocol }, address) {
      try {
        await monitor(qmp, `hostfwd_remove net0 ${protocol.toLowerCase()}:${address}:${podPort}`);
      } finally {
        // Now: an answer that still showed it came before this one.
        podPorts.delete(podPort);
        borrowed.delete(guestPort);
      }
    },
    isConnected: async (guestPort) => connectedPorts(await monitor(qmp, 'info usernet')).has(guestPort),
  };
}

function monitor(qmp: Qmp, command: string): Promise<string> {
  return qmp.execute<string>('human-monitor-command', { 'command-line': command });
}

/** Guest ports with an open connection that came from outside, from the table of `info usernet`. */
export function connectedPorts(text: string): Set<number> {
  const rows = text.matchAll(/^\s*TCP\[ESTABLISHED\]\s+\d+\s+127\.0\.0\.1\s+\d+\s+\S+\s+(\d+)\s/gm);
  return new Set([...rows].map(([, port]) => Number(port)));
}

/** Guest port → loopback port, from the table of `info usernet`. */
export function parseForwards(text: string): Map<number, number> {
  const forwards = new Map<number, number>();
  for (const line of text.split('\n')) {
    const match = /^\s*TCP\[HOST_FORWARD\]\s+\d+\s+127\.0\.0\.1\s+(\d+)\s+\S+\s+(\d+)\s/.exec(line);
    if (match !== null) forwards.set(Number(match[2]), Number(match[1]));
  }
  return forwards;
}
