import type { VmUsage } from '../../../api/vmusage.ts';

/** What plots show: the time before the newest figures. */
export const windowMs = 5 * 60_000;
/** A rate over a longer time, in which nobody looked, says nothing of now. */
const longestGapSeconds = 30;

/** What a VM used at a time; rates are since the figures before. What is not known is undefined. */
export interface Sample {
  readonly timestamp: string;
  readonly atMs: number;
  readonly cores: number | undefined;
  /** Bytes, as the guest says; undefined where it does not. */
  readonly used: number | undefined;
  /** Bytes of the node's memory. */
  readonly resident: number | undefined;
  /** These are bytes a second. */
  readonly read: number | undefined;
  readonly written: number | undefined;
  readonly received: number | undefined;
  readonly sent: number | undefined;
}

/** The figures that the page has had. */
export interface History {
  readonly last: VmUsage | undefined;
  /** Oldest first. */
  readonly samples: readonly Sample[];
}

export const noHistory: History = { last: undefined, samples: [] };

/** The growth of a counter a second; undefined where it began anew meanwhile. */
export function rateOf(
  before: number | undefined,
  after: number | undefined,
  seconds: number | undefined,
): number | undefined {
  if (before === undefined || after === undefined || seconds === undefined || after < before)
    return undefined;
  return (after - before) / seconds;
}

/** Seconds between two figures of one life of the guest; undefined where there is no rate of them. */
function secondsBetween(before: VmUsage | undefined, after: VmUsage): number | undefined {
  const seconds = after.uptimeSeconds - (before?.uptimeSeconds ?? Infinity);
  return seconds > 0 && seconds <= longestGapSeconds ? seconds : undefined;
}

function sampleOf(before: VmUsage | undefined, after: VmUsage): Sample {
  const seconds = secondsBetween(before, after);
  const rate = (counter: (usage: VmUsage) => number | undefined): number | undefined =>
    rateOf(before && counter(before), counter(after), seconds);
  const ofDisks =
    (key: 'readBytes' | 'writtenBytes') =>
    ({ disks }: VmUsage): number | undefined =>
      disks.length === 0 ? undefined : disks.reduce((sum, disk) => sum + disk[key], 0);
  return {
    timestamp: after.timestamp,
    atMs: Date.parse(after.timestamp),
    cores: rate(({ cpu }) => cpu.seconds),
    used: after.memory.usedBytes,
    resident: after.memory.residentBytes,
    read: rate(ofDisks('readBytes')),
    written: rate(ofDisks('writtenBytes')),
    received: rate(({ network }) => network?.receivedBytes),
    sent: rate(({ network }) => network?.sentBytes),
  };
}

/** The history with these figures; the same where they have been had. */
export function withUsage(history: History, usage: VmUsage): History {
  const { last, samples } = history;
  if (last?.timestamp === usage.timestamp) return history;
  const sample = sampleOf(last, usage);
  const isShown = ({ atMs }: Sample): boolean => atMs <= sample.atMs && atMs > sample.atMs - windowMs;
  return { last: usage, samples: [...samples.filter(isShown), sample] };
}

export interface Series {
  readonly name: string;
  readonly values: readonly (number | undefined)[];
}

export interface Plot {
  readonly title: string;
  /** A value in words, with its unit. */
  readonly text: (value: number) => string;
  /** The value at the top; 0 is at the bottom. */
  readonly ceiling: number;
  readonly timesMs: readonly number[];
  /** The time at the right end; the left end is `windowMs` before it. */
  readonly endMs: number;
  /** Whether the newest figures are of now. */
  readonly isCurrent: boolean;
  readonly series: readonly Series[];
}

const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'] as const;

export function bytesText(bytes: number): string {
  let power = 0;
  // 1023.7 KiB would be 1024 KiB.
  while (power < units.length - 1 && Math.round(bytes / 1024 ** power) >= 1024) power += 1;
  const value = bytes / 1024 ** power;
  return `${value.toFixed(power > 0 && value < 10 ? 1 : 0)} ${units[power] ?? ''}`;
}

export const speedText = (bytes: number): string => `${bytesText(bytes)}/s`;
export const coresText = (cores: number): string => `${cores.toFixed(2)} ${cores === 1 ? 'core' : 'cores'}`;

