import { expect, test } from 'vitest';
import type { ClusterStatus, LocalCluster, UpOptions } from '../../../src/cli/localcluster.ts';
import { run } from './environment.ts';

/** `svc3 dev up` of a cluster that was there before. */
function devUp(status: Omit<ClusterStatus, 'name'>, words: readonly string[] = [], variables = {}) {
  const nothing = (): Promise<never> => Promise.reject(new Error('not asked for'));
  const cluster: LocalCluster = {
    up: ({ name }) => Promise.resolve({ status: { name, ...status }, changed: false }),
    down: nothing,
    status: nothing,
  };
  return run(['dev', 'up', ...words], { variables }, { localCluster: () => Promise.resolve(cluster) });
}

const degraded = {
  state: 'Degraded',
  components: [
    { name: 'etcd', state: 'ended', message: 'signal SIGKILL; the last lines of …' },
    { name: 'kube-apiserver', state: 'running' },
    { name: 'node1 kubelet', state: 'ended' },
  ],
};

test.each([
  [[], undefined],
  [['--nodes', '3'], 3],
])(
  'with %j the cluster is asked for %s nodes: who names none keeps those that there are',
  async (words, nodes) => {
    const asked: UpOptions[] = [];
    const cluster: Partial<LocalCluster> = {
      up: (options) => (asked.push(options), Promise.reject(new Error('enough'))),
    };
    await run(['dev', 'up', ...words], {}, { localCluster: () => Promise.resolve(cluster as LocalCluster) });
    expect(asked.map((each) => each.nodes)).toEqual([nodes]);
  },
);

test('a cluster that runs is up already', async () => {
  expect(await devUp({ state: 'Running' })).toEqual({
    code: 0,
    stdout: `The local cluster default is up already. For this shell: eval "$(svc3 dev status -o env)"\n`,
    stderr: '',
  });
});

test('one in which something has ended is not: it is said what, and what helps', async () => {
  expect(await devUp(degraded)).toEqual({
    code: 1,
    stdout: '',
    stderr:
      'svc3: the local cluster default is Degraded: etcd, node1 kubelet ended (last words: svc3 dev status); begin anew with svc3 dev down, then svc3 dev up\n',
  });
});

test.each<[string, Record<string, string>, readonly string[], string]>([
  [
    'npm start',
    { npm_command: 'start', npm_lifecycle_event: 'start' },
    [],
    '(last words: npm run -s svc3 -- dev status); begin anew with npm stop, then npm start\n',
  ],
  [
    'npm start with a name',
    { npm_command: 'start', npm_lifecycle_event: 'start' },
    ['--name', 'b'],
    'begin anew with npm stop -- --name b, then npm start -- --name b\n',
  ],
  [
    'npm run svc3',
    { npm_command: 'run-script', npm_lifecycle_event: 'svc3' },
    ['--name', 'b'],
    'begin anew with npm run -s svc3 -- dev down --name b, then npm run -s svc3 -- dev up --name b\n',
  ],
])('who called it as %s is told so', async (_, variables, words, advice) => {
  expect((await devUp(degraded, words, variables)).stderr).toContain(advice);
});

test('nor is one up that went down meanwhile', async () => {
  expect(await devUp({ state: 'Stopping' })).toMatchObject({
    code: 1,
    stderr: 'svc3: the local cluster default is Stopping; begin anew with svc3 dev down, then svc3 dev up\n',
  });
});
