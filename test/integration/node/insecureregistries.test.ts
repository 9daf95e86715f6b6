import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { namespaces, objectNames } from '../../../src/api/meta.ts';
import { configMaps, events, namespaces as namespaceResource, nodes } from '../../../src/api/resources.ts';
import { createClient, type RootClient } from '../../../src/kube/client.ts';
import { loadKubeconfig } from '../../../src/kube/connection.ts';
import { freePorts } from '../../../src/localcluster/controlplane/ports.ts';
import { ownControlPlane, type OwnControlPlane } from '../../support/controlplane.ts';

const program = join(import.meta.dirname, '../../../src/bin/node-agent.ts');
const soon = { interval: 50 };
const registry = 'registry.example.com:5000';

let controlPlane: OwnControlPlane;
let client: RootClient;
let round = 0;
let agent: { child: ChildProcess; health: string; directory: string; logged(): string } | undefined;

beforeAll(async () => {
  controlPlane = await ownControlPlane({ components: [] });
  client = createClient(await loadKubeconfig(controlPlane.kubeconfigPath));
  await client.apply(namespaceResource, { metadata: { name: namespaces.node } });
  await client.create(nodes, { metadata: { name: 'node-1' } });
});

afterEach(stopAgent);

afterAll(async () => {
  await client?.close();
  await controlPlane?.remove();
});

async function stopAgent(): Promise<void> {
  const child = agent?.child;
  agent = undefined;
  if (child === undefined || child.exitCode !== null) return;
  child.kill('SIGTERM');
  await once(child, 'exit');
}

/** The real process, as the DaemonSet starts it. */
async function startAgent(containerdConfig = ''): Promise<NonNullable<typeof agent>> {
  const directory = join(controlPlane.dir, `certs-${(round += 1)}`);
  await mkdir(directory);
  const configFile = `${directory}.toml`;
  await writeFile(configFile, containerdConfig);
  const [port] = (await freePorts(1)) as [number];
  const child = spawn(process.execPath, [program], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: {
      PATH: process.env['PATH'] ?? '',
      KUBECONFIG: controlPlane.kubeconfigPath,
      NODE_NAME: 'node-1',
      SVC3_HEALTH_PORT: String(port),
      SVC3_HEALTH_HOST: '127.0.0.1',
      SVC3_CERTS_DIRECTORY: directory,
      SVC3_CONTAINERD_CONFIG: configFile,
    },
  });
  let logged = '';
  child.stdout.on('data', (chunk: Buffer) => (logged += chunk.toString('utf8')));
  agent = { child, directory, health: `http://127.0.0.1:${port}`, logged: () => logged };
  return agent;
}

async function allow(servers: string[]): Promise<void> {
  await client.apply(configMaps, {
    metadata: { name: objectNames.insecureRegistries, namespace: namespaces.node },
    data: { servers: servers.join('\n') },
  });
}

/** Of the Events of a kubelet or an agent that `kubectl describe node` shows: it asks for those with the name as UID. */
const reasons = async () =>
  (await client.list(events, { namespace: 'default' })).items
    .filter(({ regarding }) => regarding?.uid === 'node-1')
    .map(({ reason }) => reason);

describe('the node agent', () => {
  test('writes the files for what the operator allows, follows it, and takes them back', async () => {
    await allow([`http://${registry}`]);
    const { directory, health } = await startAgent();
    const read = () => readFile(join(directory, registry, 'hosts.toml'), 'utf8').catch(() => '');
    await expect.poll(read, soon).toContain(`server = "http://${registry}"`);
    expect((await fetch(`${health}/readyz`)).status).toBe(200);
    expect((await fetch(`${health}/livez`)).status).toBe(200);
    await allow([`https://${registry}`]);
    await expect.poll(read, soon).toContain('skip_verify = true');
    await allow([]);
    await expect.poll(() => readdir(directory), soon).toEqual([]);
    await allow([`http://${registry}`]);
    await expect.poll(read, soon).toContain(`server = "http://${registry}"`);
    await client.delete(configMaps, { name: objectNames.insecureRegistries, namespace: namespaces.node });
    await expect.poll(() => readdir(directory), soon).toEqual([]);
  });

  test('says so, once, where somebody else has configured the registry, and leaves it alone', async () => {
    await allow([]);
    const { directory, logged } = await startAgent();
    const file = join(directory, registry, 'hosts.toml');
    await mkdir(join(directory, registry));
    await writeFile(file, 'server = "http://mirror.example.org"\n');
    await allow([`http://${registry}`, 'http://other.example.com:5000']);
    await expect.poll(() => readdir(directory), soon).toContain('other.example.com:5000');
    expect(await readFile(file, 'utf8')).toBe('server = "http://mirror.example.org"\n');
    await expect.poll(reasons, soon).toContain('ForeignRegistryConfig');
    expect(logged().split('ForeignRegistryConfig')).toHaveLength(2);
  });

  test('says so where containerd reads its registries from another folder', async () => {
    await allow([`http://${registry}`]);
    const { logged } = await startAgent(
      '[plugins."io.containerd.cri.v1.images".registry]\nconfig_path = "/opt/certs.d"\n',
    );
    await expect.poll(logged, soon).toContain('containerd reads its registries from /opt/certs.d');
    await expect.poll(reasons, soon).toContain('RegistryConfigPath');
  });

  test('that is ended leaves the files, so that pods go on pulling', async () => {
    await allow([`http://${registry}`]);
    const { directory, child } = await startAgent();
    await expect.poll(() => readdir(directory), soon).toEqual([registry]);
    child.kill('SIGTERM');
    const [code] = (await once(child, 'exit')) as [number];
    expect(code).toBe(0);
    expect(await readdir(directory)).toEqual([registry]);
  });
});
