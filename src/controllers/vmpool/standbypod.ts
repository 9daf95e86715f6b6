import { randomBytes, randomUUID } from 'node:crypto';
import type { Pod } from '../../api/core.ts';
import { annotations, apiVersion, labels, standbyNamePrefix } from '../../api/meta.ts';
import type { Submitted } from '../../api/object.ts';
import type { RunnerSpecInput } from '../../api/runner.ts';
import type { EffectiveSettings, Vm } from '../../api/vm.ts';
import type { VmPool, VmPoolStatus } from '../../api/vmpool.ts';
import { buildPod, type PodInput } from '../vm/pod/pod.ts';
import { ownLabels } from '../vm/pod/podlabels.ts';
import { digest, templateDigest } from '../vm/facts/standby.ts';
import { runnerPullsWith, type VmSettings } from '../vm/settings.ts';

/** A new name for a pod of the pool: no two pods of it ever have the same. */
export function newStandbyName(pool: VmPool): string {
  return `${standbyNamePrefix}${pool.metadata.name}-${randomBytes(4).toString('hex')}`;
}

/**
 * The pool's template as a VM object, which kube-apiserver has none of: the functions that resolve the settings of VMs and build their
 * pods take one.
 *
 * @param name - of the pod
 */
export function templateVm({ metadata, spec: { template } }: VmPool, name: string): Vm {
  return {
    metadata: {
      name,
      namespace: metadata.namespace,
      // Stands in the probes of the pod, where nobody may guess it; the runner goes by the UID of its pod.
      uid: randomUUID(),
      resourceVersion: '',
      generation: 1,
    },
    spec: { ...template, powerState: 'Running' },
  };
}

/** Digest of all that a pod of the pool is made from: another one is to be made where it changes. */
export function revisionOf(pool: VmPool, effective: EffectiveSettings, settings: VmSettings): string {
  return digest({ effective, standby: pool.spec.standby, installation: installationOf(settings) });
}

/** What the installation says of a pod, and of where it goes, beside what its effective settings follow from. */
function installationOf(settings: VmSettings) {
  return {
    pullsWith: runnerPullsWith(settings),
    accelerator: settings.accelerator,
    cpuOvercommit: settings.cpuOvercommit,
    ephemeralLimitBytes: settings.ephemeralLimitBytes,
    graceSeconds: settings.graceSeconds,
    portRanges: settings.portRanges,
    priorityClassName: settings.priorityClassName,
    readinessSeconds: settings.readinessSeconds,
    vmMetrics: settings.vmMetrics,
  };
}

/** The pod of a guest that waits: that of a VM but for its owner, its labels, and what its runner is told. Pure. */
export function buildStandby(pool: VmPool, input: PodInput): Submitted<Pod> {
  const pod = buildPod(input);
  const { name, namespace } = input.vm.metadata;
  const { [annotations.runnerSpec]: told = '{}', ...others } = pod.metadata.annotations ?? {};
  const spec = JSON.parse(told) as RunnerSpecInput;
  const { [labels.vm]: _vm, ...own } = ownLabels(name);
  return {
    ...pod,
    metadata: {
      name,
      namespace,
      labels: { ...own, [labels.pool]: pool.metadata.name },
      annotations: {
        ...others,
        [annotations.runnerSpec]: JSON.stringify({ ...spec, standby: pool.spec.standby }),
        [annotations.poolTemplate]: templateDigest(pool),
        [annotations.poolRevision]: revisionOf(pool, input.effective, input.settings),
      },
      ownerReferences: [
        {
          apiVersion,
          kind: 'VMPool',
          name: pool.metadata.name,
          uid: pool.metadata.uid,
          controller: true,
          blockOwnerDeletion: true,
        },
      ],
    },
  };
}

/** Most images that the status of a pool has room for; its guests are of one, and of two while they are replaced. */
const mostImages = 32;

/** What the guests of these pods were made from, for the status of their pool; nothing where there are none. */
export function imagesOf(standbys: readonly Pod[]): Pick<VmPoolStatus, 'images'> {
  const references = standbys.flatMap(({ spec: { volumes = [] } }) =>
    volumes.flatMap(({ image }) => image?.reference ?? []),
  );
  const images = [...new Set(references)].toSorted().slice(0, mostImages);
  return images.length === 0 ? {} : { images };
}
