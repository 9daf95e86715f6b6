import { vms } from '../../src/api/resources.ts';
import type { Vm } from '../../src/api/vm.ts';
import { parseQuantity } from '../../src/api/quantity.ts';
import { memoryBytes } from '../../src/items/vm.ts';
import { isSvc3Error } from '../../src/errors.ts';
import type { KubeClient } from '../../src/kube/types.ts';
import { reportVm, runningStatus } from './api.ts';

/** Reports every VM of a namespace as being what its spec wishes, as the operator does when nothing goes wrong. */
export function startStandInOperator(
  client: KubeClient,
  namespace: string,
  options: { node?: string; ignore?: (vm: Vm) => boolean } = {},
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
      await reportVm(client, vm, statusOf(vm, options.node ?? 'node-1')).catch((error: unknown) => {
        if (!isSvc3Error(error, 'NotFound', 'Conflict')) throw error;
      });
    }
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

function statusOf(vm: Vm, node: string) {
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
      cpu,
      memory: String(bytes),
      gpuPassthrough,
      vncConsole: console,
    },
  };
}
