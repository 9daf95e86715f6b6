import { beforeEach, describe, expect, test } from 'vitest';
import { rootFileSystem } from '../../../../src/runner/metrics/agentfigures.ts';
import { parseSchedstat, readCpuTimes } from '../../../../src/runner/metrics/cpu.ts';
import { diskCounters } from '../../../../src/runner/metrics/disks.ts';
import { availableMemory, readAvailable } from '../../../../src/runner/metrics/memory.ts';
import { parseNetDev } from '../../../../src/runner/metrics/network.ts';
import { createStartPhases } from '../../../../src/runner/metrics/phases.ts';
import { metricsText } from '../../../../src/runner/metrics/text.ts';
import { parseResident } from '../../../../src/runner/metrics/usage.ts';

test('times of a thread are seconds', () => {
  expect(parseSchedstat('1500000000 250000000 42\n')).toEqual({ used: 1.5, waited: 0.25 });
});

test('QEMU is asked once for the threads of its virtual CPUs, and their times are read each time', async () => {
  const asked: string[] = [];
  const execute = async (command: string) => {
    asked.push(command);
    if (asked.length === 1) throw new Error('QEMU did not answer');
    return [{ 'thread-id': process.pid }, { 'thread-id': process.pid }];
  };
  const qmp = { execute } as never;
  await expect(readCpuTimes(qmp, process.pid, 1_000)).rejects.toThrow('did not answer');
  const before = await readCpuTimes(qmp, process.pid, 1_000);
  const until = performance.now() + 20;
  while (performance.now() < until);
  const after = await readCpuTimes(qmp, process.pid, 1_000);
  expect(after?.used).toBeGreaterThan(before?.used ?? Number.NaN);
  expect(asked).toEqual(['query-cpus-fast', 'query-cpus-fast']);
});

test('times of which one is missing are none: a counter never goes back', async () => {
  const qmp = { execute: async () => [{ 'thread-id': process.pid }, { 'thread-id': 2 ** 30 }] } as never;
  expect(await readCpuTimes(qmp, process.pid, 1_000)).toBeUndefined();
});

describe('memory', () => {
  test.each([
    [4_096, 1_700_000_000, { bytes: 4_096, saidAt: 1_700_000_000 }],
    [2 ** 64, 0, undefined],
    [-1, 1_700_000_000, undefined],
    ['much', 1_700_000_000, undefined],
    [4_096, 'today', undefined],
  ])('of which the driver says %s at %s', (available, lastUpdate, expected) => {
    const answer = { stats: { 'stat-available-memory': available }, 'last-update': lastUpdate };
    expect(availableMemory(answer)).toEqual(expected);
  });

  test('is asked of QEMU, which asks the driver by itself from the first time on', async () => {
    const asked: unknown[] = [];
    const execute = async (command: string, args: object) => {
      asked.push([command, args]);
      return { stats: { 'stat-available-memory': 1 }, 'last-update': 2 };
    };
    const machine = { qmp: { execute } } as never;
    for (let i = 0; i < 2; i += 1)
      expect(await readAvailable(machine, 1_000)).toEqual({ bytes: 1, saidAt: 2 });
    const path = '/machine/peripheral/balloon0';
    expect(asked).toEqual([
      ['qom-set', { path, property: 'guest-stats-polling-interval', value: 10 }],
      ['qom-get', { path: 'balloon0', property: 'guest-stats' }],
      ['qom-get', { path: 'balloon0', property: 'guest-stats' }],
    ]);
  });
});

test('traffic is that of all interfaces but the loopback', () => {
  const text = `Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:    9999      99    9    9    0     0          0         0     9999      99    9    9    0     0       0          0
  eth0:    1000      10    0    1    0     0          0         0     2000      20    0    2    0     0       0          0
  eth1:1 2 0 3 0 0 0 0 4 5 0 6 0 0 0 0
`;
  expect(parseNetDev(text)).toEqual({
    received: { bytes: 1001, packets: 12, drops: 4 },
    sent: { bytes: 2004, packets: 25, drops: 8 },
  });
});

