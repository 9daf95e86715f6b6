import type { Image } from '../../src/api/image.ts';
import { images, vmConfigs, vms } from '../../src/api/resources.ts';
import type { Vm, VmStatus } from '../../src/api/vm.ts';
import type { VmConfigSpec } from '../../src/api/vmconfig.ts';
import { parseQuantity } from '../../src/api/quantity.ts';
import { memoryBytes } from '../../src/wire/vm.ts';
import { reasonsOfMissing, refusalSentence } from '../../src/placement/reasons.ts';
import { CPU } from '../../src/placement/resources.ts';
import { isSvc3Error } from '../../src/errors.ts';
import type { KubeClient } from '../../src/kube/types.ts';
import { condition, reportVm, runningStatus } from './api.ts';

/**
 * Reports every VM of a namespace as being what its spec requests, as the operator does when nothing goes wrong. It cannot show that a
 * VM runs or a disk is stored, nor when; test/life/gateway.test.ts and test/e2e/api.test.ts do.
 *
 * @param options - `cpu`: what the only node has; a VM that asks for more is reported to fit nowhere
 */
export function startStandInOperator(
  client: KubeClient,
  namespace: string,
  options: { node?: string; cpu?: number; ignore?: (vm: Vm) => boolean } = {},
) {
  const stopping = new AbortController();
  async function pass(): Promise<void> {
    const { items } = await client.list(vms, { namespace });
    for (const vm of items) {
      const { generation, deletionTimestamp } = vm.metadata;
      if (
        deletionTimestamp !== undefined ||
        vm.status?.observedGeneration === generation ||
        options.ignore?.(vm) === true
      )
        continue;
      const config = await configOf(client, vm);
      const { cpu = 2 } = { ...config, ...vm.spec };
      const status =
        cpu > (options.cpu ?? Infinity)
          ? withoutCpu
          : statusOf(vm, options.node ?? 'node-1', imageNameOf(vm, config));
      await quietly(reportVm(client, vm, status));
    }
    for (const image of (await client.list(images, { namespace })).items) await quietly(store(client, image));
  }
  const running = (async () => {
    while (!stopping.signal.aborted) {
      await pass();
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
  })();
  return {
    async stop() {
      stopping.abort();
      await running.catch(() => undefined);
    },
  };
}

async function quietly(work: Promise<unknown>): Promise<void> {
  await work.catch((error: unknown) => {
    if (!isSvc3Error(error, 'NotFound', 'Conflict')) throw error;
  });
}

/** What placement says where the only node lacks CPU. */
const withoutCpu: VmStatus = {
  conditions: [
    condition(
      'Scheduled',
      'False',
      'Unschedulable',
      refusalSentence(1, new Map(reasonsOfMissing(1 << CPU).map((reason) => [reason, 1]))),
    ),
  ],
};

async function configOf(client: KubeClient, { metadata, spec }: Vm): Promise<VmConfigSpec | undefined> {
  if (spec.config === undefined) return undefined;
  const config = await client.get(vmConfigs, spec.config, metadata.namespace ?? '').catch(() => undefined);
  return config?.spec;
}

/** The Image that the VM is made from. */
function imageNameOf({ spec }: Vm, config: VmConfigSpec | undefined): string | undefined {
  const image = spec.image ?? config?.image;
  return image?.includes('/') === true ? undefined : image;
}

/** The disk of a VM is in the store as soon as it is asked for. */
async function store(client: KubeClient, { metadata, spec, status }: Image): Promise<void> {
  const { name, namespace, generation = 1 } = metadata;
  const isWanted = spec.source.vm !== undefined || spec.commit !== undefined;
  if (!isWanted || metadata.deletionTimestamp !== undefined || status?.observedGeneration === generation)
    return;
  const made = {
    observedGeneration: generation,
    digest: `sha256:${'0'.repeat(64)}`,
    conditions: [condition('Ready', 'True')],
    ...(spec.commit === undefined ? {} : { commitRequest: spec.commit.request }),
  };
  await client.patch(
    images,
    { name, namespace },
    { type: 'merge', body: { status: made } },
    { subresource: 'status' },
  );
}

function statusOf(vm: Vm, node: string, imageName: string | undefined) {
  const { cpu = 2, memory, gpuPassthrough = 'Disabled', vncConsole, powerState, revertRequest } = vm.spec;
  const console = vncConsole ?? (gpuPassthrough === 'Enabled' ? ('Disabled' as const) : ('Enabled' as const));
  const bytes = memory === undefined ? memoryBytes({ cpu }) : parseQuantity(memory);
  return {
    ...runningStatus,
    node,
    powerState,
    ...(revertRequest === undefined ? {} : { revertRequest }),
    effective: {
      ...runningStatus.effective!,
      ...(imageName === undefined ? {} : { imageName }),
      cpu,
      memory: String(bytes),
      gpuPassthrough,
      vncConsole: console,
    },
  };
}
