import { describe, expect, test } from 'vitest';
import { Inventory } from '../../../src/placement/inventory.ts';
import { placeLeavingOut } from '../../../src/placement/leaveout.ts';
import type { HostPort } from '../../../src/placement/ports.ts';
import { aNode, aPod, aRequest, ranges } from './builders.ts';

const port = (number: number): HostPort => ({ port: number, protocol: 'TCP' });
const [http, dns, smtp] = [port(20_080), port(20_053), port(20_025)] as const;

function placed(nodes: Record<string, { taken?: HostPort[]; cpu?: number }>, reservedPorts: HostPort[]) {
  const inventory = new Inventory(ranges);
  for (const [name, { taken = [], cpu = 8 }] of Object.entries(nodes)) {
    inventory.setNode(aNode(name, { cpu }));
    inventory.setPod(aPod(`on-${name}`, name, { ports: taken }));
  }
  const { result, leftOut } = placeLeavingOut(inventory, aRequest({ cpuMilli: 2_000, reservedPorts }));
  return result.kind === 'placed'
    ? { node: result.node, ports: result.usage.ports.filter(({ port: of }) => of >= 20_000), leftOut }
    : { message: result.message, leftOut };
}

describe('a reserved port', () => {
  test('decides the node where one that fits has it free', () => {
    const nodes = { a: { taken: [http] }, b: { taken: [dns], cpu: 4 } };
    expect(placed(nodes, [http])).toEqual({ node: 'b', ports: [http], leftOut: [] });
  });

  test('that is taken on every node that fits is left out, and the others are kept', () => {
    const nodes = { a: { taken: [http] }, b: { taken: [], cpu: 1 } };
    expect(placed(nodes, [smtp, http, dns])).toEqual({ node: 'a', ports: [smtp, dns], leftOut: [http] });
  });

  test('that no node has together with an earlier one is left out', () => {
    const nodes = { a: { taken: [http] }, b: { taken: [dns] } };
    expect(placed(nodes, [http, dns])).toEqual({ node: 'b', ports: [http], leftOut: [dns] });
  });

  test('is not what a VM waits for where no node fits without it', () => {
    const { message, leftOut } = placed({ a: { taken: [http], cpu: 1 } }, [http]);
    expect(message).toBe('0/1 nodes are available: 1 Insufficient cpu.');
    expect(leftOut).toEqual([]);
  });
});
