import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { down, up } from '../../../../src/localcluster/cluster/cluster.ts';
import { ensureRoot, whileRootStays } from '../../../../src/localcluster/host/privilege.ts';
import { placesOf, writeSecret } from '../../../../src/localcluster/shared/state.ts';
import { withFakeTimers } from '../../timers.ts';

const { PATH } = process.env;

let home: string;
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'svc3-privilege-'));
  await sudo('echo "sudo: a password is required" >&2; exit 1');
  process.env['PATH'] = `${home}:${PATH}`;
  vi.spyOn(process, 'getuid').mockReturnValue(1000);
});
afterEach(async () => {
  vi.restoreAllMocks();
  process.env['PATH'] = PATH;
  await rm(home, { recursive: true });
});

/** The program that is found as sudo. */
async function sudo(line: string): Promise<void> {
  await writeFile(join(home, 'sudo'), `#!/bin/sh\n${line}\n`);
  await chmod(join(home, 'sudo'), 0o755);
}

const aWay = "run 'sudo -v' first, then this again";
const needs = 'the local cluster needs root for its namespaces and mounts';

test('who cannot become root is told so before anything is built', async () => {
  // A cache that nothing can be built in.
  const places = placesOf('one', { XDG_CACHE_HOME: '/dev/null' }, home);
  const said: string[] = [];
  const signal = new AbortController().signal;
  const start = up({ places, nodes: 1, signal, progress: (text) => void said.push(text) });
  await expect(start).rejects.toMatchObject({
    reason: 'Forbidden',
    message: `${needs}: ${aWay}, or use --control-plane, which needs no root`,
  });
  expect(said).toEqual([]);
});

test('a stop is not offered the control plane', async () => {
  const places = placesOf('one', {}, home);
  await writeSecret(join(places.state, 'settings.json'), '{}');
  await expect(down(places, { purge: true })).rejects.toMatchObject({
    reason: 'Forbidden',
    message: `${needs}: ${aWay}`,
  });
});

test('root, and who need not say a password, is asked for nothing', async () => {
  await sudo('[ "$*" = "-n true" ]');
  await ensureRoot();
  await sudo('exit 1');
  vi.spyOn(process, 'getuid').mockReturnValue(0);
  await ensureRoot();
});

test('where there is no sudo nobody is told to run it', async () => {
  process.env['PATH'] = join(home, 'empty');
  await expect(ensureRoot()).rejects.toThrow(`${needs}: there is no sudo here, run it as root`);
});

test('sudo does not forget the password during a long work', async () => {
  const asked = join(home, 'asked');
  await sudo(`echo "$*" >> ${asked}`);
  withFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  const built = whileRootStays(async () => {
    vi.advanceTimersByTime(60_000);
    await expect.poll(() => readFile(asked, 'utf8').catch(() => '')).toBe('-n true\n');
    return 'built';
  });
  expect(await built).toBe('built');
  expect(vi.getTimerCount()).toBe(0);
});
