import type { ResourceVector } from './resources.ts';
import { SCREEN_SHARE, SSH, VNC } from './resources.ts';

export type Protocol = 'TCP' | 'UDP';

export interface PortRange {
  readonly first: number;
  readonly last: number;
}

/** The three services of a VM that get a host port by themselves, each from its own range. */
export type PortService = 'ssh' | 'screenshare' | 'vnc';
const portServices: readonly PortService[] = ['ssh', 'screenshare', 'vnc'];

/** Chart value `portRanges`; a service without a range never gets a host port. */
export type PortRanges = Partial<Record<PortService, PortRange>>;

export const serviceDimension: Record<PortService, number> = {
  ssh: SSH,
  screenshare: SCREEN_SHARE,
  vnc: VNC,
};

export interface HostPort {
  readonly port: number;
  readonly protocol: Protocol;
}

export function portKey(port: HostPort): string {
  return `${port.protocol}/${port.port}`;
}

/** The host ports of one node: how many users each has (two pods never share one, but a cache may show both for a moment). */
export type UsedPorts = Map<string, number>;

/** Size of each range, as the port dimensions of a node's capacity. */
export function portCapacity(ranges: PortRanges, into: ResourceVector): void {
  for (const service of portServices) {
    const range = ranges[service];
    into[serviceDimension[service]] = range === undefined ? 0 : range.last - range.first + 1;
  }
}

/** The dimensions (one per service) whose range holds this port. */
export function dimensionsOfPort(ranges: PortRanges, port: HostPort): number[] {
  if (port.protocol !== 'TCP') return [];
  return portServices
    .filter((service) => {
      const range = ranges[service];
      return range !== undefined && port.port >= range.first && port.port <= range.last;
    })
    .map((service) => serviceDimension[service]);
}

export type AssignedPorts = Partial<Record<PortService, number>>;

/**
 * The first free port of each wanted service's range on a node where `used` is taken, never one of `reserved`;
 * undefined when a range has none left or a reserved port is taken.
 */
export function assignPorts(
  ranges: PortRanges,
  used: UsedPorts,
  services: readonly PortService[],
  reserved: readonly HostPort[],
): AssignedPorts | undefined {
  if (reserved.some((port) => used.has(portKey(port)))) return undefined;
  const taken = new Set(reserved.map(portKey));
  const assigned: AssignedPorts = {};
  for (const service of services) {
    const range = ranges[service];
    if (range === undefined) continue;
    const port = firstFree(range, used, taken);
    if (port === undefined) return undefined;
    taken.add(portKey({ port, protocol: 'TCP' }));
    assigned[service] = port;
  }
  return assigned;
}

function firstFree(range: PortRange, used: UsedPorts, taken: ReadonlySet<string>): number | undefined {
  for (let port = range.first; port <= range.last; port++) {
    const key = portKey({ port, protocol: 'TCP' });
    if (!used.has(key) && !taken.has(key)) return port;
  }
  return undefined;
}
