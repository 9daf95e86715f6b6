import type { RunnerPort } from '../api/runner.ts';
import { messageOf } from '../errors.ts';
import type { GuestPorts } from './usernet.ts';

export interface PortChange {
  /** Ports that lead into the guest now. */
  readonly ports: readonly RunnerPort[];
  /** Why some of those that were asked for are not among them. */
  readonly message: string | undefined;
}

/** Opens and closes ports of the pod that lead into a guest that runs. One that cannot be had keeps no other from being opened. */
export async function changePorts(
  guest: Pick<GuestPorts, 'open' | 'close'>,
  address: string,
  { before, after }: { readonly before: readonly RunnerPort[]; readonly after: readonly RunnerPort[] },
): Promise<PortChange> {
  for (const port of without(before, after)) await guest.close(port, address);
  const refused = new Map<RunnerPort, string>();
  for (const port of without(after, before))
    await guest.open(port, address).catch((error: unknown) => refused.set(port, messageOf(error)));
  return {
    ports: after.filter((port) => !refused.has(port)),
    message: refused.size === 0 ? undefined : [...refused.values()].join('; '),
  };
}

function without(ports: readonly RunnerPort[], others: readonly RunnerPort[]): RunnerPort[] {
  return ports.filter((port) => !others.some((other) => isSame(port, other)));
}

function isSame(a: RunnerPort, b: RunnerPort): boolean {
  return a.podPort === b.podPort && a.guestPort === b.guestPort && a.protocol === b.protocol;
}
