import { Inventory } from '../../src/placement/inventory.ts';
import { place } from '../../src/placement/place.ts';
import { type Benchmark, type Outcome, percentile } from './figures.ts';
import { aNode, aPod, aRequest, ranges } from '../unit/placement/builders.ts';

export const benchmark: Benchmark = {
  about: 'one placement decision in memory, and pod events that the inventory takes in',
  measure,
};

async function measure(): Promise<Outcome> {
  measurePlacement(500, 3000);
  const middle = measurePlacement(5000);
  const large = measurePlacement(50_000);
  return {
    rows: [measurePlacement(500), middle, large],
    figures: [
      { what: 'decision at 5,000 nodes and 50,000 VMs, µs P50', value: middle.placeP50, atMost: 50 },
      { what: '10 times the nodes, times the time', value: large.placeP50 / middle.placeP50, atMost: 2 },
      { what: 'pod events taken in in a second', value: middle.eventsPerSecond, atLeast: 10_000 },
    ],
  };
}

/** Microseconds of one decision (with its assumption) in a cluster of `nodes` nodes with ten VMs each. */
interface PlacementFigures {
  readonly nodes: number;
  readonly vms: number;
  readonly placeP50: number;
  readonly placeP99: number;
  readonly refuseP50: number;
  readonly eventsPerSecond: number;
  readonly fillMs: number;
}

/** GPU nodes, tags, architectures and sizes mixed, so that there are some dozen classes. */
function measurePlacement(nodes: number, decisions = 5000): PlacementFigures {
  const inventory = new Inventory(ranges);
  const start = performance.now();
  fill(inventory, nodes);
  place(inventory, aRequest());
  const fillMs = performance.now() - start;
  const placed: number[] = [];
  const refused: number[] = [];
  for (let i = 0; i < decisions; i++) {
    placed.push(timed(() => decide(inventory, i)));
    refused.push(
      timed(() =>
        place(inventory, aRequest({ gpu: true, tag: `t${i % 5}`, tagRequired: true, memoryBytes: 2 ** 45 })),
      ),
    );
  }
  const events = 200_000;
  const began = performance.now();
  for (let i = 0; i < events; i++) {
    const node = (i * 7919) % nodes;
    inventory.setPod(aPod(`x${i % 1000}`, `node-${node}`, { cpu: 1 + (i % 2) }));
    if (i % 20 === 0) place(inventory, aRequest());
  }
  const seconds = (performance.now() - began) / 1000;
  return {
    nodes,
    vms: nodes * 10,
    placeP50: rounded(placed, 0.5),
    placeP99: rounded(placed, 0.99),
    refuseP50: rounded(refused, 0.5),
    eventsPerSecond: Math.round(events / seconds),
    fillMs: Math.round(fillMs),
  };
}

function fill(inventory: Inventory, nodes: number): void {
  for (let i = 0; i < nodes; i++) {
    inventory.setNode(
      aNode(`node-${i}`, {
        cpu: [16, 32, 64][i % 3] ?? 16,
        memory: [64, 128, 256][i % 3] ?? 64,
        architecture: i % 10 === 0 ? 'arm64' : 'amd64',
        tags: i % 4 === 0 ? [`t${i % 5}`] : [],
        gpuEnabled: i % 5 === 0,
        gpu: i % 5 === 0 ? 1 : 0,
        kvm: 1000,
      }),
    );
    for (let vm = 0; vm < 10; vm++)
      inventory.setPod(
        aPod(`${i}-${vm}`, `node-${i}`, {
          cpu: (i * 31 + vm * 17) % 3,
          memory: (i * 13 + vm * 7) % 11,
          ports: [{ port: 8822 + vm, protocol: 'TCP' }],
        }),
      );
  }
}

function decide(inventory: Inventory, i: number): void {
  const result = place(
    inventory,
    aRequest({
      services: ['ssh', 'screenshare'],
      packed: i % 3 === 0,
      ...(i % 4 === 0 ? { tag: 't1' } : {}),
    }),
  );
  if (result.kind === 'placed') inventory.assume(`vm-${i % 1000}`, result.usage);
}

function timed(action: () => unknown): number {
  const start = performance.now();
  action();
  return (performance.now() - start) * 1000;
}

function rounded(values: readonly number[], of: number): number {
  return Math.round(percentile(values, of) * 10) / 10;
}
