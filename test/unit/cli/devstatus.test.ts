import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { exportsOf } from '../../../src/cli/commands/dev.ts';
import { createLocalCluster } from '../../../src/cli/dev.ts';
import {
  ensureSettings,
  placesOf,
  startTimeOf,
  writeReport,
} from '../../../src/localcluster/shared/state.ts';
import { aTerminal } from './environment.ts';

const status = {
  name: 'b',
  state: 'running',
  kubeconfig: "/home/it's/kubeconfig",
  baseUrl: 'https://127.0.0.1:30443',
  bin: ['/tools/kubectl', '/usr/bin'],
} as never;

const words = { up: 'svc3 dev up --name b' };

test('the settings of a shell are those of this cluster, whatever the configuration names', () => {
  expect(exportsOf(status, { path: '/usr/bin:/bin', caFile: '/config/b-ca.pem', words }).split('\n')).toEqual(
    [
      String.raw`export KUBECONFIG='/home/it'\''s/kubeconfig'`,
      'export SVC3_API_URL=https://127.0.0.1:30443',
      'export SVC3_CA_FILE=/config/b-ca.pem',
      'export PATH=/tools/kubectl:"$PATH"',
    ],
  );
});

test('an HTTP API whose certificate is not known is left to the configuration', () => {
  expect(exportsOf(status, { path: '/usr/bin', caFile: undefined, words })).not.toContain('SVC3_');
});

test('a cluster that is not up has none', () => {
  expect(() => exportsOf({ name: 'b' } as never, { path: '', caFile: undefined, words })).toThrow(
    'the local cluster b is not up: svc3 dev up --name b',
  );
});

test('a status builds no program: the cache can be deleted while a cluster runs', async () => {
  const home = await mkdtemp(join(tmpdir(), 'svc3-devstatus-'));
  onTestFinished(() => rm(home, { recursive: true }));
  // A cache that nothing can be built in.
  const { environment } = aTerminal({ home, variables: { XDG_CACHE_HOME: '/dev/null' } });
  const places = placesOf('one', environment.variables, home);
  const startTime = (await startTimeOf(process.pid)) ?? '';
  const running = { phase: 'running', nodes: 1, machines: [], components: [] } as const;
  await ensureSettings(places, 1);
  await writeReport(places, { ...running, pid: process.pid, startTime });
  expect(await createLocalCluster(environment).status({ name: 'one' })).toMatchObject({
    state: 'Running',
    kubeconfig: places.kubeconfig,
    bin: [expect.stringMatching(/\/scripts\/bin$/)],
  });
});
