import { mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  ensureSettings,
  placesOf,
  readReport,
  startTimeOf,
  writeReport,
} from '../../../../src/localcluster/shared/state.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc3-state-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

describe('where a cluster is kept', () => {
  test('state and cache follow the XDG variables', () => {
    const places = placesOf('one', { XDG_STATE_HOME: '/s', XDG_CACHE_HOME: '/c' }, '/home/me');
    expect(places).toMatchObject({
      state: '/s/svc3/one',
      cache: '/c/svc3',
      kubeconfig: '/s/svc3/one/kubeconfig',
    });
  });

  test('without them both lie in the home', () => {
    expect(placesOf('one', {}, '/home/me')).toMatchObject({
      state: '/home/me/.local/state/svc3/one',
      cache: '/home/me/.cache/svc3',
    });
  });

  test.each(['', '../other', 'Upper', 'a'.repeat(31), '-dash'])('the name %j is refused', (name) => {
    expect(() => placesOf(name, {}, '/home/me')).toThrow(
      'name: a cluster is named with at most 30 lowercase letters, digits and dashes',
    );
  });
});

describe('what stays from one start to the next', () => {
  test('ports and password stay, and only the owner reads them', async () => {
    const places = placesOf('one', { XDG_STATE_HOME: folder }, folder);
    const first = await ensureSettings(places, 1);
    expect(await ensureSettings(places, 3)).toEqual({ ...first, nodes: 3 });
    expect(await ensureSettings(places, undefined)).toEqual({ ...first, nodes: 3 });
    expect((await stat(join(places.state, 'settings.json'))).mode & 0o777).toBe(0o600);
  });

  test('a new cluster of which nobody says how many nodes it has has one', async () => {
    const places = placesOf('one', { XDG_STATE_HOME: folder }, folder);
    expect(await ensureSettings(places, undefined)).toMatchObject({ nodes: 1 });
  });

  test('what was asked for once stays: an upgrade of the chart would take it away from who uses it', async () => {
    const places = placesOf('one', { XDG_STATE_HOME: folder }, folder);
    expect(await ensureSettings(places, 1)).toMatchObject({ gpuPassthrough: false, addons: { dns: false } });
    await ensureSettings(places, 1, { gpuPassthrough: true });
    await ensureSettings(places, 1, { addons: { dns: true } });
    expect(await ensureSettings(places, 1)).toMatchObject({ gpuPassthrough: true, addons: { dns: true } });
  });
});

describe('the report of a supervisor', () => {
  const report = { phase: 'running', nodes: 1, machines: [], components: [] } as const;

  test('counts while its process lives', async () => {
    const places = placesOf('one', { XDG_STATE_HOME: folder }, folder);
    const startTime = (await startTimeOf(process.pid)) ?? '';
    await writeReport(places, { ...report, pid: process.pid, startTime });
    expect(await readReport(places)).toMatchObject({ pid: process.pid });
  });

  test('counts no more when the number belongs to another process', async () => {
    const places = placesOf('one', { XDG_STATE_HOME: folder }, folder);
    await writeReport(places, { ...report, pid: process.pid, startTime: '1' });
    expect(await readReport(places)).toBeUndefined();
  });

  test('is one of two that are written at the same time, whole', async () => {
    const places = placesOf('one', { XDG_STATE_HOME: folder }, folder);
    const startTime = (await startTimeOf(process.pid)) ?? '';
    const written = [1, 2, 3, 4].map((nodes) =>
      writeReport(places, { ...report, pid: process.pid, startTime, nodes }),
    );
    await Promise.all(written);
    expect([1, 2, 3, 4]).toContain((await readReport(places))?.nodes);
    expect(await readdir(places.state)).toEqual(['supervisor.json']);
  });
});
