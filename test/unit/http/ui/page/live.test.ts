import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { follow, type LiveState } from '../../../../../src/http/ui/page/live.ts';

/** A stream that says what the test says. */
class Stream extends EventTarget {
  readonly url: string;
  isClosed = false;

  constructor(url: string) {
    super();
    this.url = url;
    streams.push(this);
  }

  close(): void {
    this.isClosed = true;
  }

  say(event: string, data: object = {}): void {
    this.dispatchEvent(new MessageEvent(event, { data: JSON.stringify(data) }));
  }
}

let streams: Stream[];
let told: LiveState[];
let end: () => void;

const vmsOf = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, index) => ({ namespace: 'team', name: `vm-${from + index}` }));
const state = () => told.at(-1);
const stream = (): Stream => {
  const last = streams.at(-1);
  if (last === undefined) throw new Error('no stream was opened');
  return last;
};

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal('EventSource', Stream);
  streams = [];
  told = [];
  end = follow(
    'team',
    (live) => told.push(live),
    async () => true,
  );
});
afterEach(() => {
  end();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test('a first state that takes minutes is shown when all of it has come', async () => {
  expect(stream().url).toBe('/ui/live?parts=true&namespace=team');
  await vi.advanceTimersByTimeAsync(40_000);
  stream().say('open');
  for (let part = 0; part < 5; part += 1) {
    await vi.advanceTimersByTimeAsync(40_000);
    stream().say('part', { vms: vmsOf(part * 10, part * 10 + 10) });
    expect(state()?.isKnown).toBe(false);
  }
  stream().say('snapshot', { vms: vmsOf(50, 51), images: [] });
  expect(streams.length).toBe(1);
  expect(state()?.state).toBe('live');
  expect([...(state()?.items.vms.keys() ?? [])]).toEqual(vmsOf(0, 51).map(({ name }) => `team/${name}`));
  expect(state()?.kinds).toEqual(new Set(['vms', 'images']));
});

test('what came of a stream that broke off counts for nothing', async () => {
  stream().say('part', { vms: vmsOf(0, 10) });
  stream().say('error');
  await vi.advanceTimersByTimeAsync(1_000);
  expect(streams.length).toBe(2);
  stream().say('snapshot', { vms: vmsOf(0, 1) });
  expect(state()?.items.vms.size).toBe(1);
});

test('a state that is told anew takes the place of the one before', () => {
  stream().say('part', { vms: vmsOf(0, 10) });
  stream().say('snapshot', { vms: [] });
  stream().say('part', { vms: vmsOf(0, 2) });
  stream().say('snapshot', { vms: vmsOf(2, 3) });
  expect(state()?.items.vms.size).toBe(3);
});

test('a stream that is silent is lost', async () => {
  stream().say('open');
  await vi.advanceTimersByTimeAsync(46_000);
  expect(state()?.state).toBe('lost');
  expect(streams[0]?.isClosed).toBe(true);
});
