import { describe, expect, test } from 'vitest';
import type { PortMapping } from '../../../../../src/api/ports.ts';
import type { RunnerPort } from '../../../../../src/api/runner.ts';
import {
  containerPorts,
  isSamePorts,
  livePorts,
  madeWith,
  reservedPortsOf,
  runnerPorts,
  statusPorts,
} from '../../../../../src/controllers/vm/pod/podports.ts';
import { effective } from '../builders.ts';

const tcp = (guestPort: number, nodePort?: number): PortMapping => ({
  guestPort,
  protocol: 'TCP',
  ...(nodePort === undefined ? {} : { nodePort }),
});
const udp = (guestPort: number, nodePort?: number): PortMapping => ({
  ...tcp(guestPort, nodePort),
  protocol: 'UDP',
});
const way = (podPort: number, guestPort = podPort, protocol: 'TCP' | 'UDP' = 'TCP'): RunnerPort => ({
  podPort,
  guestPort,
  protocol,
});
const withPorts = (...ports: PortMapping[]) => ({ ...effective, ports });
const own = [way(22), way(5900)];

describe('a port of the guest on the IP of its pod', () => {
  test.each<[string, PortMapping, number]>([
    ['has its own number', tcp(80, 20_000), 80],
    ['has a spare number where its own is that of SSH', tcp(22, 20_000), 64_001],
    ['has a spare number where its own is that of screen sharing', tcp(5900, 20_000), 64_001],
    ['has a spare number where its own is that of the runner', tcp(8443, 20_000), 64_001],
    ['has a spare number where its own is that of the screen', tcp(64_000, 20_000), 64_001],
    ['has a spare number where its own is the last spare one', tcp(64_032, 20_000), 64_001],
    ['has its own number next to that of the runner', tcp(8442, 20_000), 8442],
    ['has its own number behind the spare ones', tcp(64_033, 20_000), 64_033],
    ['of UDP has its own number, whatever TCP has there', udp(22, 20_000), 22],
  ])('%s', (_sentence, mapping, podPort) => {
    const ways = runnerPorts(withPorts(mapping));
    expect(ways).toEqual([...own, way(podPort, mapping.guestPort, mapping.protocol)]);
  });

  test('has a spare number by its place among those with a port of the node', () => {
    const ways = runnerPorts(withPorts(tcp(80), tcp(8080, 20_000), tcp(22, 20_001)));
    expect(ways).toEqual([...own, way(8080), way(64_002, 22), way(80)]);
  });

  test('is there once, however often it is mapped', () => {
    expect(runnerPorts(withPorts(tcp(80, 20_000), tcp(80), tcp(22), udp(80)))).toEqual([
      ...own,
      way(80),
      way(80, 80, 'UDP'),
    ]);
  });

  test('comes and goes while the VM runs where it has no port of the node', () => {
    const settings = withPorts(tcp(80, 20_000), tcp(443), tcp(22, 20_001));
    expect(livePorts(runnerPorts(settings), settings)).toEqual([way(443)]);
    expect(livePorts(runnerPorts(effective), effective)).toEqual([]);
  });
});

describe('the ports of the container', () => {
  test('have a port of the node where there is one', () => {
    expect(containerPorts(withPorts(tcp(80, 20_000), tcp(443)), { ssh: 8822 })).toEqual([
      { name: 'ssh', containerPort: 22, hostPort: 8822, protocol: 'TCP' },
      { name: 'screenshare', containerPort: 5900, protocol: 'TCP' },
      { name: 'port-0', containerPort: 80, hostPort: 20_000, protocol: 'TCP' },
    ]);
  });

  test('that the VM names itself are reserved', () => {
    expect(reservedPortsOf(withPorts(tcp(80, 20_000), tcp(443), udp(53, 20_053)))).toEqual([
      { port: 20_000, protocol: 'TCP' },
      { port: 20_053, protocol: 'UDP' },
    ]);
    expect(reservedPortsOf(effective)).toEqual([]);
  });
});

describe('the ports that are told of a VM', () => {
  test('are those of its pod', () => {
    const ports = containerPorts(effective, { ssh: 8822, screenshare: 5901, vnc: 5999 });
    expect(statusPorts(ports, effective, [])).toEqual({ ssh: 8822, screenshare: 5901, vnc: 5999 });
    expect(statusPorts([], effective, [])).toEqual({ ssh: 0 });
  });

  test('have the mappings with a port of the node, and those that are open', () => {
    const settings = withPorts(tcp(80, 20_000), tcp(443), tcp(444));
    const open = [...own, way(80), way(443)];
    expect(statusPorts([], settings, open).mapped).toEqual([tcp(80, 20_000), tcp(443)]);
  });
});

describe('what a pod was made with', () => {
  test('is read of its annotation', () => {
    const ports = [way(80), { podPort: 53, guestPort: 54, protocol: 'UDP' }];
    expect(madeWith(JSON.stringify({ ports }))).toEqual(ports);
    expect(madeWith(JSON.stringify({ ports: [{ podPort: 80, guestPort: 80 }] }))).toEqual([way(80)]);
  });

  test.each([undefined, '', '{', '{}'])('is nothing where that is %j', (text) => {
    expect(madeWith(text)).toEqual([]);
  });
});

test('ports are the same in whatever order they come', () => {
  expect(isSamePorts([way(1), way(2)], [way(2), way(1)])).toBe(true);
  expect(isSamePorts([], [])).toBe(true);
  expect(isSamePorts([way(1)], [way(1), way(2)])).toBe(false);
  expect(isSamePorts([way(1)], [way(1, 2)])).toBe(false);
  expect(isSamePorts([way(1)], [way(1, 1, 'UDP')])).toBe(false);
});
