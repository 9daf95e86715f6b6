import { describe, expect, test } from 'vitest';
import type { VmUsage } from '../../../../../src/api/vmusage.ts';
import {
  bytesText,
  ceilingOf,
  noHistory,
  nowOf,
  pathOf,
  plotsOf,
  rateOf,
  windowMs,
  withUsage,
  wordsOf,
} from '../../../../../src/http/ui/page/usage.ts';
import { aUsage } from '../../../../support/vmusage.ts';

const after = (...usages: readonly VmUsage[]) => usages.reduce(withUsage, noHistory);
const newest = (...usages: readonly VmUsage[]) => after(...usages).samples.at(-1);
/** As if it had been taken at another time than its uptime says. */
const takenAt = (second: number, usage: VmUsage): VmUsage => ({
  ...usage,
  timestamp: aUsage(second).timestamp,
});

test.each([
  ['that has grown', 10, 30, 2, 10],
  ['that stood still', 10, 10, 2, 0],
  ['that has begun anew', 30, 10, 2, undefined],
  ['that was not known', undefined, 10, 2, undefined],
  ['that is not known any more', 10, undefined, 2, undefined],
  ['over no time', 10, 30, undefined, undefined],
])('a counter %s', (_what, before, now, seconds, rate) => {
  expect(rateOf(before, now, seconds)).toBe(rate);
});

describe('figures', () => {
  test('are rates from the second on', () => {
    const nothing = { cores: undefined, read: undefined, sent: undefined };
    expect(newest(aUsage(60))).toMatchObject({ ...nothing, used: 2 ** 29, resident: 2 ** 30 });
    expect(newest(aUsage(60), aUsage(62))).toMatchObject({
      cores: 0.5,
      read: 2 * 2 ** 20,
      written: 2 ** 20,
      received: 3 * 2 ** 10,
      sent: 2 ** 10,
    });
  });

  test('of a guest that was started again give no rate, though some counters be larger', () => {
    const again = takenAt(64, { ...aUsage(1), network: { receivedBytes: 2 ** 40, sentBytes: 2 ** 40 } });
    const history = after(aUsage(60), aUsage(62), again, takenAt(66, aUsage(3)));
    expect(history.samples.map(({ cores }) => cores)).toEqual([undefined, 0.5, undefined, 0.5]);
    expect(history.samples[2]?.received).toBeUndefined();
  });

  test('that were had already are nothing new', () => {
    const history = after(aUsage(60), aUsage(62));
    expect(withUsage(history, aUsage(62))).toBe(history);
  });

  test('after a long time in which nobody looked give no rate', () => {
    expect(newest(aUsage(60), aUsage(90))?.cores).toBe(0.5);
    expect(newest(aUsage(60), aUsage(91))?.cores).toBeUndefined();
  });

  test('are those of the last five minutes, and none of a clock that was put back', () => {
    const all = Array.from({ length: 200 }, (_, at) => aUsage(60 + 2 * at));
    const { samples } = after(...all);
    expect(samples).toHaveLength(150);
    expect(after(...all, takenAt(10, aUsage(500))).samples).toHaveLength(1);
  });

  test('without disks, network, balloon and times of CPUs are not known', () => {
    const bare: Partial<VmUsage> = {
      cpu: { cpus: 1 },
      memory: { totalBytes: 1 },
      disks: [],
      network: undefined,
    };
    const sample = newest(aUsage(60, bare), aUsage(62, bare));
    const { timestamp: _timestamp, atMs: _atMs, ...values } = sample ?? { timestamp: '', atMs: 0 };
    expect(new Set(Object.values(values))).toEqual(new Set([undefined]));
  });
});

test.each([
  [0, '0 B'],
  [0.4, '0 B'],
  [1023, '1023 B'],
  [1536, '1.5 KiB'],
  [2 ** 20 - 1, '1.0 MiB'],
  [1023 * 2 ** 10, '1023 KiB'],
  [20 * 2 ** 20, '20 MiB'],
  [2 ** 60, '1024 PiB'],
])('%d bytes are %s', (bytes, text) => {
  expect(bytesText(bytes)).toBe(text);
});

