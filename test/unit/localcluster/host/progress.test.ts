import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createSteps } from '../../../../src/localcluster/host/progress.ts';

let dir: string;
let lines: string[];
const progress = (line: string) => void lines.push(line);

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'svc3-progress-'));
  lines = [];
});

afterEach(() => {
  vi.useRealTimers();
  rmSync(dir, { recursive: true, force: true });
});

test('a step says that it begins, that it is done and next time how long it took', async () => {
  const steps = createSteps(dir, progress);
  await steps.run('making tea', async () => 'tea');
  await steps.run('making tea', async () => 'tea');
  expect(lines.map((line) => line.replaceAll(/\d+\.\d/g, 'N'))).toEqual([
    'making tea',
    'making tea: done in N s',
    'making tea (N s last time)',
    'making tea: done in N s',
  ]);
});

test('a step that takes long says how far it is', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
  writeFileSync(join(dir, 'durations.json'), '{"making tea": 60000}');
  const { promise, resolve } = Promise.withResolvers<void>();
  const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
  const done = createSteps(dir, progress).run('making tea', async (step) => {
    step.at('1 of 4 cups');
    begin();
    await promise;
  });
  await begun;
  vi.advanceTimersByTime(20_000);
  resolve();
  await done;
  expect(lines).toEqual([
    'making tea (60 s last time)',
    'making tea: 1 of 4 cups, 10 s (60 s last time)',
    'making tea: 1 of 4 cups, 20 s (60 s last time)',
    'making tea: done in 20 s',
  ]);
});

test('a step that fails keeps the duration of last time', async () => {
  writeFileSync(join(dir, 'durations.json'), '{"making tea": 60000}');
  const failing = createSteps(dir, progress).run('making tea', () => Promise.reject(new Error('no water')));
  await expect(failing).rejects.toThrow('no water');
  expect(JSON.parse(readFileSync(join(dir, 'durations.json'), 'utf8'))).toEqual({ 'making tea': 60_000 });
});

test('a broken record of durations is as good as none', async () => {
  writeFileSync(join(dir, 'durations.json'), '{"making');
  await createSteps(dir, progress).run('making tea', async () => 'tea');
  expect(lines[0]).toBe('making tea');
});
