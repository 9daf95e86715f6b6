import { expect, onTestFinished } from 'vitest';
import type { Image } from '../../src/api/image.ts';
import { images, pods, vms } from '../../src/api/resources.ts';
import type { Vm, VmSpecInput } from '../../src/api/vm.ts';
import { isSvc3Error } from '../../src/errors.ts';
import { findCondition } from '../../src/controller/conditions.ts';
import type { KubeClient } from '../../src/kube/types.ts';
import { podNameOf } from '../../src/controllers/vm/names.ts';
import type { VmSettings } from '../../src/controllers/vm/settings.ts';
import { withFaults } from '../support/faultclient.ts';
import { startVmOperator, type TestOperator } from '../support/operator.ts';
import { simulateKubelet, type SimulatedKubelet } from '../support/kubelet.ts';
import type { TestRegistryOptions } from '../support/registry.ts';
import {
  anImage,
  becomesReady,
  imageCluster,
  soon,
  startImageOperator,
  type ImageCluster,
} from '../integration/image/harness.ts';
import { openRunnerOf, runnerOf, type SavedVm } from '../integration/image/savedvm.ts';

/** Control plane, store, worker processes and a node: VMs with real runners, whose disks are gone with their pods. */
export interface SavingWorld extends ImageCluster {
  readonly kubelet: SimulatedKubelet;
}

export async function savingWorld(options?: TestRegistryOptions): Promise<SavingWorld> {
  const cluster = await imageCluster(options);
  const kubelet = simulateKubelet(cluster.client);
  // Worker pods are processes of their own.
  kubelet.behave(({ metadata }) => ({
    kind: metadata.name?.startsWith('svc3-vm-') ? 'run' : 'pending',
  }));
  await kubelet.addNode({ name: 'n1' });
  return {
    ...cluster,
    kubelet,
    async remove() {
      await kubelet.stop();
      await cluster.remove();
    },
  };
}

/** The controllers of VMs and images of one operator. */
export async function startOperator(
  world: SavingWorld,
  {
    vm,
    client = world.client,
    settings = {},
    tellsRunner = false,
  }: {
    vm?: SavedVm;
    client?: KubeClient;
    settings?: Partial<VmSettings>;
    /** Whether the VM controller tells the VM's runner what is asked for. */
    tellsRunner?: boolean;
  } = {},
): Promise<TestOperator> {
  // A namespace with Pod Security `restricted` has no host ports.
  const vmOperator = await startVmOperator(
    client,
    { portRanges: {}, store: world.settings.store, ...settings },
    () => (vm !== undefined && tellsRunner ? { openRunner: openRunnerOf(vm) } : {}),
  );
  const imageOperator =
    vm === undefined
      ? startImageOperator(client, world.settings)
      : startImageOperator(
          client,
          { ...world.settings, runnerPort: vm.runner.port },
          { openRunner: openRunnerOf(vm) },
        );
  const operator = {
    stop: async () => void (await Promise.all([vmOperator.stop(), imageOperator.stop()])),
  };
  onTestFinished(() => operator.stop());
  return operator;
}

/** An Image `base` in a namespace of its own, and a VM `vm` that runs from it. No operator is left. */
export async function aDeployedVm(
  world: SavingWorld,
  specOf: (namespace: string) => Promise<VmSpecInput> | VmSpecInput = () => ({ image: 'base' }),
): Promise<SavedVm> {
  const { client } = world;
  const namespace = await world.namespace();
  const operator = await startOperator(world);
  await client.create(images, anImage(namespace, 'base', { blank: { size: '64Mi' } }));
  await becomesReady(client, namespace, 'base');
  await deploy(world, namespace, await specOf(namespace));
  await operator.stop();
  const vm = await runnerOf(await client.get(vms, 'vm', namespace));
  endWithPod(world, vm);
  return vm;
}

/** As with kubectl: no finalizer of ours comes with it. */
export async function deploy(
  world: SavingWorld,
  namespace: string,
  spec: VmSpecInput,
  name = 'vm',
): Promise<void> {
  const { client } = world;
  const metadata = { name, namespace };
  await client.create(vms, { metadata, spec: { cpu: 1, memory: '256Mi', ...spec } } as Vm);
  await expect
    .poll(
      async () => findCondition((await client.get(vms, name, namespace)).status?.conditions, 'Ready'),
      soon,
    )
    .toMatchObject({ status: 'True' });
}

/** What the kubelet does to a runner whose pod is deleted. */
function endWithPod({ client }: SavingWorld, { namespace, name, runner }: SavedVm): void {
  const over = new AbortController();
  onTestFinished(() => over.abort());
  const watch = async (): Promise<void> => {
    while (!over.signal.aborted) {
      const pod = await found(client.get(pods, podNameOf(name), namespace));
      if (pod === undefined || pod.metadata.deletionTimestamp !== undefined)
        return void runner.process.kill('SIGKILL');
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };
  watch().catch(() => undefined);
}

/** Undefined where there is no such object. */
export async function found<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (isSvc3Error(error, 'NotFound')) return undefined;
    throw error;
  }
}

export const save = (world: SavingWorld, { namespace }: SavedVm, name: string): Promise<Image> =>
  world.client.create(images, anImage(namespace, name, { vm: { name: 'vm', mode: 'Save' } }));

export const commit = (
  world: SavingWorld,
  { namespace }: SavedVm,
  image: string,
  request: string,
): Promise<Image> =>
  world.client.patch(
    images,
    { name: image, namespace },
    { type: 'merge', body: { spec: { commit: { vm: 'vm', request } } } },
  );

/** Waits until VM and pod are gone. */
/**
 * Kills an operator at a write, the answer of which is lost, and then another one at the same, which is lost itself.
 *
 * @param at - number of the write, from 1
 */
export async function untilKilledTwice(
  { client }: SavingWorld,
  at: number,
  start: (client: KubeClient) => Promise<TestOperator>,
): Promise<void> {
  for (const fault of ['lostAnswer', 'lostRequest'] as const) {
    let seen = 0;
    const faulty = withFaults(client, () => {
      seen += 1;
      if (seen < at) return 'none';
      queueMicrotask(() => faulty.crash());
      return seen === at ? fault : 'lostRequest';
    });
    const dying = await start(faulty.client);
    await expect.poll(() => seen >= at, soon).toBe(true);
    await dying.stop();
  }
}

export async function untilGone({ client }: SavingWorld, { namespace }: SavedVm): Promise<void> {
  await expect.poll(() => found(client.get(vms, 'vm', namespace)), soon).toBeUndefined();
  expect(await found(client.get(pods, podNameOf('vm'), namespace))).toBeUndefined();
}
