import { beforeEach, describe, expect, test } from 'vitest';
import { fileSystemsIn } from '../../../../src/runner/metrics/agentfigures.ts';
import { parseSchedstat, readCpuTimes } from '../../../../src/runner/metrics/cpu.ts';
import { settingFamilies } from '../../../../src/runner/metrics/collect.ts';
import { diskCounters } from '../../../../src/runner/metrics/disks.ts';
import { availableMemory, readAvailable } from '../../../../src/runner/metrics/memory.ts';
import { parseNetDev } from '../../../../src/runner/metrics/network.ts';
import { createStartPhases, podPhases } from '../../../../src/runner/startphases.ts';
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

  test('beyond the fourth are counted together', () => {
    const answer = Array.from({ length: 12 }, (_, i) => ({ qdev: `data-d${i}`, stats: stats(1) }));
    const counters = diskCounters(answer);
    expect(counters.size).toBe(5);
    expect(counters.get('others')).toMatchObject({ readBytes: 8, writes: 32 });
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
    const found = fileSystemsIn([{ mountpoint, 'total-bytes': size, 'used-bytes': used }]);
    expect(found?.root).toEqual(expected);
  });

  test('is none where the guest says nonsense', () => {
    expect(fileSystemsIn([null as never, 7 as never])).toBeUndefined();
  });

  test('is none where nothing can be written: such a file system is always full', () => {
    const full = { mountpoint: '/', 'total-bytes': 100, 'used-bytes': 100 };
    expect(fileSystemsIn([{ ...full, type: 'squashfs' }])).toBeUndefined();
    expect(fileSystemsIn([{ ...full, type: 'ext4' }])).toEqual({ root: { size: 100, used: 100 } });
  });
});

describe('of the file systems on further disks', () => {
  const disk = (slot: number) => ({ 'bus-type': 'virtio', 'pci-controller': { bus: 0, slot }, unit: 0 });
  const on = (mountpoint: string, used: number, slots: readonly number[], type = 'ext4') => ({
    mountpoint,
    type,
    'total-bytes': 100,
    'used-bytes': used,
    disk: slots.map(disk),
  });
  const root = on('/', 40, [1]);
  const dataOf = (...others: object[]) => fileSystemsIn([root, ...others])?.data;

  test('the fullest is told of', () => {
    const others = [on('/srv', 50, [2]), on('/data', 95, [3]), on('/home', 60, [4])];
    expect(fileSystemsIn([...others, root])).toEqual({
      root: { size: 100, used: 40 },
      data: { size: 100, used: 95 },
    });
    const small = { ...on('/cache', 4, [5]), 'total-bytes': 4 };
    expect(dataOf(...others, small)).toEqual({ size: 4, used: 4 });
  });

  test.each([
    ['lies on the disk of the root as well, as of boot', on('/boot', 99, [1])],
    ['lies on a volume of several disks, one of which is that of the root', on('/home', 99, [2, 1])],
    ['is that of a CD', on('/media', 100, [2], 'iso9660')],
    ['is that of a CD in Windows', on('D:\\', 100, [2], 'CDFS')],
    ['is in memory, or another machine has it', on('/mnt', 99, [])],
    ['has no size', { ...on('/srv', 0, [2]), 'total-bytes': 0 }],
    ['lies nowhere that can be read', { ...on('/srv', 99, [2]), disk: 'sdb' }],
    ['has a disk that is none', { ...on('/srv', 99, [2]), disk: [null, 7] }],
  ])('one that %s is not', (_what, other) => {
    expect(dataOf(other)).toBeUndefined();
  });

  test('is none where the guest does not say where its root is', () => {
    expect(fileSystemsIn([{ ...root, disk: [] }, on('/srv', 99, [2])])).not.toHaveProperty('data');
    expect(fileSystemsIn([on('/srv', 99, [2])])).toBeUndefined();
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

describe('before the first start in a pod', () => {
  const madeAtMs = 1_700_000_000_000;

  test.each([
    [madeAtMs - 1_500, madeAtMs + 4_000, 1.5, 4],
    // The node's clock is behind that of the operator, which was set back too.
    [madeAtMs + 2_000, madeAtMs - 3_000, 0, 0],
  ])('a VM waited for it, then its image was pulled', (waitedSinceMs, beganAtMs, placed, pulled) => {
    const phases = podPhases({ waitedSinceMs, madeAtMs }, beganAtMs);
    expect(Object.fromEntries(phases)).toEqual({ placed, pulled });
  });

  test('is unknown of a pod of a pool, and of one that an older operator has made', () => {
    expect(podPhases({}, madeAtMs).size).toBe(0);
  });
});

describe('of a VM', () => {
  const times = { waitedSinceMs: performance.timeOrigin - 7_000, madeAtMs: performance.timeOrigin - 4_000 };
  const requested = { architecture: 'amd64', accelerator: 'auto', cpu: 1, memoryMiB: 256, ...times };

  /** A runner, as far as its metrics look at it. */
  function aRunner() {
    const phases = createStartPhases();
    const current = { powerState: 'Running', restarts: 0, warmStart: undefined as object | undefined };
    let running: object | undefined;
    /** @param fromMemory - undefined where there was no memory to go on from */
    const start = (fromMemory?: boolean) => {
      phases.enter('disk');
      phases.enter('machine');
      current.warmStart = fromMemory === undefined ? undefined : { fromMemory };
      phases.enter('guest');
      phases.end();
      running = { input: { accelerator: 'tcg' } };
    };
    const supervisor = { phases, status: { current }, spec: () => requested, running: () => running };
    const said = () => metricsText(settingFamilies(supervisor as never));
    const kind = () => /^svc3_vm_start_info\{start="(\w+)"\} 1$/m.exec(said())?.[1];
    const names = () => Array.from(said().matchAll(/phase="(\w+)"/g), ([, name]) => name);
    return { phases, start, said, kind, names };
  }

  test('the accelerator is told that is in force, and before there is one what was asked for', () => {
    const { start, said } = aRunner();
    expect(said()).toContain('svc3_vm_info{architecture="amd64",accelerator="auto"} 1\n');
    start();
    expect(said()).toContain('svc3_vm_info{architecture="amd64",accelerator="tcg"} 1\n');
  });

  test('the last start is cold where it booted, warm where it went on from a memory', () => {
    const { start, kind } = aRunner();
    expect(kind()).toBeUndefined();
    start(true);
    expect(kind()).toBe('warm');
    start(false);
    expect(kind()).toBe('cold');
    start();
    expect(kind()).toBe('cold');
  });

  test('of a start that has no QEMU yet it is not known what it is', () => {
    const { phases, start, kind } = aRunner();
    start(true);
    phases.enter('disk');
    expect(kind()).toBeUndefined();
  });

  test('that got a guest of a pool the start is claimed, until it is started again', () => {
    const { phases, start, kind } = aRunner();
    start();
    phases.claim();
    expect(kind()).toBe('claimed');
    start();
    expect(kind()).toBe('cold');
  });

  test('what went before the runner belongs to the first start in the pod, and to no other', () => {
    const { start, said, names } = aRunner();
    start();
    expect(names()).toEqual(['placed', 'pulled', 'disk', 'machine', 'guest']);
    expect(said()).toContain('svc3_vm_start_phase_seconds{phase="placed"} 3\n');
    expect(said()).toContain('svc3_vm_start_phase_seconds{phase="pulled"} 4\n');
    start();
    expect(names()).toEqual(['disk', 'machine', 'guest']);
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
