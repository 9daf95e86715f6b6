import { beforeEach, expect, test } from 'vitest';
import { createAgentReader } from '../../../../src/runner/metrics/agentfigures.ts';

const wall = 1_700_000_000_000;
let now = 0;
let asked: string[] = [];
/** What the guest answers; undefined where it has no agent. */
let says: (() => Promise<unknown>) | undefined;

const root = (used: number) => async () => [{ mountpoint: '/', 'total-bytes': 100, 'used-bytes': used }];
const refuses = () => Promise.reject(new Error('guest agent: disabled'));

function aMachine(): never {
  const agent = {
    async execute(command: string) {
      asked.push(command);
      if (says === undefined) throw new Error('the guest agent does not answer');
      return says();
    },
    isAnswering: async () => says !== undefined,
  };
  return { agent } as never;
}

/** A random number of 0.5: the second question comes five scrapes after the first. */
function aReader() {
  const clocks = { monotonicMs: () => now, wallMs: () => wall + now, random: () => 0.5 };
  return createAgentReader(clocks);
}

/** A scrape, and all that it has set going. */
async function scrape(reader: ReturnType<typeof aReader>, machine: never, everyMs = 30_000) {
  const figures = reader.figures(machine);
  await new Promise(setImmediate);
  now += everyMs;
  return figures;
}

beforeEach(() => {
  now = 0;
  asked = [];
  says = root(40);
});

test('a scrape does not wait for the guest: it has what the agent said before, and when', async () => {
  const [reader, machine] = [aReader(), aMachine()];
  expect(await scrape(reader, machine)).toBeUndefined();
  const fileSystems = { root: { size: 100, used: 40 }, saidAt: wall / 1000 };
  expect(await scrape(reader, machine)).toEqual({ agentUp: true, fileSystems });
});

test('the agent is asked one question in ten scrapes; the second comes at random, so that guests do not answer all together', async () => {
  const [reader, machine] = [aReader(), aMachine()];
  const at: number[] = [];
  for (let i = 0; i < 40; i += 1) {
    const before = asked.length;
    await scrape(reader, machine);
    if (asked.length > before) at.push(i);
  }
  expect(at).toEqual([0, 5, 15, 25, 35]);
  expect(new Set(asked)).toEqual(new Set(['guest-get-fsinfo']));
});

test.each([
  [10, [0, 5, 15, 25, 35]],
  [60, [0, 3, 8, 13, 18, 23, 28, 33, 38]],
  [120, [0, 2, 5, 8, 11, 14, 17, 20, 23, 26, 29, 32, 35, 38]],
  [300, Array.from({ length: 40 }, (_, i) => i)],
])(
  'a guest that is scraped every %i s is asked in time: what it said is never too old',
  async (seconds, expected) => {
    const [reader, machine] = [aReader(), aMachine()];
    const at: number[] = [];
    for (let i = 0; i < 40; i += 1) {
      const before = asked.length;
      const figures = await scrape(reader, machine, seconds * 1000);
      if (asked.length > before) at.push(i);
      if (i > 0) expect(figures).toMatchObject({ fileSystems: { root: { used: 40 } } });
    }
    expect(at).toEqual(expected);
  },
);

test('a guest that is still to answer is not asked again meanwhile', async () => {
  const [reader, machine] = [aReader(), aMachine()];
  says = () => new Promise(() => undefined);
  for (let i = 0; i < 30; i += 1) expect(await scrape(reader, machine)).toBeUndefined();
  expect(asked).toHaveLength(1);
});

test('a guest without an agent is asked after one, two, four, eight scrapes, then after ten', async () => {
  const [reader, machine] = [aReader(), aMachine()];
  says = undefined;
  const at: number[] = [];
  for (let i = 0; i < 40; i += 1) {
    const before = asked.length;
    await scrape(reader, machine);
    if (asked.length > before) at.push(i);
  }
  expect(at).toEqual([0, 1, 3, 7, 15, 25, 35]);
  expect(reader.figures(machine)).toEqual({ agentUp: false, fileSystems: undefined });
});

test('an agent that refuses to tell of file systems is there', async () => {
  const [reader, machine] = [aReader(), aMachine()];
  says = refuses;
  await scrape(reader, machine);
  expect(await scrape(reader, machine)).toEqual({ agentUp: true, fileSystems: undefined });
});

test.each([
  ['is gone', undefined, false],
  ['refuses, as while file systems are frozen', refuses, true],
])(
  'what an agent said that %s afterwards stays, with its age, for a quarter of an hour',
  async (_what, answer, agentUp) => {
    const [reader, machine] = [aReader(), aMachine()];
    await scrape(reader, machine);
    says = answer;
    const seen = [];
    for (let i = 0; i < 32; i += 1) seen.push(await scrape(reader, machine));
    const fileSystems = { root: { size: 100, used: 40 }, saidAt: wall / 1000 };
    expect(seen.slice(0, 5)).toEqual(Array.from({ length: 5 }, () => ({ agentUp: true, fileSystems })));
    expect(seen[6]).toEqual({ agentUp, fileSystems });
    expect(seen[29]).toEqual({ agentUp, fileSystems });
    expect(seen[30]).toEqual({ agentUp, fileSystems: undefined });
  },
);

test('what the guest said before QEMU was started again is forgotten', async () => {
  const reader = aReader();
  await scrape(reader, aMachine());
  const next = aMachine();
  says = root(70);
  expect(await scrape(reader, next)).toBeUndefined();
  expect(await scrape(reader, next)).toMatchObject({ fileSystems: { root: { used: 70 } } });
});

test('a file system that is gone from a data disk is told of no longer, and that of the root is', async () => {
  const [reader, machine] = [aReader(), aMachine()];
  const on = (slot: number) => [{ 'bus-type': 'virtio', 'pci-controller': { slot } }];
  const all = [
    { mountpoint: '/', 'total-bytes': 100, 'used-bytes': 40, disk: on(1) },
    { mountpoint: '/srv', 'total-bytes': 10, 'used-bytes': 9, disk: on(2) },
  ];
  says = async () => all;
  await scrape(reader, machine);
  expect(await scrape(reader, machine)).toMatchObject({ fileSystems: { data: { size: 10, used: 9 } } });
  says = async () => all.slice(0, 1);
  for (let i = 0; i < 10; i += 1) await scrape(reader, machine);
  expect(reader.figures(machine)?.fileSystems).not.toHaveProperty('data');
  expect(reader.figures(machine)).toMatchObject({ fileSystems: { root: { used: 40 } } });
});
