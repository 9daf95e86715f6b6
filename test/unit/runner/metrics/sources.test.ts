import { beforeEach, describe, expect, test } from 'vitest';
import { parseSchedstat } from '../../../../src/runner/metrics/cpu.ts';
import { diskCounters } from '../../../../src/runner/metrics/disks.ts';
import { rootFileSystem } from '../../../../src/runner/metrics/guest.ts';
import { parseNetDev } from '../../../../src/runner/metrics/network.ts';
import { createStartPhases } from '../../../../src/runner/metrics/phases.ts';
import { metricsText } from '../../../../src/runner/metrics/text.ts';
import { parseResident } from '../../../../src/runner/metrics/usage.ts';

test('times of a thread are seconds', () => {
  expect(parseSchedstat('1500000000 250000000 42\n')).toEqual({ used: 1.5, waited: 0.25 });
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
