import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { leases, secrets, vmConfigs } from '../../../src/api/resources.ts';
import { createControlKey } from '../../../src/runnerapi/token.ts';
import { freePorts } from '../../../src/localcluster/controlplane/ports.ts';
import { slow, type VmNamespace, type VmWorld, vmWorld } from './harness.ts';

const program = join(import.meta.dirname, '../../../src/bin/operator.ts');

let world: VmWorld;
let space: VmNamespace;
const running: ChildProcess[] = [];

beforeAll(async () => {
  world = await vmWorld();
  space = await world.namespace('processes');
  for (const name of ['svc3-system', 'svc3-credentials', 'svc3-node']) await world.namespace(name);
  await world.kubelet.addNode({ name: 'n1' });
});

afterAll(async () => {
  for (const child of running) child.kill('SIGKILL');
  await world?.stop();
});

interface Operator {
  readonly child: ChildProcess;
  readonly health: string;
  log(): string;
}

function startOperator(name: string, port: number, environment: NodeJS.ProcessEnv = {}): Operator {
  const child = spawn(process.execPath, [program], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH: process.env['PATH'],
      KUBECONFIG: world.controlPlane.kubeconfigPath,
      POD_NAME: name,
      SVC3_RUNNER_IMAGE: 'registry.example.com/svc3-runner:1',
      SVC3_HEALTH_HOST: '127.0.0.1',
      SVC3_HEALTH_PORT: `${port}`,
      ...environment,
    },
  });
  running.push(child);
  let text = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => {
      text += chunk.toString();
    });
  return { child, health: `http://127.0.0.1:${port}`, log: () => text };
}

async function holder(): Promise<string> {
  const lease = await world.client.get(leases, 'svc3-operator', 'svc3-system').catch(() => undefined);
  return lease?.spec?.holderIdentity ?? '';
}

async function statusOf(url: string): Promise<number> {
  return fetch(url).then(
    ({ status }) => status,
    () => 0,
  );
}

/** With a digest and a store nobody has to be asked. */
const image = `127.0.0.1:1/debian@sha256:${'0'.repeat(64)}`;

describe('the operator as a process', () => {
  test('of two one leads, both are ready, and the other takes over at once when it is ended', async () => {
    const [portA, portB] = (await freePorts(2)) as [number, number];
    const a = startOperator('operator-a', portA);
    await expect.poll(holder, slow).toMatch(/^operator-a-/);
    const b = startOperator('operator-b', portB);
    for (const { health } of [a, b]) {
      await expect.poll(() => statusOf(`${health}/readyz`), slow).toBe(200);
      expect(await statusOf(`${health}/livez`)).toBe(200);
    }
    await space.deploy('first', { image });
    await space.untilReady('first');

    a.child.kill('SIGTERM');
    const [code] = (await once(a.child, 'exit')) as [number];
    expect(code).toBe(0);
    await expect.poll(holder, slow).toMatch(/^operator-b-/);
    await space.deploy('second', { image });
    await space.untilReady('second');
    const metrics = await (await fetch(`${b.health}/metrics`)).text();
    expect(metrics).toMatch(/svc3_\w*reconcile\w*{controller="vm"/);
    b.child.kill('SIGTERM');
    await once(b.child, 'exit');
  });

  test('says of VMConfigs whether what they name is there', async () => {
    const [port] = (await freePorts(1)) as [number];
    const { child, health } = startOperator('operator-c', port);
    const key = { name: 'web', namespace: space.name };
    await world.client.create(vmConfigs, { metadata: key, spec: { image: 'missing' } });
    const said = async () => (await world.client.get(vmConfigs, key.name, key.namespace)).status?.conditions;
    const ready = { type: 'Ready', status: 'False', reason: 'ImageNotFound' };
    await expect.poll(said, slow).toEqual(expect.arrayContaining([expect.objectContaining(ready)]));
    // A pass is counted once it has heard that its write was taken.
    const metrics = async () => (await fetch(`${health}/metrics`)).text();
    await expect.poll(metrics, slow).toMatch(/svc3_\w*reconcile\w*{controller="vmconfig"/);
    child.kill('SIGTERM');
    await once(child, 'exit');
  });

  test("the installation's control key is made once and only its public half leaves the Secret", async () => {
    const secret = await world.client.get(secrets, 'svc3-control-keys', 'svc3-system');
    const pem = Buffer.from(secret.data?.['current'] ?? '', 'base64').toString();
    expect(pem).toMatch(/^-----BEGIN PRIVATE KEY-----/);
    const annotation = (await space.pod('first'))?.metadata.annotations?.['svc3.dev/control-keys'];
    expect(annotation).toMatch(/^[\w-]{43}$/);
    expect(running.length).toBeGreaterThan(1);
    expect((await space.pod('second'))?.metadata.annotations?.['svc3.dev/control-keys']).toBe(annotation);
  });

  test('a control key that is rotated reaches VMs that nothing else happens to, and one that is deleted is made again', async () => {
    const [port] = (await freePorts(1)) as [number];
    const { child } = startOperator('operator-d', port);
    const key = { name: 'svc3-control-keys', namespace: 'svc3-system' };
    const keysOfPods = () =>
      Promise.all(
        ['first', 'second'].map(
          async (name) => (await space.pod(name))?.metadata.annotations?.['svc3.dev/control-keys'],
        ),
      );
    await expect.poll(holder, slow).toMatch(/^operator-d-/);
    const [before = ''] = await keysOfPods();
    const pem = createControlKey().privateKey.export({ type: 'pkcs8', format: 'pem' });
    const { data = {} } = await world.client.get(secrets, key.name, key.namespace);
    const rotated = { current: Buffer.from(pem).toString('base64'), previous: data['current'] ?? '' };
    await world.client.patch(secrets, key, { type: 'merge', body: { data: rotated } });
    const both = new RegExp(`^[\\w-]{43},${before}$`);
    const reached = expect.stringMatching(both);
    await expect.poll(keysOfPods, slow).toEqual([reached, reached]);

    await world.client.delete(secrets, key);
    const another = expect.stringMatching(/^[\w-]{43}$/);
    await expect.poll(keysOfPods, slow).toEqual([another, another]);
    expect(await keysOfPods()).not.toContain(before);
    child.kill('SIGTERM');
    await once(child, 'exit');
  });

  test.each([
    ['SVC3_CPU_OVERCOMMIT', '0'],
    ['SVC3_PORT_RANGE_SSH', '8871-8822'],
    ['SVC3_ACCELERATOR', 'xen'],
  ])('a wrong setting %s=%s ends it with a sentence that names it', async (name, value) => {
    const [port] = (await freePorts(1)) as [number];
    const { child, log } = startOperator('wrong', port, { [name]: value });
    const [code] = (await once(child, 'close')) as [number];
    expect(code).toBe(1);
    expect(log()).toMatch(new RegExp(`^svc3 operator: ${name}: .*\n$`));
  });
});
