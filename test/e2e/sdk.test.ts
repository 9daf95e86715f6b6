import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { K8s } from 'kubernetes-fluent-client';
import { VM } from 'svc3/sdk/fluent';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { e2eCluster, eventually, type E2eCluster } from '../support/e2e.ts';

const execute = promisify(execFile);
const namespace = 'svc3-default';
const name = 'sdk-example';

let cluster: E2eCluster;

beforeAll(async () => {
  cluster = await e2eCluster();
});

afterAll(async () => {
  await cluster.kubectl('delete', 'vms.svc3.dev', '-n', namespace, name, '--ignore-not-found');
});

test('the example of docs/sdk.md deploys a VM, says where it runs, and deletes it', async () => {
  const example = (...parameters: string[]) =>
    execute(process.execPath, ['docs/examples/deploy.ts', name, cluster.guest, namespace, ...parameters], {
      env: { ...process.env, KUBECONFIG: cluster.places.kubeconfig },
      timeout: 200_000,
    });
  const { stdout } = await example();
  const vm = await K8s(VM, { namespace }).Get(name);
  expect(vm.status?.powerState).toBe('Running');
  expect(stdout).toContain(`runs on ${vm.status?.node} (${vm.status?.ip})`);
  await example('--delete');
  await vi.waitFor(async () => {
    const { items } = await K8s(VM, { namespace }).Get();
    expect(items.map(({ metadata }) => metadata?.name)).not.toContain(name);
  }, eventually);
});
