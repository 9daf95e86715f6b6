import { createWriteStream } from 'node:fs';
import { mkdir, readFile, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { memoryParts } from '../../src/api/memory.ts';
import type { RunnerSpecInput } from '../../src/api/runner.ts';
import type { WorkSpec } from '../../src/api/worker.ts';
import { createRegistryClient, type RegistryClient } from '../../src/registry/client.ts';
import { pushMemory } from '../../src/registry/memorylayer.ts';
import { downloadExport } from '../../src/runnerapi/download.ts';
import { createProgress } from '../../src/worker/progress.ts';
import { work } from '../../src/worker/work.ts';
import { temporaryFolder } from '../support/controlplane.ts';
import { testGuestDisk } from '../support/guest.ts';
import { startRegistry, type TestRegistry } from '../support/registry.ts';
import { secondsSinceBoot, startOf } from './bareqemu.ts';
import { type Benchmark, median, type Outcome, rounded, size } from './figures.ts';
import { cpuClock, type LocalRunner, privateBytes, startLocalRunner } from './localrunner.ts';
import { until } from './until.ts';
import { untilBanner } from './sshbanner.ts';

/** Runners with real guests on this machine, without a cluster around them. */
export const benchmark: Benchmark = {
  about: 'guests that go on from a memory beside guests that boot: SSH, memory, a save; what a standby costs',
  settings: {
    SVC3_BENCH_GUEST: 'small, or debian: a whole system',
    SVC3_BENCH_STARTS: '7 starts each way',
    SVC3_BENCH_COPIES: '5 guests from one memory at the same time',
    SVC3_BENCH_SAVES: '5 saves each way',
    SVC3_BENCH_STANDBY_SECONDS: '60 seconds in which a standby is watched',
  },
  measure,
};

const memoryMiBOf = { small: 256, debian: 384 } as const;

function guestOf(): keyof typeof memoryMiBOf {
  const said = process.env['SVC3_BENCH_GUEST'] ?? 'small';
  if (said === 'small' || said === 'debian') return said;
  throw new Error(`SVC3_BENCH_GUEST is small or debian, not ${said}`);
}

function start(image: string, spec: Partial<RunnerSpecInput> = {}): Promise<LocalRunner> {
  return startLocalRunner(image, { memoryMiB: memoryMiBOf[guestOf()], ...spec });
}

const up = { powerState: 'Running', guestReachable: true } as const;
const mebibyte = 2 ** 20;

async function measure(): Promise<Outcome> {
  const image = await savedImage();
  const starts = await startsOf(image);
  const memory = await memoryOf(image);
  const standby = await standbyOf(image);
  const saves = await savesOf(image);
  const row = (what: string, unit: string, values: readonly number[]) => ({
    what,
    unit,
    median: rounded(median(values), 1),
    least: rounded(Math.min(...values), 1),
    most: rounded(Math.max(...values), 1),
  });
  return {
    rows: [
      row('from memory, start of QEMU → SSH', 'ms', starts.warm),
      row('boot, start of QEMU → SSH', 'ms', starts.cold),
      row('private memory of the 2nd and further copies', 'MiB', memory.copies),
      row('private memory of a guest that booted', 'MiB', [memory.booted]),
      row('a suspended standby: CPU of QEMU and runner', 'ms/s', [standby.msPerSecond]),
      row('its runner: private memory', 'MiB', [standby.runnerMiB]),
      row('save with memory, until it is in the store', 'ms', saves.withMemory),
      row('save without', 'ms', saves.without),
      row('the memory alone into the store', 'ms', saves.transfer),
    ],
    figures: [
      {
        what: 'from memory beside a boot',
        value: rounded(median(starts.warm) / median(starts.cold), 3),
        atMost: 0.1,
      },
      {
        what: 'private memory of a further copy beside one that booted',
        value: rounded(median(memory.copies) / memory.booted, 3),
        atMost: 0.4,
      },
      {
        what: 'CPU of a suspended standby with its runner, ms per second',
        value: rounded(standby.msPerSecond, 2),
        atMost: 5,
      },
      {
        what: 'save with memory, less the way of the memory to the store, beside one without',
        value: rounded((median(saves.withMemory) - median(saves.transfer)) / median(saves.without), 3),
        atMost: 1.5,
      },
    ],
  };
}

/** An image with memory as a node has it: saved of a guest that has booted and come to rest. */
async function savedImage(): Promise<string> {
  const plain = temporaryFolder();
  await mkdir(join(plain, 'disk'));
  await symlink(await testGuestDisk(guestOf()), join(plain, 'disk/disk.qcow2'));
  const original = await start(plain);
  await original.reaches(up);
  // What a boot does last is in no copy then.
  await delay(5_000);
  await exported(original, true);
  const image = temporaryFolder();
  for (const folder of ['disk', 'memory']) await mkdir(join(image, folder));
  const { ticket, path, memoryPath } = await original.client.exportTicket(exportId);
  const fetch = async (from: string, to: string) => {
    const { stream } = await downloadExport({ ...sourceOf(original), ticket: { ticket, path: from } });
    await pipeline(stream, createWriteStream(join(image, to)));
  };
  for (const part of Object.values(memoryParts)) await fetch(`${memoryPath}/${part}`, `memory/${part}`);
  await fetch(path, 'disk/disk.qcow2');
  await original.end();
  return image;
}

const exportId = 'bench';

function sourceOf({ client, controlPort }: LocalRunner) {
  return { address: '127.0.0.1', port: controlPort, fingerprint: client.fingerprint() ?? '' };
}

async function exported({ client }: LocalRunner, withMemory: boolean): Promise<void> {
  await client.startExport(exportId, undefined, withMemory);
  const isDone = async () => {
    const { state, message } = await client.getExport(exportId);
    if (state === 'Failed') throw new Error(`the export failed: ${message}`);
    return state === 'Ready';
  };
  await until('an export', isDone, { stepMs: 10 });
}

async function startsOf(image: string): Promise<{ warm: number[]; cold: number[] }> {
  const taken: { warm: number[]; cold: number[] } = { warm: [], cold: [] };
  const ways = [true, false];
  for (let turn = -1; turn < Math.max(1, size('SVC3_BENCH_STARTS', 7)); turn += 1)
    for (const isWarm of turn % 2 === 0 ? ways : ways.toReversed()) {
      const runner = await start(image, { warm: isWarm });
      await untilBanner({ host: '127.0.0.1', port: runner.sshPort });
      const tookMs = (secondsSinceBoot() - startOf(runner.qemuPid())) * 1000;
      await checkStart(runner, isWarm);
      await runner.end();
      // The first of each brings everything into the page cache.
      if (turn >= 0) taken[isWarm ? 'warm' : 'cold'].push(tookMs);
    }
  return taken;
}

async function checkStart(runner: LocalRunner, isWarm: boolean): Promise<void> {
  const { warmStart } = await runner.reaches(up);
  if ((warmStart?.fromMemory ?? false) !== isWarm)
    throw new Error(`the guest did not start as it was to: ${JSON.stringify(warmStart)}`);
}

async function memoryOf(image: string): Promise<{ copies: number[]; booted: number }> {
  const runners: LocalRunner[] = [];
  try {
    const cold = await start(image);
    runners.push(cold);
    await checkStart(cold, false);
    for (let i = 0; i < Math.max(2, size('SVC3_BENCH_COPIES', 5)); i += 1) {
      const copy = await start(image, { warm: true });
      runners.push(copy);
      await checkStart(copy, true);
    }
    // What a guest does when it has just started is over.
    await delay(5_000);
    const [booted = Number.NaN, , ...copies] = runners.map(
      (runner) => privateBytes(runner.qemuPid()) / mebibyte,
    );
    return { copies, booted };
  } finally {
    for (const runner of runners) await runner.end();
  }
}

async function standbyOf(image: string): Promise<{ msPerSecond: number; runnerMiB: number }> {
  const runner = await start(image, { warm: true, standby: 'Suspended' });
  try {
    await runner.reaches({ powerState: 'Suspended', standby: 'Idle' });
    await delay(5_000);
    const clocks = [runner.pid, runner.qemuPid()].map(cpuClock);
    const began = performance.now();
    await delay(Math.max(30, size('SVC3_BENCH_STANDBY_SECONDS', 60)) * 1000);
    const taken = clocks.reduce((sum, clock) => sum + clock(), 0);
    const msPerSecond = taken / ((performance.now() - began) / 1000);
    return { msPerSecond, runnerMiB: privateBytes(runner.pid) / mebibyte };
  } finally {
    await runner.end();
  }
}

interface Saves {
  readonly withMemory: number[];
  readonly without: number[];
  readonly transfer: number[];
}

/** From the request to the runner until the image has its name in the store, by the worker's own code. */
async function savesOf(image: string): Promise<Saves> {
  const registry = await startRegistry();
  const client = createRegistryClient({ registry: registry.address, scheme: 'http' });
  const runner = await start(image, { warm: true });
  const saves: Saves = { withMemory: [], without: [], transfer: [] };
  try {
    await checkStart(runner, true);
    await delay(5_000);
    for (let turn = -1; turn < Math.max(1, size('SVC3_BENCH_SAVES', 5)); turn += 1) {
      const ways: readonly (readonly [number[], () => Promise<number>])[] = [
        [saves.withMemory, () => saveTo(registry, runner, { turn, withMemory: true })],
        [saves.without, () => saveTo(registry, runner, { turn, withMemory: false })],
        [saves.transfer, () => pushAlone(client, image, turn)],
      ];
      for (let i = 0; i < ways.length; i += 1) {
        const [into, way] = ways[(turn + 1 + i) % ways.length] ?? [];
        const tookMs = (await way?.()) ?? Number.NaN;
        if (turn >= 0) into?.push(tookMs);
      }
    }
    return saves;
  } finally {
    await runner.end();
    await client.close();
    await registry.stop();
  }
}

async function saveTo(
  { address }: TestRegistry,
  runner: LocalRunner,
  { turn, withMemory }: { readonly turn: number; readonly withMemory: boolean },
): Promise<number> {
  const began = performance.now();
  await exported(runner, withMemory);
  const { ticket, path, memoryPath } = await runner.client.exportTicket(exportId);
  const spec: WorkSpec = {
    version: 1,
    kind: 'Image',
    source: {
      type: 'export',
      ...sourceOf(runner),
      path,
      ...(memoryPath === undefined ? {} : { memoryPath }),
    },
    target: {
      registry: address,
      repository: `bench/${withMemory ? 'memory' : 'disk'}-${turn + 1}`,
      tag: 'one',
    },
    registries: { [address]: { scheme: 'http', skipVerify: false } },
    architecture: 'amd64',
    limits: { virtualBytes: 2 ** 40, fileBytes: 2 ** 40 },
    port: 0,
  };
  await work(spec, {
    scratch: temporaryFolder(),
    dockerConfig: '',
    ticket,
    progress: createProgress(),
    signal: new AbortController().signal,
  });
  const tookMs = performance.now() - began;
  await runner.client.deleteExport(exportId);
  return tookMs;
}

/** What the registry takes for the layer alone: its files are in the page cache. */
async function pushAlone(client: RegistryClient, image: string, turn: number): Promise<number> {
  const files = await Promise.all(
    Object.values(memoryParts).map(async (name) => ({
      name,
      bytes: await readFile(join(image, 'memory', name)),
    })),
  );
  const began = performance.now();
  await pushMemory(
    client,
    `bench/alone-${turn + 1}`,
    files.map(({ name, bytes }) => ({
      name,
      open: async () => ({ content: Readable.from(pieces(bytes)), size: bytes.length }),
    })),
  );
  return performance.now() - began;
}

function* pieces(bytes: Buffer): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += mebibyte) yield bytes.subarray(at, at + mebibyte);
}
