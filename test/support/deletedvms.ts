import { finalizer } from '../../src/api/meta.ts';
import { vms } from '../../src/api/resources.ts';
import { isSvc3Error } from '../../src/errors.ts';
import { createInformer } from '../../src/kube/informer.ts';
import type { KubeClient } from '../../src/kube/types.ts';

/**
 * Lets go of VMs that are being deleted, as the operator does once their guests have ended: for clusters without one. It cannot show when a guest
 * has ended, nor what goes with its VM; test/e2e/vm.test.ts does.
 */
export function letGoOfDeletedVms(client: KubeClient): { stop(): Promise<void> } {
  const stopping = new AbortController();
  const informer = createInformer({ client, resource: vms });
  informer.onChange(({ kind, object: { metadata } }) => {
    const { name, namespace, uid, resourceVersion, finalizers = [], deletionTimestamp } = metadata;
    if (kind === 'deleted' || deletionTimestamp === undefined || !finalizers.includes(finalizer)) return;
    const rest = finalizers.filter((one) => one !== finalizer);
    const body = { metadata: { uid, resourceVersion, finalizers: rest } };
    client.patch(vms, { name, namespace }, { type: 'merge', body }).catch((error: unknown) => {
      if (!isSvc3Error(error, 'NotFound', 'Conflict') && !stopping.signal.aborted) throw error;
    });
  });
  const running = informer.run(stopping.signal);
  return {
    async stop() {
      stopping.abort();
      await running.catch(() => undefined);
    },
  };
}
