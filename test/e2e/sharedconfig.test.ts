import { beforeAll, expect, test } from 'vitest';
import { readSettings } from '../../src/localcluster/shared/state.ts';
import { storeCredential } from '../../src/localcluster/cluster/install.ts';
import { type E2eCluster, e2eCluster } from '../support/e2e.ts';

let cluster: E2eCluster;

beforeAll(async () => {
  cluster = await e2eCluster();
});

test(
  'a VM runs in another namespace from a configuration of the default one',
  { timeout: 600_000 },
  async () => {
    const name = `shared-${process.pid}`;
    await cluster.kubectl.apply({
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { name, labels: { 'pod-security.kubernetes.io/enforce': 'privileged' } },
    });
    const settings = await readSettings(cluster.places);
    if (settings === undefined) throw new Error('the cluster has no settings');
    await cluster.kubectl.apply(...storeCredential(settings, name));
    // A deploy whose image a registry refuses is given up.
    await cluster.kubectl('wait', '-n', name, 'regcred', '--all', '--for=condition=Ready', '--timeout=120s');
    await cluster.kubectl.apply({
      apiVersion: 'svc3.dev/v1',
      kind: 'VMConfig',
      metadata: { name, namespace: 'svc3-default' },
      spec: { image: cluster.guest, cpu: 1, memory: '256Mi', systemSerial: 'SHARED' },
    });
    const deployed = await cluster.svc3('vm', 'deploy', 'far', '--config', name, '-n', name, '-o', 'json');
    expect([deployed.code, deployed.stderr]).toEqual([0, '']);
    const shown = await cluster.svc3('vm', 'get', 'far', '-n', name, '-o', 'json');
    const expected = { name: 'far', status: 'Running', vmConfig: name, vmConfigNamespace: 'svc3-default' };
    expect(JSON.parse(shown.stdout)).toMatchObject(expected);
    expect((await cluster.svc3('vm', 'delete', 'far', '-n', name)).code).toBe(0);
    await cluster.kubectl('delete', 'vmconfigs.svc3.dev', '-n', 'svc3-default', name);
    await cluster.kubectl('delete', 'regcred', '-n', name, '--all', '--timeout=60s');
    await cluster.kubectl('delete', 'namespace', name);
  },
);
