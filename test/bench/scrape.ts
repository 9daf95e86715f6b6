import { mkdir, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Agent, request } from 'undici';
import { freePorts } from '../../src/localcluster/controlplane/ports.ts';
import { temporaryFolder } from '../support/controlplane.ts';
import { testGuestDisk } from '../support/guest.ts';
import { type Benchmark, type Outcome, rounded, size } from './figures.ts';
import { cpuMs, type LocalRunner, startLocalRunner } from './localrunner.ts';

/** One real guest; what its runner and QEMU take is counted with and without somebody who asks. */
export const benchmark: Benchmark = {
  about: 'CPU that a scrape of the metrics of one VM takes, of its runner and its QEMU',
  settings: { SVC3_BENCH_SCRAPES: '60 scrapes, and as long without' },
  measure,
};

/** What is collected is kept for a second. */
const everyMs = 1_100;
const scrapesPerTurn = 15;

const names = ['runner', 'QEMU'] as const;

async function measure(): Promise<Outcome> {
  const image = temporaryFolder();
  await mkdir(join(image, 'disk'));
  await symlink(await testGuestDisk(), join(image, 'disk/disk.qcow2'));
  const [metricsPort = 0] = await freePorts(1);
  const runner = await startLocalRunner(image, { metricsPort });
  try {
    await runner.reaches({ powerState: 'Running', guestReachable: true });
    return await measured(runner, `https://127.0.0.1:${metricsPort}/metrics`);
  } finally {
    await runner.end();
  }
}

async function measured(runner: LocalRunner, url: string): Promise<Outcome> {
  // One connection that stays, as a Prometheus has.
  const dispatcher = new Agent({ connect: { rejectUnauthorized: false }, connections: 1 });
  const headers = { authorization: `Bearer ${runner.metricsToken}` };
  const scrape = async (): Promise<number> => {
    const { statusCode, body } = await request(url, { dispatcher, headers });
    const text = await body.text();
    if (statusCode !== 200) throw new Error(`the metrics are refused: ${statusCode} ${text}`);
    return text.split('\n').filter((line) => line.startsWith('svc3_')).length;
  };
  const processes = { runner: runner.pid, QEMU: runner.qemuPid() };
  const taken = { runner: { asked: 0, left: 0 }, QEMU: { asked: 0, left: 0 } };
  let series = 0;
  const turns = Math.max(2, Math.ceil(size('SVC3_BENCH_SCRAPES', 60) / scrapesPerTurn));
  try {
    await scrape();
    // What a guest does when it has just started is over.
    await delay(10_000);
    for (let turn = 0; turn < 2 * turns; turn += 1) {
      // a b b a …: what drifts falls on both alike.
      const isAsked = [0, 3].includes(turn % 4);
      const before = { runner: cpuMs(processes.runner), QEMU: cpuMs(processes.QEMU) };
      for (let i = 0; i < scrapesPerTurn; i += 1) {
        const due = delay(everyMs);
        if (isAsked) series = await scrape();
        await due;
      }
      for (const name of names)
        taken[name][isAsked ? 'asked' : 'left'] += cpuMs(processes[name]) - before[name];
    }
  } finally {
    await dispatcher.destroy();
  }
  const scrapes = turns * scrapesPerTurn;
  const perScrape = (name: (typeof names)[number]) => (taken[name].asked - taken[name].left) / scrapes;
  return {
    rows: names.map((name) => ({
      process: name,
      scrapes,
      'CPU with them, ms': taken[name].asked,
      'CPU without, ms': taken[name].left,
      'a scrape, ms': rounded(perScrape(name), 2),
    })),
    figures: [
      { what: 'CPU of a scrape, ms', value: rounded(perScrape('runner') + perScrape('QEMU'), 2), atMost: 1 },
      { what: 'series of a VM', value: series, atMost: 60 },
    ],
  };
}
