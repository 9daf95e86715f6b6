import type { Node, PersistentVolumeClaim, Pod } from '../../api/core.ts';
import type { Image } from '../../api/image.ts';
import type { Vm } from '../../api/vm.ts';
import { splitKey } from '../../controller/controller.ts';
import type { Informer } from '../../kube/types.ts';
import { nodeOf } from '../../placement/podfacts.ts';
import { awaitedImages, unsavedImages } from '../image/saves.ts';
import type { Observed } from './decide.ts';
import type { VmExpectations } from './expectations.ts';
import { isTerminating } from '../../api/owner.ts';
import { podNamesOf } from './names.ts';
import { claimNameOf } from './facts/claim.ts';
import { isPodOf, podAmong } from './facts/ownpod.ts';
import { isLost } from './facts/podstate.ts';
import { isDue } from './facts/requests.ts';
import { settingsOfPod } from './resolve/adoption.ts';
import type { ResolveSources } from './resolve/resolve.ts';
import { runnerPullsWith } from './settings.ts';
import type { StartWaits } from '../startwaits.ts';

export interface ObserverParts {
  readonly vms: Pick<Informer<Vm>, 'get'>;
  readonly nodes: Pick<Informer<Node>, 'get'>;
  /** Claims of Persistent disks. */
  readonly claims: Pick<Informer<PersistentVolumeClaim>, 'get'>;
  readonly sources: ResolveSources;
  readonly expectations: VmExpectations;
  readonly startWaits: StartWaits;
  images(namespace: string): readonly Image[];
  /** resourceVersion of the pull Secret of a namespace. */
  pullSecretVersion(namespace: string): string | undefined;
  /** How long a deletion or a revert waits until the disk is saved, in milliseconds. */
  readonly saveWaitMs: number;
  /** Wall clock, for deadlines. */
  now(): Date;
}

/** What a pass sees of the VM of this key, from memory; undefined where it is gone. */
export function observe(parts: ObserverParts, key: string): Observed | undefined {
  const { expectations, sources, saveWaitMs } = parts;
  const { namespace = '', name } = splitKey(key);
  const cached = parts.vms.get(name, namespace);
  if (cached === undefined) return undefined;
  const isDeleted = cached.metadata.deletionTimestamp !== undefined;
  const vm = expectations.vm(cached);
  if (vm === undefined) return undefined;
  const named = podNamesOf(vm).map((podName) => expectations.pod(podName, namespace));
  const pod = podAmong(vm, named);
  const own = pod !== undefined && isPodOf(pod, vm) ? pod : undefined;
  const node = pod === undefined ? undefined : nodeOfPod(parts, pod);
  return {
    vm,
    pod,
    surplus: named.find((one) => one !== undefined && one !== pod && isPodOf(one, vm) && !isTerminating(one)),
    settings: pod === undefined ? undefined : settingsOfPod(vm, pod, sources),
    node,
    claim: parts.claims.get(claimNameOf(vm), namespace),
    pullSecretVersion: parts.pullSecretVersion(namespace),
    pullsWith: runnerPullsWith(sources.settings),
    isNodeLost: isLost(node),
    unprepared: pod === undefined ? undefined : parts.startWaits.of(pod, node),
    unsaved: isDeleted ? unsavedImages(cached, parts.images(namespace), own) : [],
    isSavedFirst: isDue(vm, 'revertRequest') && awaitedImages(vm, parts.images(namespace)).length > 0,
    saveWaitMs,
    now: parts.now().getTime(),
  };
}

function nodeOfPod({ nodes }: ObserverParts, pod: Pod): Node | undefined {
  const name = nodeOf(pod);
  return name === undefined ? undefined : nodes.get(name);
}
