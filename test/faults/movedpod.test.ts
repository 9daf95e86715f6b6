/** A pod whose node was restarted is the same pod at another address: whoever calls its runner calls it there. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { pods, vms } from '../../src/api/resources.ts';
import type { RunnerState } from '../../src/api/runner.ts';
import { freePorts } from '../../src/localcluster/controlplane/ports.ts';
import { createRunnerClient } from '../../src/runnerapi/client.ts';
import { createControlKey, parseControlKeys, signControlToken } from '../../src/runnerapi/token.ts';
import { createCertificate } from '../../src/runner/certificate.ts';
import { createControlServer } from '../../src/runner/control.ts';
import { slow, type VmNamespace, type VmWorld, vmWorld } from '../integration/vm/harness.ts';
import { keptLog } from '../support/api.ts';
import { startVmOperator, type TestOperator } from '../support/operator.ts';
import { runnerState } from '../unit/controllers/vm/builders.ts';

let world: VmWorld;
let space: VmNamespace;
let operator: TestOperator;
let port: number;
let server: { close(): Promise<void> } | undefined;
let vmUid: string;
let certificate: ReturnType<typeof createCertificate>;
const keys = createControlKey();
const runner = { state: runnerState(), verbs: [] as string[] };

beforeAll(async () => {
  world = await vmWorld();
  space = await world.namespace('moved');
  await world.kubelet.addNode({ name: 'n1' });
  [port = 0] = await freePorts(1);
  operator = await startOperator();
});

afterAll(async () => {
  await server?.close();
  await operator?.stop();
  await world?.stop();
});

const startOperator = () =>
  startVmOperator(world.client, {}, () => ({
    openRunner: ({ address, vmUid: uid, pin, signal }) =>
      createRunnerClient({
        address,
        port,
        vmUid: uid,
        signal,
        ...(pin === undefined ? {} : { pin }),
        sign: (claims) => signControlToken(claims, keys.privateKey),
      }),
  }));

/**
 * The runner's real endpoint on an address that the pod has from now on, and nothing where it was. It cannot show that a kubelet gives the pod
 * another address when its node is back: no test asks for that, test/life/reboot.test.ts that the VM is Ready again in the same pod.
 */
async function moveTo(address: string): Promise<void> {
  await server?.close();
  const become = (state: Partial<RunnerState>) => (runner.state = runnerState({ vmUid, ...state }));
  const moved = createControlServer({
    uid: () => vmUid,
    certificate,
    keys: async () => parseControlKeys(keys.publicKey),
    routes: [
      { method: 'GET', pattern: /^\/v1\/state$/, action: 'state', run: async () => runner.state },
      {
        method: 'POST',
        pattern: /^\/v1\/power$/,
        action: 'power',
        run: async ({ body }) => {
          const { action } = body as { action: string };
          runner.verbs.push(`${action} at ${address}`);
          become(action === 'stop' ? { powerState: 'Stopped', reason: 'Requested' } : {});
          world.kubelet.behave(() => ({ kind: action === 'stop' ? 'unready' : 'run', podIP: address }));
          return runner.state;
        },
      },
    ],
    streams: [],
    log: keptLog() as never,
  });
  await moved.listen(address, port);
  server = moved;
  become({});
  world.kubelet.behave(() => ({ kind: 'run', podIP: address }));
}

const request = (spec: object) =>
  world.client.patch(vms, { name: 'vm', namespace: space.name }, { type: 'merge', body: { spec } });
const addressOf = async () => (await space.vm('vm')).status?.runner?.address;

test('a verb reaches the runner at its new address', async () => {
  vmUid = (await space.deploy('vm')).metadata.uid ?? '';
  certificate = createCertificate(vmUid);
  await moveTo('127.0.0.1');
  await space.untilReady('vm');
  const uid = (await space.pod('vm'))?.metadata.uid;
  await moveTo('127.0.0.2');
  await expect.poll(addressOf, slow).toBe('127.0.0.2');
  expect((await space.pod('vm'))?.metadata.uid).toBe(uid);
  await request({ powerState: 'Stopped' });
  await space.until('vm', 'Ready', { status: 'True', message: 'the VM is stopped' });
  expect(runner.verbs).toEqual(['stop at 127.0.0.2']);
});

test('the new address is written where nobody saw the pod move', async () => {
  await request({ powerState: 'Running' });
  await expect.poll(() => runner.verbs, slow).toContain('start at 127.0.0.2');
  await expect.poll(async () => (await space.condition('vm', 'Ready')).message, slow).toBe('the VM runs');
  await operator.stop();
  await moveTo('127.0.0.3');
  await expect.poll(async () => (await space.pod('vm'))?.status?.podIP, slow).toBe('127.0.0.3');
  operator = await startOperator();
  await expect.poll(addressOf, slow).toBe('127.0.0.3');
});

test('a runner at the new address that shows another certificate is not believed', async () => {
  runner.verbs = [];
  await request({ powerState: 'Stopped' });
  await expect.poll(() => runner.verbs, slow).toEqual(['stop at 127.0.0.3']);
  await request({ powerState: 'Running' });
  await expect.poll(() => runner.verbs, slow).toEqual(['stop at 127.0.0.3', 'start at 127.0.0.3']);
  runner.verbs = [];
  certificate = createCertificate(vmUid);
  await moveTo('127.0.0.4');
  await expect.poll(addressOf, slow).toBe('127.0.0.4');
  const name = (await space.pod('vm'))?.metadata.name ?? '';
  const unreachable = {
    status: 'Unknown' as const,
    reason: 'RunnerUnreachable',
    message: `the runner of pod ${space.name}/${name} shows another certificate than before: its volume was lost (node wiped, or etcd restored); delete the pod for another one`,
  };
  await space.until('vm', 'Ready', unreachable);
  await request({ powerState: 'Stopped' });
  await expect
    .poll(async () => (await space.condition('vm', 'Ready')).observedGeneration, slow)
    .toBe((await space.vm('vm')).metadata.generation);
  expect(await space.condition('vm', 'Ready')).toMatchObject(unreachable);
  expect(runner.verbs).toEqual([]);
});

test('nor is it by an operator that has started since, which says so once', async () => {
  await operator.stop();
  await request({ powerState: 'Running' });
  operator = await startOperator();
  await expect
    .poll(async () => (await space.condition('vm', 'Ready')).observedGeneration, slow)
    .toBe((await space.vm('vm')).metadata.generation);
  expect(await space.condition('vm', 'Ready')).toMatchObject({ reason: 'RunnerUnreachable' });
  expect(runner.verbs).toEqual([]);
  expect((await space.events('vm')).filter((reason) => reason === 'RunnerUnreachable')).toHaveLength(1);
});

test('the VM is Ready again in another pod, as the condition says', async () => {
  const old = await space.pod('vm');
  await world.client.delete(pods, { name: old?.metadata.name ?? '', namespace: space.name });
  await space.untilReplaced('vm', old);
  await space.until('vm', 'Ready', { status: 'True', message: 'the VM runs' });
  await request({ powerState: 'Stopped' });
  await expect.poll(() => runner.verbs, slow).toEqual(['stop at 127.0.0.4']);
});
