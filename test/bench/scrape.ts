import { mkdir, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Agent, request } from 'undici';
import { freePorts } from '../../src/localcluster/controlplane/ports.ts';
import { temporaryFolder } from '../support/controlplane.ts';
import { testGuestDisk } from '../support/guest.ts';
import { startBareProcess } from './bareprocess.ts';
import { type Benchmark, type Outcome, rounded, size } from './figures.ts';
import { cpuClock, type LocalRunner, startLocalRunner } from './localrunner.ts';

/** One real guest; what its runner and QEMU take is counted while they are asked and while a bare server of Node is. */
export const benchmark: Benchmark = {
  about: 'CPU that a scrape of the metrics of one VM takes, of its runner and its QEMU',
  settings: { SVC3_BENCH_SCRAPES: '60 scrapes, and as many of a bare server' },
  measure,
};

/** What is collected is kept for a second. */
const everyMs = 1_100;
const scrapesPerTurn = 15;

const names = ['runner', 'QEMU', 'bare'] as const;

async function measure(): Promise<Outcome> {
  const image = temporaryFolder();
  await mkdir(join(image, 'disk'));
  await symlink(await testGuestDisk(), join(image, 'disk/disk.qcow2'));
  const [metricsPort = 0] = await freePorts(1);
  const runner = await startLocalRunner(image, { metricsPort });
  // One connection to each that stays, as a Prometheus has.
  const dispatcher = new Agent({ connect: { rejectUnauthorized: false }, connections: 1 });
  try {
    await runner.reaches({ powerState: 'Running', guestReachable: true });
    return await measured(runner, { dispatcher, url: `https://127.0.0.1:${metricsPort}/metrics` });
  } finally {
    await dispatcher.destroy();
    await runner.end();
  }
}

interface Scraping {
  readonly dispatcher: Agent;
  readonly url: string;
}

async function measured(runner: LocalRunner, { dispatcher, url }: Scraping): Promise<Outcome> {
  const scrape = async (from: string): Promise<string> => {
    const headers = { authorization: `Bearer ${runner.metricsToken}` };
    const { statusCode, body } = await request(from, { dispatcher, headers });
    const text = await body.text();
    if (statusCode !== 200) throw new Error(`the metrics are refused: ${statusCode} ${text}`);
    return text;
  };
  let text = await scrape(url);
  const bare = await startBareProcess('barescrape.ts', { text });
  const bareUrl = `https://127.0.0.1:${bare.said}/metrics`;
  const clocks = {
    runner: cpuClock(runner.pid),
    QEMU: cpuClock(runner.qemuPid()),
    bare: cpuClock(bare.pid),
  };
  const taken = { runner: [0, 0], QEMU: [0, 0], bare: [0, 0] } satisfies Record<string, [number, number]>;
  const turns = Math.max(2, Math.ceil(size('SVC3_BENCH_SCRAPES', 60) / scrapesPerTurn));
  try {
    await scrape(bareUrl);
    // What a guest does when it has just started is over.
    await delay(10_000);
    for (let turn = 0; turn < 2 * turns; turn += 1) {
      // a b b a …: what drifts falls on both alike.
      const side = [0, 3].includes(turn % 4) ? 0 : 1;
      const before = names.map((name) => clocks[name]());
      for (let i = 0; i < scrapesPerTurn; i += 1) {
        const due = delay(everyMs);
        if (side === 0) text = await scrape(url);
        else await scrape(bareUrl);
        await due;
      }
      for (const [at, name] of names.entries()) taken[name][side] += clocks[name]() - (before[at] ?? 0);
    }
  } finally {
    bare.stop();
  }
  const scrapes = turns * scrapesPerTurn;
  const perScrape = (name: (typeof names)[number]) => {
    const [ours, bares] = taken[name];
    return (name === 'bare' ? bares - ours : ours - bares) / scrapes;
  };
  const ours = perScrape('runner') + perScrape('QEMU');
  return {
    rows: names.map((name) => ({
      process: name,
      scrapes,
      'CPU while the runner is asked, ms': taken[name][0],
      'CPU while the bare server is, ms': taken[name][1],
      'a scrape, ms': rounded(perScrape(name), 2),
    })),
    figures: [
      { what: 'CPU of a scrape, ms', value: rounded(ours, 2), atMost: 1 },
      { what: 'CPU of a scrape beside one of the bare server', value: rounded(ours / perScrape('bare'), 2) },
      {
        what: 'CPU of a scrape in the runner beside one of the bare server',
        value: rounded(perScrape('runner') / perScrape('bare'), 2),
      },
      {
        what: 'series of a VM',
        value: text.split('\n').filter((line) => line.startsWith('svc3_')).length,
        atMost: 60,
      },
    ],
  };
}
