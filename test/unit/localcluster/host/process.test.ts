import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type Child, exitError, startChild, untilReady } from '../../../../src/localcluster/host/process.ts';

let dir: string;
let children: Child[];

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'svc3-process-'));
  children = [];
});

afterEach(async () => {
  await Promise.all(children.map((child) => child.stop(0)));
  rmSync(dir, { recursive: true, force: true });
});

function start(script: string): Child {
  const child = startChild({ name: 'server', command: ['sh', '-c', script], logFile: join(dir, 'log') });
  children.push(child);
  return child;
}

const log = () => readFileSync(join(dir, 'log'), 'utf8');

test('a child is ready when the probe says yes', async () => {
  const child = start('echo up; exec sleep 60');
  await untilReady(child, async () => log().includes('up'), { timeoutMs: 9_000 });
  expect(child.isRunning()).toBe(true);
});

test('a child that ends before it is ready is reported at once, with its last words', async () => {
  const child = start('echo one; echo no such disk >&2; exit 3');
  await expect(untilReady(child, async () => false, { timeoutMs: 60_000 })).rejects.toThrow(
    'server ended (exit code 3); its last lines:\none\nno such disk',
  );
});

test('a probe that throws means not yet', async () => {
  let calls = 0;
  const probe = async () => {
    calls += 1;
    if (calls < 3) throw new Error('connection refused');
    return true;
  };
  await untilReady(start('exec sleep 60'), probe, { timeoutMs: 9_000, intervalMs: 1 });
  expect(calls).toBe(3);
});

test('a child that is never ready is reported with its last words', async () => {
  const child = start('echo still reading; exec sleep 60');
  await expect.poll(log).toContain('still reading');
  await expect(untilReady(child, async () => false, { timeoutMs: 100 })).rejects.toThrow(
    'server was not ready after 0.1 s; its last lines:\nstill reading',
  );
});

test('a command that does not exist is an end like any other', async () => {
  const child = startChild({ name: 'ghost', command: [join(dir, 'ghost')], logFile: join(dir, 'log') });
  expect((await exitError(child)).message).toMatch(/^ghost ended \(exit code 127\)/);
});

test('stop asks first', async () => {
  const child = start('trap "echo bye; exit 0" TERM; echo up; while :; do sleep 0.05; done');
  await expect.poll(log).toContain('up');
  await child.stop();
  expect(await child.exited).toBe('exit code 0');
  expect(log()).toContain('bye');
});

test('stop kills what does not listen', async () => {
  const child = start('trap "" TERM; echo up; while :; do sleep 0.05; done');
  await expect.poll(log).toContain('up');
  await child.stop(50);
  expect(await child.exited).toBe('signal SIGKILL');
});

test('stop of an ended child does nothing', async () => {
  const child = start('exit 0');
  await child.exited;
  await child.stop();
  expect(child.isRunning()).toBe(false);
});
