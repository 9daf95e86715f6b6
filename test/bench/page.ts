import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { chromium, type Page } from 'playwright-core';
import { Agent, request } from 'undici';
import { annotations, namespaces as names, objectNames } from '../../src/api/meta.ts';
import { namespaces, secrets, vms } from '../../src/api/resources.ts';
import { createClient, type RootClient } from '../../src/kube/client.ts';
import { loadKubeconfig } from '../../src/kube/connection.ts';
import { createControlKey } from '../../src/runnerapi/token.ts';
import { flags } from '../support/browser.ts';
import { ownControlPlane, temporaryFolder } from '../support/controlplane.ts';
import { installDefinitions } from '../support/definitions.ts';
import { type BenchApi, startBenchApi } from './apiprocess.ts';
import { type Benchmark, median, type Outcome, percentile, rounded, size } from './figures.ts';
import type { PageLoad, PageLoadResult, PageWrites } from './pageload.ts';
import { usageOf } from './operatorprocess.ts';
import { inParallel } from '../support/parallel.ts';
import { benchVm } from './simulated.ts';

/** What many open pages cost the api while VMs change, how late the change is there, and whether a real browser keeps up. */
export const benchmark: Benchmark = {
  about:
    'open web pages on many VMs that change: memory and CPU of the api, age of a change, a browser that scrolls',
  settings: {
    SVC3_BENCH_VMS: '5000 VMs in the namespace; of more than 200 a page is told in parts',
    SVC3_BENCH_PAGES: '200 open pages',
    SVC3_BENCH_CHANGES: '50 changes a second',
    SVC3_BENCH_SECONDS: '60 seconds',
  },
  measure,
};

const namespace = 'svc3-default';

interface Reached {
  readonly origin: string;
  readonly caPem: string;
  readonly cookie: string;
}

async function signIn(api: BenchApi, client: RootClient, token: string): Promise<Reached> {
  const { data } = await client.get(secrets, objectNames.apiTlsSecret, names.system);
  const caPem = Buffer.from(data?.['tls.crt'] ?? '', 'base64').toString('utf8');
  const origin = `https://localhost:${api.port}`;
  const dispatcher = new Agent({ connect: { ca: caPem } });
  const { headers, body } = await request(`${origin}/ui/session`, {
    method: 'POST',
    dispatcher,
    headers: { origin, 'sec-fetch-site': 'same-origin', 'content-type': 'application/json' },
    body: JSON.stringify({ token }),
  });
  await body.dump();
  await dispatcher.close();
  return { origin, caPem, cookie: String(headers['set-cookie']).split(';', 1)[0] ?? '' };
}

interface OpenPages {
  readonly child: ChildProcess;
  result(writes: PageWrites): Promise<PageLoadResult>;
}

/** Resolves when every page has everything. */
async function openPages(load: PageLoad): Promise<OpenPages> {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'pageload.ts')], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { PATH: process.env['PATH'] },
  });
  const lines = createInterface({ input: child.stdout });
  const next = async () => {
    const [line] = (await Promise.race([
      once(lines, 'line'),
      once(child, 'exit').then(() => Promise.reject(new Error('the open pages ended'))),
    ])) as [string];
    return line;
  };
  child.stdin.write(`${JSON.stringify(load)}\n`);
  await next();
  return {
    child,
    async result(writes) {
      const line = next();
      child.stdin.write(`${JSON.stringify(writes)}\n`);
      return JSON.parse(await line) as PageLoadResult;
    },
  };
}

/** Changes a VM after the other at this rate, each by its number. */
async function change(
  client: RootClient,
  count: number,
  perSecond: number,
  seconds: number,
): Promise<PageWrites> {
  const began = performance.now();
  const asked: number[] = [];
  const answered: number[] = [];
  const running: Promise<void>[] = [];
  for (let index = 0; index < perSecond * seconds; index += 1) {
    await delay(Math.max(0, began + (index * 1000) / perSecond - performance.now()));
    asked.push(Date.now());
    running.push(
      changeOne(client, `vm-${(index * 7) % count}`, index).then(() => void (answered[index] = Date.now())),
    );
  }
  await Promise.all(running);
  return { asked, answered };
}

async function changeOne(client: RootClient, name: string, index: number): Promise<void> {
  const metadata = { annotations: { [annotations.owner]: String(index) } };
  await client.patch(vms, { namespace, name }, { type: 'merge', body: { metadata } });
}

const tookOf = ({ asked, answered }: PageWrites) => answered.map((at, index) => at - (asked[index] ?? at));

/** What a browser measures of itself while it scrolls; times in milliseconds. */
interface Scrolled {
  readonly shownMs: number;
  readonly frames: readonly number[];
  readonly longTasks: readonly number[];
}

const scroll = `new Promise((done) => {
  const frames = [];
  const longTasks = [];
  new PerformanceObserver((list) => longTasks.push(...list.getEntries().map(({ duration }) => duration)))
    .observe({ type: 'longtask' });
  const began = performance.now();
  let last = began;
  const step = (now) => {
    frames.push(now - last);
    last = now;
    scrollBy(0, 120);
    if (now - began < 10000) requestAnimationFrame(step);
    else done({ frames, longTasks });
  };
  requestAnimationFrame(step);
})`;

