import { describe, expect, test } from 'vitest';
import { assignPorts, dimensionsOfPort, portCapacity } from '../../../src/placement/ports.ts';
import { emptyVector, SCREEN_SHARE, SSH, VNC } from '../../../src/placement/resources.ts';

const ranges = { ssh: { first: 8822, last: 8824 }, screenshare: { first: 5900, last: 5900 } };
const tcp = (port: number) => ({ port, protocol: 'TCP' as const });
const used = (...ports: number[]) => new Map(ports.map((port) => [`TCP/${port}`, 1]));

describe('the port of a service', () => {
  test.each<[string, number[], number[], number | undefined]>([
    ['is the first of its range', [], [], 8822],
    ['is the first that is free', [8822], [], 8823],
    ['may be one that has become free', [8823, 8824], [], 8822],
    ['is the last where all others are taken', [8822, 8823], [], 8824],
    ['is none of those that the VM wants for itself', [], [8822, 8823], 8824],
    ['is neither taken nor wanted', [8822], [8823], 8824],
    ['is none beyond its range', [8822, 8823, 8824], [], undefined],
    ['is none where the last is wanted', [8822, 8823], [8824], undefined],
  ])('%s', (_sentence, taken, wanted, expected) => {
    expect(assignPorts(ranges, used(...taken), ['ssh'], wanted.map(tcp))?.ssh).toBe(expected);
  });

  test('of UDP is another', () => {
    const reserved = [{ port: 8822, protocol: 'UDP' as const }];
    expect(assignPorts(ranges, new Map([['UDP/8823', 1]]), ['ssh'], reserved)).toEqual({ ssh: 8822 });
  });

  test('is not given where the service has no range, and that is no obstacle', () => {
    expect(assignPorts(ranges, new Map(), ['vnc', 'ssh'], [])).toEqual({ ssh: 8822 });
  });

  test('is another for each of two services whose ranges overlap', () => {
    const shared = { first: 6000, last: 6001 };
    const both = { ssh: shared, vnc: shared };
    expect(assignPorts(both, new Map(), ['ssh', 'vnc'], [])).toEqual({ ssh: 6000, vnc: 6001 });
    expect(assignPorts(both, used(6000), ['ssh', 'vnc'], [])).toBeUndefined();
  });

  test('is of no use where one that the VM wants is taken, whichever', () => {
    expect(assignPorts(ranges, used(20001), [], [tcp(20000), tcp(20001)])).toBeUndefined();
    expect(assignPorts(ranges, used(20002), [], [tcp(20000), tcp(20001)])).toEqual({});
  });
});

test.each<[number, number[]]>([
  [8821, []],
  [8822, [SSH]],
  [8824, [SSH]],
  [8825, []],
  [5899, []],
  [5900, [SCREEN_SHARE]],
  [5901, []],
])('port %i counts for the services of %j', (port, dimensions) => {
  expect(dimensionsOfPort(ranges, tcp(port))).toEqual(dimensions);
  expect(dimensionsOfPort(ranges, { port, protocol: 'UDP' })).toEqual([]);
});

test('a node has as many ports of a service as its range holds, and none without a range', () => {
  const capacity = emptyVector().map(() => 9);
  portCapacity(ranges, capacity);
  expect([capacity[SSH], capacity[SCREEN_SHARE], capacity[VNC]]).toEqual([3, 1, 0]);
});