/** The least 1, 2, 5, 10, … 500 of a unit that is no less, from 1 KiB on: the top of a plot stays while values differ little. */
export function ceilingOf(bytes: number): number {
  let unit = 1024;
  while (bytes > 512 * unit) unit *= 1024;
  const steps = [1, 2, 5, 10, 20, 50, 100, 200, 512];
  return unit * (steps.find((step) => bytes <= step * unit) ?? 512);
}

type Key = Exclude<keyof Sample, 'timestamp' | 'atMs'>;

/**
 * The plots of what the page knows.
 *
 * @param nowMs - the time, by the clock of the figures, where the newest ones are not of now; lines end before the right end then
 */
export function plotsOf({ last, samples: known }: History, nowMs?: number): Plot[] {
  const endMs = nowMs ?? known.at(-1)?.atMs ?? 0;
  const samples = known.filter(({ atMs }) => atMs > endMs - windowMs);
  const when = { timesMs: samples.map(({ atMs }) => atMs), endMs, isCurrent: nowMs === undefined };
  const plot = (
    title: string,
    text: Plot['text'],
    names: readonly (readonly [Key, string])[],
    ceiling: (largest: number) => number,
  ): Plot => {
    const series = names.map(([key, name]) => ({ name, values: samples.map((sample) => sample[key]) }));
    const largest = Math.max(0, ...series.flatMap(({ values }) => values.map((value = 0) => value)));
    return { title, text, series, ceiling: ceiling(largest), ...when };
  };
  const isToldByGuest = samples.some(({ used }) => used !== undefined);
  const cpus = last?.cpu.cpus ?? 1;
  const total = last?.memory.totalBytes ?? 2 ** 30;
  return [
    plot('CPU', coresText, [['cores', 'busy']], (largest) => Math.max(largest, cpus)),
    plot(
      'Memory',
      bytesText,
      [isToldByGuest ? ['used', 'in the guest'] : ['resident', 'on the node']],
      (largest) => Math.max(largest, total),
    ),
    plot(
      'Disks',
      speedText,
      [
        ['read', 'read'],
        ['written', 'written'],
      ],
      ceilingOf,
    ),
    plot(
      'Network',
      speedText,
      [
        ['received', 'in'],
        ['sent', 'out'],
      ],
      ceilingOf,
    ),
  ];
}

/** The value of a series now. */
function valueNow({ isCurrent }: Plot, { values }: Series): number | undefined {
  return isCurrent ? values.at(-1) : undefined;
}

/** What a series is now, for who sees the plot; a dash where that is not known. */
export function nowOf(plot: Plot, series: Series): string {
  const now = valueNow(plot, series);
  return now === undefined ? '–' : plot.text(now);
}

/** A series in words: what it is now, and between what it was. */
function seriesWords(plot: Plot, series: Series): string {
  const { name, values } = series;
  const { text, isCurrent } = plot;
  const known = values.filter((value) => value !== undefined);
  if (known.length === 0) return `${name}: ${isCurrent ? 'no figures yet' : 'not known now'}`;
  const now = valueNow(plot, series);
  const range = `${text(Math.min(...known))} to ${text(Math.max(...known))} in the last 5 minutes`;
  return `${name}: ${now === undefined ? 'not known' : text(now)} now, ${range}`;
}

/** What a plot shows, for who does not see it. */
export function wordsOf(plot: Plot): string {
  return `${plot.title}. ${plot.series.map((one) => seriesWords(plot, one)).join('. ')}.`;
}

/** The line of a series, as `d` of an SVG path; broken where something is not known. */
export function pathOf(
  { timesMs, endMs, ceiling }: Pick<Plot, 'timesMs' | 'endMs' | 'ceiling'>,
  values: Series['values'],
  { width, height }: { readonly width: number; readonly height: number },
): string {
  const round = (value: number): number => Math.round(value * 10) / 10;
  let before = -Infinity;
  return values
    .map((value, at) => {
      const time = timesMs[at] ?? endMs;
      if (value === undefined) {
        before = -Infinity;
        return '';
      }
      const x = round(width * (1 - (endMs - time) / windowMs));
      const y = round(height * (1 - Math.min(value / ceiling, 1)));
      const goesOn = time - before <= longestGapSeconds * 1000;
      before = time;
      // A point of its own is a line of no length, which round ends make visible.
      return goesOn ? `L${x} ${y}` : `M${x} ${y}h0`;
    })
    .join('');
}
