import type { KeyObject } from 'node:crypto';
import type { Secret } from '../../api/core.ts';
import { labels, objectNames } from '../../api/meta.ts';
import { secrets, typeMeta, vms } from '../../api/resources.ts';
import { type Controller, createController } from '../../controller/controller.ts';
import type { Runtime } from '../../controller/runtime.ts';
import type { Submitted } from '../../api/object.ts';
import { controlKeySecrets } from '../vm/runner/controlkeys.ts';
import { signMetricsToken } from '../../runnerapi/metricstoken.ts';

/** The control key is not there yet, in milliseconds. */
const keyWaitMs = 1_000;

/**
 * Keeps Secret `svc3-vm-metrics` of every namespace that has VMs: the token with which Prometheus reads their metrics. It is put right when
 * somebody changes it or the control key is another, and stays when the last VM is gone. To be made before the informers run.
 */
export function createMetricsTokenController(
  { client, informers, log, gate, metrics }: Runtime,
  signingKey: () => KeyObject | undefined,
): Controller {
  const vmCache = informers.get(vms);
  const tokens = informers.get(secrets, { fieldSelector: `metadata.name=${objectNames.metricsSecret}` });

  function hasVms(namespace: string): boolean {
    return vmCache.list(namespace).some(({ metadata }) => metadata.deletionTimestamp === undefined);
  }

  async function reconcile(namespace: string) {
    const key = signingKey();
    if (key === undefined) return { requeueAfterMs: keyWaitMs };
    const wanted = tokenSecret(namespace, signMetricsToken(namespace, key));
    const found = tokens.get(objectNames.metricsSecret, namespace);
    if (found?.data?.['token'] !== wanted.data?.['token'] && hasVms(namespace))
      await client.apply(secrets, wanted);
    return undefined;
  }

  const controller = createController({
    name: 'metricstoken',
    workers: 1,
    priorityOf: () => 'low',
    log,
    gate,
    metrics: metrics.controllers,
    reconcile,
  });
  vmCache.onChange(({ kind, object }) => {
    if (kind === 'added') controller.enqueue(object.metadata.namespace);
  });
  tokens.onChange(({ object }) => controller.enqueue(object.metadata.namespace));
  controlKeySecrets(informers).onChange(() => {
    for (const namespace of new Set(vmCache.list().map(({ metadata }) => metadata.namespace)))
      controller.enqueue(namespace);
  });
  return controller;
}

function tokenSecret(namespace: string, token: string): Submitted<Secret> {
  return {
    ...typeMeta(secrets),
    metadata: { name: objectNames.metricsSecret, namespace, labels: { [labels.partOf]: 'svc3' } },
    type: 'Opaque',
    data: { token: Buffer.from(token).toString('base64') },
  };
}
