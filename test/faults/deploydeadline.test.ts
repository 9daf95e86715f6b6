/** Who waits for a deploy sees a status, which is written later than a guest starts: no such waiter deletes the VM for it. */
import { afterAll, beforeAll, describe, test, vi } from 'vitest';
import { vms } from '../../src/api/resources.ts';
import type { Vm } from '../../src/api/vm.ts';
import { inProcess } from '../integration/cli/inprocess.ts';
import { condition, reportVm, startTestApi, type TestApi } from '../support/api.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../support/cluster.ts';

const image = 'registry.example.com/team/debian:12';
const { svc3 } = inProcess();

let cluster: TestCluster;
let api: TestApi;
let namespace: string;

beforeAll(async () => {
  cluster = await testCluster();
  namespace = await uniqueNamespace(cluster.client, 'deploydeadline');
  api = await startTestApi(cluster.client);
});

afterAll(() => api?.close());

/** Each API surface answers with a text that tells what became of it. */
const deploys: Record<string, (name: string) => Promise<string>> = {
  async http(name) {
    const { status, text } = await api.call('POST', `/api/v1/namespaces/${namespace}/vms`, {
      token: cluster.adminToken,
      body: { name, image, timeout: 1 },
    });
    return `${status} ${text}`;
  },
  async cli(name) {
    const env = { KUBECONFIG: cluster.kubeconfigPath, SVC3_DEFAULT_NAMESPACE: namespace };
    const { code, stderr } = await svc3(['vm', 'deploy', name, '-i', image, '--timeout', '1'], { env });
    return `${code} ${stderr}`;
  },
};

const vmNamed = (name: string): Promise<Vm> =>
  vi.waitFor(() => cluster.client.get(vms, name, namespace), { timeout: 60_000, interval: 20 });

describe.each(Object.keys(deploys))('a deploy by %s', { timeout: 150_000 }, (surface) => {
  const deploy = (name: string) => deploys[surface]!(name);

  // No operator looks at it: its guest may run all the same.
  test.concurrent('leaves a VM past its deadline to the operator', async ({ expect: expectHere }) => {
    const name = `late-${surface}`;
    const said = await deploy(name);
    expectHere(said).toContain(
      'did not run within its timeout and is removed by the operator unless it has started',
    );
    const { metadata } = await cluster.client.get(vms, name, namespace);
    expectHere(metadata.deletionTimestamp).toBeUndefined();
  });

  test.concurrent('does not delete a VM whose guest ran and crashed', async ({ expect: expectHere }) => {
    const name = `crashed-${surface}`;
    const deploying = deploy(name);
    await reportVm(cluster.client, await vmNamed(name), {
      powerState: 'Failed',
      conditions: [condition('Ready', 'False', 'Crashed', 'QEMU was killed')],
    });
    expectHere(await deploying).toContain('QEMU was killed');
    expectHere((await cluster.client.get(vms, name, namespace)).metadata.deletionTimestamp).toBeUndefined();
  });

  test.concurrent('deletes a VM that will never run', async ({ expect: expectHere }) => {
    const name = `stalled-${surface}`;
    const deploying = deploy(name);
    await reportVm(cluster.client, await vmNamed(name), {
      conditions: [condition('Stalled', 'True', 'InvalidSpec', 'spec.image: no')],
    });
    expectHere(await deploying).toContain('spec.image: no');
    // Its finalizer is the operator's to take away.
    const left = () =>
      cluster.client.get(vms, name, namespace).then(
        ({ metadata }) => metadata.deletionTimestamp,
        () => 'gone',
      );
    await expectHere.poll(left).toBeDefined();
  });
});
