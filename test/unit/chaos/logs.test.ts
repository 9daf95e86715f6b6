import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { holds } from '../../chaos/record/contents.ts';
import { keepLogs, leaksInLogs } from '../../chaos/record/logs.ts';

async function folder(): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), 'svc3-chaos-'));
  onTestFinished(() => rm(made, { recursive: true }));
  return made;
}

test('a log stays when its pod goes, with what it had until then', async () => {
  const state = await folder();
  const kept = await folder();
  const pod = join(state, 'nodes/node1/podlogs/team_web_uid/runner');
  await mkdir(pod, { recursive: true });
  await writeFile(join(pod, '0.log'), 'begins\n');
  const end = new AbortController();
  const places = { name: 'x', state, cache: '', kubeconfig: '', logs: join(state, 'log') };
  const keeping = keepLogs(places, kept, end.signal);
  const copy = join(kept, 'node1_podlogs_team_web_uid_runner_0.log');
  await expect.poll(() => readFile(copy, 'utf8').catch(() => '')).toBe('begins\n');
  await writeFile(join(pod, '0.log'), 'canary-1234\n', { flag: 'a' });
  await rm(pod, { recursive: true });
  end.abort();
  await keeping;
  expect(await readFile(copy, 'utf8')).toBe('begins\ncanary-1234\n');
  expect(await leaksInLogs(kept, new Map([['canary-1234', 'team']]))).toMatchObject([{ of: 'team' }]);
  expect(await leaksInLogs(kept, new Map([['canary-9999', 'team']]))).toEqual([]);
});

test('a text is found across the pieces that a file is read in', async () => {
  const file = join(await folder(), 'disk.raw');
  const piece = 4 * 2 ** 20;
  await writeFile(file, Buffer.concat([Buffer.alloc(piece - 3), Buffer.from('marker'), Buffer.alloc(piece)]));
  expect(await holds(file, 'marker')).toBe(true);
  expect(await holds(file, 'markers')).toBe(false);
});
