import type { Inventory } from './inventory.ts';
import { place, type Placed, type PlacementRequest, type Refused } from './place.ts';
import type { HostPort } from './ports.ts';

export interface PlacedWithout {
  readonly result: Placed | Refused;
  /** Reserved ports that the pod goes without; the place found holds only the others. */
  readonly leftOut: readonly HostPort[];
}

/**
 * `place`, but where only reserved ports stand in the way: a port that no node has free that would fit otherwise is left out,
 * the others of the request are kept in its order. What is refused is refused without any of them. Assumes nothing.
 */
export function placeLeavingOut(inventory: Inventory, request: PlacementRequest): PlacedWithout {
  const whole = place(inventory, request);
  if (whole.kind === 'placed' || request.reservedPorts.length === 0) return { result: whole, leftOut: [] };
  let result = place(inventory, { ...request, reservedPorts: [] });
  if (result.kind === 'refused') return { result, leftOut: [] };
  let kept: readonly HostPort[] = [];
  const leftOut: HostPort[] = [];
  for (const port of request.reservedPorts) {
    const more = [...kept, port];
    const tried = place(inventory, { ...request, reservedPorts: more });
    if (tried.kind === 'refused') leftOut.push(port);
    else [kept, result] = [more, tried];
  }
  return { result, leftOut };
}
