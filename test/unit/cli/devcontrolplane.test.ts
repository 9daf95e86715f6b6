import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createLocalCluster } from '../../../src/cli/dev.ts';
import { tryLock } from '../../../src/localcluster/host/lock.ts';
import { controlPlaneFolder, placesOf, writeSecret } from '../../../src/localcluster/shared/state.ts';
import { aTerminal } from './environment.ts';

let home: string;
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'svc3-devcontrolplane-'));
});
afterEach(() => rm(home, { recursive: true, force: true }));

/** `svc3 dev up --control-plane`; its programs cannot be built, so that it never starts. */
function devUp(name: string) {
  const variables = { XDG_CACHE_HOME: '/dev/null' };
  const { environment } = aTerminal({ home, variables });
  const addons = { dns: false, metrics: false, networkPolicies: false };
  return createLocalCluster(environment).up({
    name,
    nodes: 1,
    controlPlane: true,
    bare: false,
    addons,
    demo: false,
    gpuPassthrough: false,
    gpuNode: false,
    signal: environment.signal,
    progress: () => undefined,
  });
}

test('a second control plane of a name leaves the first one alone, and says so', async () => {
  const folder = controlPlaneFolder(placesOf('one', {}, home));
  await writeSecret(join(folder, 'etcd', 'member'), 'data of the first');
  const first = await tryLock(`${folder}.lock`);
  await expect(devUp('one')).rejects.toMatchObject({
    reason: 'AlreadyExists',
    message: 'a control plane one runs already',
  });
  await expect(devUp('two')).rejects.toThrow('/dev/null');
  expect(await readFile(join(folder, 'etcd', 'member'), 'utf8')).toBe('data of the first');
  await first?.release();
  await expect(devUp('one')).rejects.toThrow('/dev/null');
});

test('no full cluster has the folder of a control plane, whatever both are called', () => {
  const folder = controlPlaneFolder(placesOf('one', {}, home));
  expect(() => placesOf(basename(folder), {}, home)).toThrow('name: ');
  expect(() => controlPlaneFolder(placesOf('a'.repeat(30), {}, home))).not.toThrow();
});