describe('disks', () => {
  const stats = (bytes: number) => ({
    rd_bytes: bytes,
    wr_bytes: 2 * bytes,
    rd_operations: 3,
    wr_operations: 4,
    rd_total_time_ns: 5e9,
    wr_total_time_ns: 6e9,
  });

  test('are counted by name; CD, seed and what no device shows are not', () => {
    const counters = diskCounters([
      { qdev: '/machine/peripheral/disk/virtio-backend', stats: stats(10) },
      { qdev: 'data-logs', stats: stats(20) },
      { qdev: '/machine/peripheral/cd', stats: stats(30) },
      { qdev: '/machine/peripheral/seed/virtio-backend', stats: stats(30) },
      { stats: stats(30) },
    ]);
    expect([...counters.keys()]).toEqual(['disk', 'data-logs']);
    expect(counters.get('disk')).toEqual({
      readBytes: 10,
      writtenBytes: 20,
      reads: 3,
      writes: 4,
      readSeconds: 5,
      writeSeconds: 6,
    });
  });

  test('beyond the fifth are counted together', () => {
    const answer = Array.from({ length: 12 }, (_, i) => ({ qdev: `data-d${i}`, stats: stats(1) }));
    const counters = diskCounters(answer);
    expect(counters.size).toBe(6);
    expect(counters.get('others')).toMatchObject({ readBytes: 7, writes: 28 });
  });
});

describe("a guest's root file system", () => {
  test.each([
    ['/', 100, 40, { size: 100, used: 40 }],
    ['C:\\', 100, 40, { size: 100, used: 40 }],
    ['/data', 100, 40, undefined],
    ['/', -1, 40, undefined],
    ['/', 100, 'much', undefined],
    ['/', 2 ** 64, 40, undefined],
  ])('at %s of %s bytes with %s used', (mountpoint, size, used, expected) => {
    expect(rootFileSystem([{ mountpoint, 'total-bytes': size, 'used-bytes': used }])).toEqual(expected);
  });

  test('is none where the guest says nonsense', () => {
    expect(rootFileSystem([null as never, 7 as never])).toBeUndefined();
  });

  test('is none where nothing can be written: such a file system is always full', () => {
    const full = { mountpoint: '/', 'total-bytes': 100, 'used-bytes': 100 };
    expect(rootFileSystem([{ ...full, type: 'squashfs' }])).toBeUndefined();
    expect(rootFileSystem([{ ...full, type: 'ext4' }])).toEqual({ size: 100, used: 100 });
  });
});

test('phases of a start are those of the last one, the one under way until now', () => {
  let now = 0;
  const phases = createStartPhases(() => now);
  phases.enter('disk');
  now += 2_000;
  phases.enter('machine');
  now += 500;
  phases.enter('guest');
  now += 3_000;
  expect([...phases.seconds()]).toEqual([
    ['disk', 2],
    ['machine', 0.5],
    ['guest', 3],
  ]);
  phases.end();
  now += 60_000;
  expect(phases.seconds().get('guest')).toBe(3);
  phases.enter('disk');
  now += 1_000;
  expect([...phases.seconds()]).toEqual([['disk', 1]]);
});

describe('the first start', () => {
  const wall = 1_700_000_000_000;
  let now = 0;
  const made = () =>
    createStartPhases(
      () => now,
      () => wall + now,
    );
  beforeEach(() => void (now = 0));

  test('has the phases that are over, and the time at which it began', () => {
    const phases = made();
    expect(phases.first()).toBeUndefined();
    now += 100;
    phases.enter('disk');
    now += 2_000;
    phases.enter('machine');
    expect(phases.first()).toEqual({ startedAtMs: wall + 100, diskMs: 2_000 });
    now += 500;
    phases.enter('guest');
    now += 3_000;
    phases.end();
    now += 60_000;
    const whole = { startedAtMs: wall + 100, diskMs: 2_000, machineMs: 500, guestMs: 3_000 };
    expect(phases.first()).toEqual(whole);
  });

  test('is not told any more once there is another', () => {
    const phases = made();
    for (let i = 0; i < 2; i += 1) {
      phases.enter('disk');
      phases.end();
    }
    expect(phases.first()).toBeUndefined();
  });

  test('is none where the pod began without a boot', () => {
    const phases = made();
    phases.beginWithout();
    phases.enter('disk');
    phases.end();
    expect(phases.first()).toBeUndefined();
  });
});

test('text has help, type and escaped labels; what is not known has no line', () => {
  const samples = [{ labels: { disk: 'a"\\\n' }, value: 1 }, { value: Number.NaN }];
  expect(
    metricsText([
      { name: 'a_total', type: 'counter', help: 'What.', samples },
      { name: 'b', type: 'gauge', help: 'Nothing.', samples: [] },
    ]),
  ).toBe('# HELP a_total What.\n# TYPE a_total counter\na_total{disk="a\\"\\\\\\n"} 1\n');
});

test('memory of a process is what it holds, not what it has mapped', () => {
  const text = 'Name:\tqemu\nVmPeak:\t 9000 kB\nVmSize:\t 8000 kB\nVmRSS:\t    2000 kB\nRssAnon:\t 1000 kB\n';
  expect(parseResident(text)).toBe(2_048_000);
  expect(parseResident('Name:\tkthreadd\n')).toBeUndefined();
});
