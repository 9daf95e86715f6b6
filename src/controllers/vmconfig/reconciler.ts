import type { Image, Iso } from '../../api/image.ts';
import type { Condition } from '../../api/object.ts';
import { isTerminating } from '../../api/owner.ts';
import { conditionTypes } from '../../api/reasons.ts';
import { typeMeta, vmConfigs } from '../../api/resources.ts';
import type { Architecture, VmConfig, VmConfigStatus } from '../../api/vmconfig.ts';
import { findCondition } from '../../controller/conditions.ts';
import { splitKey } from '../../controller/controller.ts';
import type { Expectations } from '../../controller/expectations.ts';
import { applyStatus, isSameStatus } from '../../controller/status.ts';
import type { EventRecorder, Informer, KubeClient, ReconcileResult } from '../../kube/types.ts';
import { awaitedMs, statusOf } from './status.ts';
import { architectureOf, type Disks, judge } from './verdict.ts';

/** What the controller reads, from memory. */
export interface VmConfigCaches {
  readonly vmConfigs: Informer<VmConfig>;
  readonly images: Informer<Image>;
  readonly isos: Informer<Iso>;
}

export interface VmConfigReconcilerParts {
  readonly client: KubeClient;
  readonly recorder: EventRecorder;
  readonly caches: VmConfigCaches;
  /** By `namespace/name`. */
  readonly expected: Expectations<VmConfig>;
  readonly now: () => Date;
}

/** Reconciles one VMConfig: the only thing written is its status, which says whether what it names can be used. */
export function createVmConfigReconciler(
  parts: VmConfigReconcilerParts,
): (key: string) => Promise<ReconcileResult | void> {
  const { caches, expected, now } = parts;
  return async (key) => {
    const { namespace = '', name } = splitKey(key);
    const config = expected.current(key, caches.vmConfigs.get(name, namespace));
    if (config === undefined || isTerminating(config)) return undefined;
    const disks: Disks = {
      image: (image) => caches.images.get(image, namespace),
      iso: (iso) => caches.isos.get(iso, namespace),
    };
    const verdict = judge(config, disks);
    const time = now();
    await report(parts, key, config, {
      ...statusOf(config, verdict, time),
      ...withArchitecture(architectureOf(config, disks)),
    });
    const requeueAfterMs = awaitedMs(config, verdict, time);
    return requeueAfterMs === undefined ? undefined : { requeueAfterMs };
  };
}

function withArchitecture(architecture: Architecture | undefined): Pick<VmConfigStatus, 'architecture'> {
  return architecture === undefined ? {} : { architecture };
}

async function report(
  { client, recorder, expected }: VmConfigReconcilerParts,
  key: string,
  config: VmConfig,
  status: VmConfigStatus,
): Promise<void> {
  if (isSameStatus(config.status, status)) return;
  const written = await applyStatus(client, vmConfigs, config, status);
  if (written === undefined) return;
  expected.wrote(key, written);
  tell(recorder, config, status);
}

/** A Warning when the VMConfig becomes Stalled, or for another reason; a Normal Event when it becomes Ready after it was not. */
function tell(recorder: EventRecorder, { metadata, status: before }: VmConfig, status: VmConfigStatus): void {
  const conditionsOf = (conditions: VmConfigStatus['conditions']) => ({
    ready: findCondition(conditions, conditionTypes.ready),
    stalled: findCondition(conditions, conditionTypes.stalled),
  });
  const was = conditionsOf(before?.conditions);
  const is = conditionsOf(status.conditions);
  const event = (type: 'Normal' | 'Warning', { reason, message }: Condition) =>
    recorder.event({ ...typeMeta(vmConfigs), metadata }, { type, reason, message });
  if (is.stalled !== undefined && is.stalled.reason !== was.stalled?.reason) event('Warning', is.stalled);
  if (is.ready?.status === 'True' && was.ready?.status === 'False') event('Normal', is.ready);
}
