import { execFile } from 'node:child_process';
import { existsSync, readFileSync, readlinkSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { configMaps } from '../../../src/api/resources.ts';
import { customResourceDefinitions } from '../../support/resources.ts';
import { createClient } from '../../../src/kube/client.ts';
import { loadKubeconfig } from '../../../src/kube/connection.ts';
import { type OwnControlPlane, ensureTools, ownControlPlane } from '../../support/controlplane.ts';
import { installDefinitions } from '../../support/definitions.ts';
import { processesIn } from '../../support/processes.ts';

const components = ['etcd', 'kube-apiserver', 'kube-controller', 'kube-scheduler'];

function pidOf(controlPlane: OwnControlPlane, command: string): number {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  const found = pids.find((pid) => {
    try {
      return (
        readlinkSync(`/proc/${pid}/cwd`) === controlPlane.dir &&
        readFileSync(`/proc/${pid}/comm`, 'utf8').trim() === command
      );
    } catch {
      return false;
    }
  });
  return Number(found);
}

describe('a control plane', () => {
  let controlPlane: OwnControlPlane;

  beforeAll(async () => {
    controlPlane = await ownControlPlane({ audit: 'Metadata' });
  });

  afterAll(() => controlPlane.remove());

  test('runs etcd, kube-apiserver, kube-controller-manager and kube-scheduler', async () => {
    await expect.poll(() => processesIn(controlPlane.dir).sort()).toEqual(components);
  });

  test('listens on loopback only, and with nothing but kube-apiserver', async () => {
    const { stdout } = await promisify(execFile)('ss', ['-Hltnp']);
    const pids = components.map((command) => `pid=${pidOf(controlPlane, command)},`);
    const lines = stdout.split('\n').filter((line) => pids.some((pid) => line.includes(pid)));
    expect(lines).toHaveLength(1);
    expect(lines[0]).toContain(controlPlane.server.replace('https://', ''));
    expect(controlPlane.server).toMatch(/^https:\/\/127\.0\.0\.1:\d+$/);
  });

  test('keeps keys and data from other users', () => {
    expect(statSync(controlPlane.dir).mode & 0o077).toBe(0);
    for (const name of readdirSync(join(controlPlane.dir, 'pki')))
      expect(statSync(join(controlPlane.dir, 'pki', name)).mode & 0o077, name).toBe(0);
    expect(statSync(controlPlane.kubeconfigPath).mode & 0o077).toBe(0);
  });

  test('is used by kubectl of the same version with its kubeconfig', async () => {
    const tools = await ensureTools('controlplane');
    const { stdout } = await promisify(execFile)(tools.path('kubectl'), [
      '--kubeconfig',
      controlPlane.kubeconfigPath,
      'version',
      '--output=json',
    ]);
    const versions = JSON.parse(stdout) as Record<'clientVersion' | 'serverVersion', { gitVersion: string }>;
    expect(versions.serverVersion.gitVersion).toMatch(/^v1\.\d+\.\d+$/);
    expect(versions.clientVersion.gitVersion).toBe(versions.serverVersion.gitVersion);
  });

  test('takes the admin token and writes the call to its audit log', async () => {
    const { server, caPem, adminToken } = controlPlane;
    const client = createClient({ server, ca: { pem: caPem }, auth: { kind: 'token', token: adminToken } });
    const name = `audited-${process.pid}`;
    await client.create(configMaps, { metadata: { name, namespace: 'default' } });
    await client.close();
    await expect.poll(() => readFileSync(controlPlane.auditLogPath, 'utf8')).toContain(name);
  });

  test('keeps its address and its objects over a restart of kube-apiserver', async () => {
    const connection = await loadKubeconfig(controlPlane.kubeconfigPath);
    const before = createClient(connection);
    await installDefinitions(before);
    const { items } = await before.list(customResourceDefinitions);
    await before.close();
    await controlPlane.stopApiServer(0);
    expect(processesIn(controlPlane.dir)).not.toContain('kube-apiserver');
    await controlPlane.startApiServer();
    const after = createClient(connection);
    expect((await after.list(customResourceDefinitions)).items).toHaveLength(items.length);
    await after.close();
  });

  test('leaves its neighbour alone', async () => {
    const neighbour = await ownControlPlane({ components: [] });
    expect(neighbour.server).not.toBe(controlPlane.server);
    await expect.poll(() => processesIn(neighbour.dir).sort()).toEqual(['etcd', 'kube-apiserver']);
    await neighbour.remove();
    expect(processesIn(neighbour.dir)).toEqual([]);
    expect(existsSync(neighbour.dir)).toBe(false);
    await expect.poll(() => processesIn(controlPlane.dir).sort()).toEqual(components);
  });

  // Last: the control plane is broken afterwards.
  test('reports a component that ends by itself, with its last words', async () => {
    process.kill(pidOf(controlPlane, 'etcd'), 'SIGTERM');
    const error = await controlPlane.failed;
    expect(error.message).toMatch(/^etcd ended \((exit code|signal) \w+\); its last lines:\n/);
  });
});
