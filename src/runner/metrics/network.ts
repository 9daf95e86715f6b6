import { readProc } from './proc.ts';

/** Of one direction, since the pod was made. */
export interface Traffic {
  readonly bytes: number;
  readonly packets: number;
  readonly drops: number;
}

export interface NetworkCounters {
  readonly received: Traffic;
  readonly sent: Traffic;
}

/** Undefined where the kernel does not tell it. */
export function readTraffic(): NetworkCounters | undefined {
  const text = readProc('/proc/self/net/dev');
  return text === undefined ? undefined : parseNetDev(text);
}

/** /proc/net/dev, all interfaces but the loopback together. */
export function parseNetDev(text: string): NetworkCounters {
  const rows = text
    .split('\n')
    .map((line) => /^\s*(\S+):\s*(.*)$/.exec(line))
    .filter((match) => match !== null)
    .filter(([, name]) => name !== 'lo')
    .map(([, , numbers = '']) => numbers.trim().split(/\s+/).map(Number));
  const sum = (column: number) => rows.reduce((all, row) => all + (row[column] ?? 0), 0);
  return {
    received: { bytes: sum(0), packets: sum(1), drops: sum(3) },
    sent: { bytes: sum(8), packets: sum(9), drops: sum(11) },
  };
}