test.each([
  [0, 1024],
  [1024, 1024],
  [1025, 2048],
  [300 * 1024, 512 * 1024],
  [512 * 1024 + 1, 2 ** 20],
])('a plot of at most %d bytes reaches to %d', (bytes, ceiling) => {
  expect(ceilingOf(bytes)).toBe(ceiling);
});

describe('plots', () => {
  const plotOf = (title: string, ...usages: readonly VmUsage[]) =>
    plotsOf(after(...usages)).find((plot) => plot.title === title)!;

  test('say in words what they show', () => {
    const busy = { ...aUsage(64), cpu: { cpus: 2, seconds: 33 } };
    expect(wordsOf(plotOf('CPU', aUsage(60), aUsage(62), busy))).toBe(
      'CPU. busy: 1.00 core now, 0.50 cores to 1.00 core in the last 5 minutes.',
    );
    expect(wordsOf(plotOf('Disks', aUsage(60), aUsage(62)))).toBe(
      'Disks. read: 2.0 MiB/s now, 2.0 MiB/s to 2.0 MiB/s in the last 5 minutes. ' +
        'written: 1.0 MiB/s now, 1.0 MiB/s to 1.0 MiB/s in the last 5 minutes.',
    );
    expect(wordsOf(plotOf('Network'))).toBe('Network. in: no figures yet. out: no figures yet.');
    const again = takenAt(64, aUsage(1));
    expect(wordsOf(plotOf('CPU', aUsage(60), aUsage(62), again))).toContain('busy: not known now');
  });

  test('of a guest that tells nothing any more say so, and end where its figures do', () => {
    const history = after(aUsage(60), aUsage(62));
    const last = history.samples[1]!.atMs;
    const cpuAt = (nowMs: number) => plotsOf(history, nowMs)[0]!;
    const minuteLater = cpuAt(last + 60_000);
    expect(wordsOf(minuteLater)).toBe(
      'CPU. busy: not known now, 0.50 cores to 0.50 cores in the last 5 minutes.',
    );
    expect(nowOf(minuteLater, minuteLater.series[0]!)).toBe('–');
    const shape = { width: 300, height: 100 };
    expect(pathOf(minuteLater, minuteLater.series[0]!.values, shape)).toBe('M240 75h0');
    expect(wordsOf(cpuAt(last + windowMs))).toBe('CPU. busy: not known now.');
    const current = plotsOf(history)[0]!;
    expect(nowOf(current, current.series[0]!)).toBe('0.50 cores');
  });

  test('reach to what the VM has, and tell what the guest uses where it says so', () => {
    expect(plotOf('CPU', aUsage(60)).ceiling).toBe(2);
    expect(plotOf('Memory', aUsage(60))).toMatchObject({
      ceiling: 2 ** 31,
      series: [{ name: 'in the guest' }],
    });
    const held = { totalBytes: 2 ** 30, residentBytes: 2 ** 31 };
    expect(plotOf('Memory', aUsage(60, { memory: held }))).toMatchObject({
      ceiling: 2 ** 31,
      series: [{ name: 'on the node', values: [2 ** 31] }],
    });
  });

  test('are lines that break where nothing is known', () => {
    const timesMs = [0, 2_000, 4_000, 6_000, 100_000].map((at) => windowMs + at);
    const plot = { timesMs, endMs: windowMs + 100_000, ceiling: 10 };
    const shape = { width: 300, height: 100 };
    const line = pathOf(plot, [0, 10, undefined, 5, 20], shape);
    expect(line).toBe('M200 100h0L202 0M206 50h0M300 0h0');
    expect(pathOf(plot, [], shape)).toBe('');
  });
});