async function visit(
  { origin }: Reached,
  token: string,
  count: number,
): Promise<{ page: Page; shownMs: number; close(): Promise<void> }> {
  const browser = await chromium.launchPersistentContext(join(temporaryFolder(), 'chromium'), {
    executablePath: '/usr/bin/chromium',
    args: [...flags],
    ignoreHTTPSErrors: true,
    viewport: { width: 1280, height: 900 },
  });
  const page = await browser.newPage();
  await page.goto(`${origin}/ui`);
  await page.getByLabel('Token').fill(token);
  const began = performance.now();
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByText(`${count} of ${count}`).waitFor();
  await page.getByRole('link', { name: 'vm-0', exact: true }).waitFor();
  return { page, shownMs: performance.now() - began, close: () => browser.close() };
}

async function measure(): Promise<Outcome> {
  const count = size('SVC3_BENCH_VMS', 5000);
  const pages = size('SVC3_BENCH_PAGES', 200);
  const perSecond = size('SVC3_BENCH_CHANGES', 50);
  const seconds = size('SVC3_BENCH_SECONDS', 60);
  const plane = await ownControlPlane({ components: [] });
  const client = createClient(await loadKubeconfig(plane.kubeconfigPath), { userAgent: 'bench' });
  const ends: (() => Promise<unknown>)[] = [() => plane.remove(), () => client.close()];
  try {
    await installDefinitions(client);
    for (const name of [names.system, namespace]) await client.create(namespaces, { metadata: { name } });
    const current = createControlKey().privateKey.export({ type: 'pkcs8', format: 'pem' });
    await client.create(secrets, {
      metadata: { name: objectNames.controlKeySecret, namespace: names.system },
      stringData: { current },
    });
    const vmNames = Array.from({ length: count }, (_, index) => `vm-${index}`);
    await inParallel(vmNames, 16, (name) => {
      const vm = benchVm(name);
      return client.create(vms, { ...vm, metadata: { name, namespace } });
    });
    const api = await startBenchApi(plane.kubeconfigPath, plane.dir);
    ends.push(() => api.stop());
    const reached = await signIn(api, client, plane.adminToken);
    const opening = performance.now();
    const open = await openPages({ ...reached, pages, namespace });
    ends.push(() => Promise.resolve(open.child.kill()));
    const openedMs = performance.now() - opening;
    const opened = usageOf(api.pid);
    const began = performance.now();
    const writes = await change(client, count, perSecond, seconds);
    const took = performance.now() - began;
    const after = usageOf(api.pid);
    const { sinceAsked, sinceAnswered, ended, snapshotBytes, parts } = await open.result(writes);
    const calm = await browse(reached, plane.adminToken, count);
    const [busy] = await Promise.all([
      browse(reached, plane.adminToken, count),
      change(client, count, perSecond, 20),
    ]);
    return outcomeOf();

    function outcomeOf(): Outcome {
      const cores = (after.cpuMs - opened.cpuMs) / took;
      const rowOf = (what: string, { shownMs, frames, longTasks }: Scrolled): object => ({
        browser: what,
        'first VMs ms': Math.round(shownMs),
        frames: frames.length,
        'P50 ms': rounded(median(frames), 1),
        'P95 ms': rounded(percentile(frames, 0.95), 1),
        'worst ms': rounded(Math.max(...frames), 1),
        'long tasks': longTasks.length,
        'longest ms': Math.round(Math.max(0, ...longTasks)),
      });
      return {
        rows: [
          {
            pages,
            VMs: count,
            changes: writes.asked.length,
            'all open ms': Math.round(openedMs),
            'snapshot KB': Math.round(snapshotBytes / 1024),
            'write P95 ms': percentile(tookOf(writes), 0.95),
            'answered → page P50 ms': median(sinceAnswered),
            P95: percentile(sinceAnswered, 0.95),
            'RSS MB': Math.round(after.rssMB),
          },
          rowOf('at rest', calm),
          rowOf('with changes', busy),
        ],
        figures: [
          { what: 'RSS of the api at its peak, MB', value: after.peakRssMB, atMost: 300 },
          { what: 'CPU of the api, cores', value: cores, atMost: 1 },
          {
            what: 'request to kube-apiserver → change at the page, P95 ms',
            value: percentile(sinceAsked, 0.95),
            atMost: 1000,
          },
          {
            what: 'changes that came, of those that should',
            value: sinceAsked.length / (writes.asked.length * pages),
            atLeast: 0.99,
          },
          { what: 'streams that ended', value: ended, atMost: 0 },
          { what: 'events `part` before a snapshot, at the page with the fewest', value: parts, atLeast: 1 },
          { what: 'first VMs in a browser, ms', value: calm.shownMs, atMost: 3000 },
          { what: 'frames while scrolling, P95 ms', value: percentile(calm.frames, 0.95), atMost: 50 },
          { what: 'the same with changes, P95 ms', value: percentile(busy.frames, 0.95), atMost: 100 },
        ],
      };
    }
  } finally {
    for (const end of ends.reverse()) await end().catch(() => undefined);
  }
}

/** A real browser: until it shows VMs, and ten seconds of scrolling. */
async function browse(reached: Reached, token: string, count: number): Promise<Scrolled> {
  const { page, shownMs, close } = await visit(reached, token, count);
  try {
    return { shownMs, ...(await page.evaluate<Omit<Scrolled, 'shownMs'>>(scroll)) };
  } finally {
    await close();
  }
}
