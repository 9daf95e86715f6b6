import { beforeAll, expect, test } from 'vitest';
import { run } from '../../src/localcluster/host/command.ts';
import { chartFolder } from '../../src/localcluster/cluster/install.ts';
import { type E2eCluster, createVm, e2eCluster, eventually } from '../support/e2e.ts';

const system = 'svc3-system';
let cluster: E2eCluster;
beforeAll(async () => {
  cluster = await e2eCluster();
});

function helm(...parameters: string[]): Promise<string> {
  const target = [`--kubeconfig=${cluster.places.kubeconfig}`, `--namespace=${system}`];
  return run(cluster.tools.path('helm'), [...parameters, ...target]);
}

async function revision(): Promise<string> {
  const [release] = JSON.parse(await helm('list', '-o', 'json')) as { revision: string }[];
  return release?.revision ?? '';
}

/** Rolled out in full, with this annotation on the operator's pods. */
async function untilRolledOut(mark: string): Promise<void> {
  for (const name of ['deployment/svc3-operator', 'deployment/svc3-api'])
    await cluster.kubectl('rollout', 'status', '-n', system, name, '--timeout=240s');
  const marks = () =>
    cluster.kubectl(
      'get',
      'deployment',
      '-n',
      system,
      'svc3-operator',
      '-o',
      'jsonpath={.spec.template.metadata.annotations.mark}',
    );
  await expect.poll(marks, eventually).toBe(mark);
}

test('helm test boots a VM', { timeout: 480_000 }, async () => {
  expect(await helm('test', 'svc3', '--logs', '--timeout=5m')).toContain('the VM runs');
});

test(
  'an upgrade of the chart and its rollback leave a running VM as it is',
  { timeout: 480_000 },
  async () => {
    const vm = await createVm(cluster, `upgraded-${process.pid}`);
    try {
      await vm.untilReady();
      const boot = () => vm.ssh('cat /proc/sys/kernel/random/boot_id');
      const before = await boot();
      const first = await revision();

      const marked = ['--reuse-values', '--set=operator.podAnnotations.mark=upgraded'];
      await helm('upgrade', 'svc3', chartFolder, ...marked, '--wait=hookOnly');
      await untilRolledOut('upgraded');
      expect(await boot()).toBe(before);

      await helm('rollback', 'svc3', first, '--wait=hookOnly');
      await untilRolledOut('');
      expect(await boot()).toBe(before);
      expect(await vm.get()).toMatchObject({ metadata: { generation: 1 } });
    } finally {
      await vm.delete();
    }
  },
);
