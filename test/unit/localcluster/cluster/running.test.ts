import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest';
import { status } from '../../../../src/localcluster/cluster/cluster.ts';
import { type Asked, findRunning } from '../../../../src/localcluster/cluster/running.ts';
import {
  type Places,
  type Report,
  ensureSettings,
  placesOf,
  readSettings,
  startTimeOf,
  writeReport,
} from '../../../../src/localcluster/shared/state.ts';

let folder: string;
let places: Places;
let said: string[];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'svc3-running-'));
  places = placesOf('one', { XDG_STATE_HOME: folder }, folder);
  said = [];
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const find = (asked: Partial<Asked> = {}) =>
  findRunning({ places, progress: (text) => void said.push(text), ...asked });

/** A process that reports as a supervisor does; it ends a moment after it was told to. */
async function supervisor(report: Partial<Report> = {}): Promise<ChildProcess> {
  const script = `process.on('SIGTERM', () => setTimeout(() => process.exit(), 100)); setInterval(() => {}, 60_000); console.log('up')`;
  const child = spawn(process.execPath, ['--eval', script], { stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  await once(child.stdout, 'data');
  const { pid = 0 } = child;
  const startTime = (await startTimeOf(pid)) ?? '';
  const whole = { phase: 'running', nodes: 1, machines: [], components: [] } as const;
  await writeReport(places, { ...whole, pid, startTime, ...report });
  return child;
}

test('a cluster that runs is left alone', async () => {
  const child = await supervisor();
  expect(await find()).toMatchObject({ pid: child.pid });
  expect(said).toEqual([]);
  expect((await status(places)).state).toBe('Running');
});

test.each(['stopping', 'starting'] as const)(
  'one that is %s, with nobody who waits for it, does not run, and is gone then',
  async (phase) => {
    const child = await supervisor({ phase });
    expect(await find()).toBeUndefined();
    expect(said).toEqual(['the cluster is going down; waiting for its end']);
    expect(await startTimeOf(child.pid ?? 0)).toBeUndefined();
  },
);

test('one that is going down is not called running', async () => {
  await supervisor({ phase: 'stopping' });
  expect((await status(places)).state).toBe('Stopping');
});

test('what has ended in it is named', async () => {
  const components = [
    { name: 'etcd', running: false, problem: 'signal SIGKILL' },
    { name: 'kube-apiserver', running: true },
    { name: 'node1 kubelet', running: false },
  ];
  await supervisor({ components });
  expect(await find()).toBeDefined();
  expect(said).toEqual(['the cluster runs without etcd, node1 kubelet, which ended']);
  expect((await status(places)).state).toBe('Degraded');
});

test('add-ons that it does not have are there at its next start, as is said', async () => {
  await ensureSettings(places, 3);
  await supervisor({ nodes: 3 });
  await find({ addons: { dns: true } });
  expect(said).toEqual(['the cluster runs without --dns; that changes after a down']);
  expect(await readSettings(places)).toMatchObject({ nodes: 3, addons: { dns: true, metrics: false } });
});

test('nodes that it does not have are there at its next start, and those that go are named with what goes along', async () => {
  await supervisor({ nodes: 2 });
  await find({ nodes: 3 });
  expect(await readSettings(places)).toMatchObject({ nodes: 3 });
  await find({ nodes: 1 });
  expect(await readSettings(places)).toMatchObject({ nodes: 1 });
  await find({ nodes: 2 });
  expect(await readSettings(places)).toMatchObject({ nodes: 2 });
  expect(said).toEqual([
    'the cluster has 2 nodes; that changes after a down',
    'the cluster has 2 nodes; that changes after a down: node2 goes, with the Ephemeral disks of VMs there',
  ]);
});
