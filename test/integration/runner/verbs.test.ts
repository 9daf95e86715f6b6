import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Vm } from '../../../src/api/vm.ts';
import { startTestApi, type TestApi } from '../../support/api.ts';
import { startVmOperator, type TestOperator } from '../../support/operator.ts';
import { vmWorld, type VmNamespace, type VmWorld } from '../vm/harness.ts';
import { allowBootTime, aPod, startRunner, type RunningRunner } from './harness.ts';

allowBootTime();

/** Guests boot and shut down meanwhile, emulated. */
const eventually = { timeout: 150_000, interval: 100 };

let world: VmWorld;
let space: VmNamespace;
let operator: TestOperator | undefined;
let api: TestApi | undefined;
let runner: RunningRunner;
let following: NodeJS.Timeout | undefined;

beforeAll(async () => {
  world = await vmWorld();
  space = await world.namespace('verbs');
  await world.kubelet.addNode({ name: 'n1' });
});

afterAll(async () => {
  clearInterval(following);
  await operator?.stop();
  await api?.close(0);
  await world?.stop();
});

async function startBoth(): Promise<TestApi> {
  operator = await startVmOperator(world.client, {}, () => ({ openRunner: () => runner.client }));
  return (api = await startTestApi(world.client));
}

/** Nothing is finished, and nobody is told. */
async function killBoth(): Promise<void> {
  await Promise.all([operator?.stop(), api?.close(0)]);
}

/** The pod is ready while the guest runs, as the kubelet's probe finds. */
function followRunner(): void {
  let last = '';
  following = setInterval(() => {
    runner.client.state().then(
      ({ powerState }) => {
        if (powerState === last) return;
        last = powerState;
        world.kubelet.behave(() => ({ kind: powerState === 'Running' ? 'run' : 'unready' }));
      },
      () => undefined,
    );
  }, 250);
}

const exec = (through: TestApi, command: string, query = '') =>
  through.call('POST', `/api/v1/namespaces/${space.name}/vms/vm/exec${query}`, {
    token: world.controlPlane.adminToken,
    body: { command },
  });

/** How often the runner has begun a verb. */
const begun = (verb: string) => runner.log().split(`"action":"${verb}"`).length - 1;

async function untilIt(is: string): Promise<Vm> {
  const seen = async () => {
    const { metadata, status } = await space.vm('vm');
    const ready = status?.conditions?.find(({ type }) => type === 'Ready');
    return ready?.observedGeneration === metadata.generation ? `${status?.powerState} ${ready?.reason}` : '';
  };
  await expect.poll(seen, eventually).toBe(is);
  return space.vm('vm');
}

/** Gives a verb, and ends api and operator when the runner has begun it. */
async function interrupted(through: TestApi, command: string): Promise<number> {
  const before = begun(command);
  const asked = exec(through, command);
  await expect.poll(() => begun(command), eventually).toBe(before + 1);
  await killBoth();
  return (await asked).status;
}

test('stop, suspend and revert are carried out once, whoever of operator and api ends in the middle', async () => {
  const { metadata } = await space.deploy('vm');
  const spec = { namespace: space.name, name: 'vm', uid: metadata.uid ?? '' };
  runner = await startRunner(await aPod({ vm: spec }));
  followRunner();
  let through = await startBoth();
  await untilIt('Running Running');

  // Whoever still waits learns that it will be done.
  expect(await interrupted(through, 'stop')).toBe(202);
  through = await startBoth();
  await untilIt('Stopped Stopped');
  expect(begun('stop')).toBe(1);

  expect((await exec(through, 'start')).status).toBe(200);
  await operator?.stop();
  expect((await exec(through, 'suspend', '?wait=false')).status).toBe(202);
  await killBoth();
  through = await startBoth();
  await untilIt('Suspended Suspended');
  expect(begun('suspend')).toBe(1);

  await interrupted(through, 'revert');
  await startBoth();
  const reverted = await untilIt('Running Running');
  expect(reverted.status?.revertRequest).toBe(reverted.spec.revertRequest);
  expect(reverted.spec.revertRequest).toBeDefined();
  expect(begun('revert')).toBe(1);
  expect((await runner.client.state()).revertRequest).toBe(reverted.spec.revertRequest);
});
