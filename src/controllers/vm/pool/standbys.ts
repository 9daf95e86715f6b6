import { isDeepStrictEqual } from 'node:util';
import type { Node, Pod } from '../../../api/core.ts';
import { controllerOf, isTerminating } from '../../../api/owner.ts';
import type { EffectiveSettings, Vm } from '../../../api/vm.ts';
import type { VmPool } from '../../../api/vmpool.ts';
import { keyOf } from '../../../controller/controller.ts';
import type { Informer } from '../../../kube/types.ts';
import { reservedFor } from '../../../placement/nodefacts.ts';
import { nodeOf } from '../../../placement/podfacts.ts';
import { lastingTaints, toleratesAll } from '../../../placement/taints.ts';
import { effectiveAnnotation } from '../names.ts';
import type { VmMemory } from '../vmmemory.ts';
import { annotatedSettings } from '../facts/annotatedsettings.ts';
import { isLost } from '../facts/podstate.ts';
import { meaningOf, withoutRest } from '../resolve/meaning.ts';
import { type ResolveSources, resolveVm } from '../resolve/resolve.ts';
import { isIdle, isOfPool, isOfTemplate, standbyRefusal, templateDigest } from '../facts/standby.ts';
import type { Neighbourhood } from './neighbourhood.ts';

export interface StandbyCaches {
  /** With `poolIndex`. */
  readonly pods: Pick<Informer<Pod>, 'byIndex' | 'onChange'>;
  /** With `podNameIndex`. */
  readonly vms: Pick<Informer<Vm>, 'byIndex'>;
  readonly pools: Pick<Informer<VmPool>, 'get' | 'list'>;
  readonly nodes: Pick<Informer<Node>, 'get'>;
}

/**
 * Which waiting guest a VM gets. What has been promised to a VM is remembered, so that of a thousand VMs that come at once
 * each tries another one; it may be lost, since kube-apiserver takes only the first claim.
 */
export class Standbys implements VmMemory {
  readonly #caches: StandbyCaches;
  /** UID of the VM by the UID of the pod, and the other way round. */
  readonly #vmOf = new Map<string, string>();
  readonly #podOf = new Map<string, string>();
  readonly #neighbourhood: Neighbourhood;

  constructor(caches: StandbyCaches, neighbourhood: Neighbourhood) {
    this.#caches = caches;
    this.#neighbourhood = neighbourhood;
    caches.pods.onChange(({ kind, object }) => {
      if (kind === 'deleted') this.#release(object.metadata.uid);
      else if (controllerOf(object)?.kind === 'VM') this.#releaseNeighbour(object.metadata.uid);
    });
  }

  forget(vmUid: string): void {
    const podUid = this.#podOf.get(vmUid);
    if (podUid !== undefined) this.#release(podUid);
  }

  /** UID of the VM that has been promised the pod, or whose status names it. */
  holderOf({ metadata: { name, namespace, uid } }: Pod): string | undefined {
    return (
      this.#vmOf.get(uid) ?? this.#caches.vms.byIndex('podName', `${namespace}/${name}`)[0]?.metadata.uid
    );
  }

  /** For a VM that names its pool; undefined where none waits. */
  ofPool(vm: Vm): Pod | undefined {
    const pool = this.#caches.pools.get(vm.spec.pool ?? '', vm.metadata.namespace);
    return pool === undefined ? undefined : this.#choose(vm, pool, annotatedSettings);
  }

  /** For a VM that knows of no pool and would have these settings. */
  ofConfig(vm: Vm, effective: EffectiveSettings): Pod | undefined {
    const settings = (pod: Pod) => (isMadeOf(pod, effective) ? effective : undefined);
    for (const pool of this.#serving(vm)) {
      const pod = this.#choose(vm, pool, settings);
      if (pod !== undefined) return pod;
    }
    return undefined;
  }

  /**
   * `<namespace>/<name>` of the pool of which a VM that knows of none, and has these settings, would get a guest if one waited: the first that
   * makes such guests. Undefined where none does, or that is not known before a registry has answered.
   */
  poolOfConfig(vm: Vm, effective: EffectiveSettings, sources: ResolveSources): string | undefined {
    if (standbyRefusal(effective) !== undefined) return undefined;
    const pool = this.#serving(vm).find((one) => {
      const made = resolveVm(guestOfTemplate(vm, one), sources);
      return made.kind === 'resolved' && isSameGuest(made.effective, effective);
    });
    return pool === undefined ? undefined : keyOf(pool);
  }

  /** Pools that serve VMs of this one's VMConfig, in the order in which they are asked for a guest. */
  #serving(vm: Vm): VmPool[] {
    const { namespace } = vm.metadata;
    const { config, configNamespace = namespace } = vm.spec;
    if (config === undefined || configNamespace !== namespace) return [];
    return this.#caches.pools
      .list(namespace)
      .filter(
        (pool) => pool.spec.serveConfig && pool.spec.template.config === config && !isTerminating(pool),
      );
  }

  /** @param settingsIn - those that the VM has with a guest; undefined where the guest does not suit it */
  #choose(vm: Vm, pool: VmPool, settingsIn: (pod: Pod) => EffectiveSettings | undefined): Pod | undefined {
    if (isTerminating(pool)) return undefined;
    const { uid, namespace } = vm.metadata;
    this.forget(uid);
    const template = templateDigest(pool);
    const pods = this.#caches.pods.byIndex('pool', `${namespace}/${pool.metadata.name}`);
    const suits = rememberedBySettings((one) => this.#judge(vm, settingsIn(one), pods));
    const pod = pods.find(
      (one) =>
        isIdle(one, pool) &&
        isOfTemplate(one, template) &&
        this.holderOf(one) === undefined &&
        this.#isOnUsableNode(one) &&
        suits(one),
    );
    if (pod === undefined) return undefined;
    this.#vmOf.set(pod.metadata.uid, uid);
    this.#podOf.set(uid, pod.metadata.uid);
    const settings = settingsIn(pod);
    if (settings !== undefined) this.#neighbourhood.assume(vm, settings, pod);
    return pod;
  }

  /** Which guests with these settings suit the VM. */
  #judge(vm: Vm, settings: EffectiveSettings | undefined, pods: readonly Pod[]): (pod: Pod) => boolean {
    if (settings === undefined) return () => false;
    const waiting = pods.filter(isOfPool).map(({ metadata }) => metadata.uid);
    return this.#neighbourhood.around(vm, settings, waiting);
  }

  #isOnUsableNode(pod: Pod): boolean {
    const node = this.#caches.nodes.get(nodeOf(pod) ?? '');
    return isUsable(node, pod.metadata.namespace) && !isKeptOff(pod, node);
  }

  #release(podUid: string): void {
    this.#releaseNeighbour(podUid);
    const vmUid = this.#vmOf.get(podUid);
    if (vmUid !== undefined) this.#podOf.delete(vmUid);
    this.#vmOf.delete(podUid);
  }

  #releaseNeighbour(podUid: string): void {
    const vmUid = this.#vmOf.get(podUid);
    if (vmUid !== undefined) this.#neighbourhood.release(vmUid);
  }
}

/** Guests of a pool are alike: what hundreds of them say is read once for a VM that none of them suits. */
function rememberedBySettings(judgeOf: (pod: Pod) => (pod: Pod) => boolean): (pod: Pod) => boolean {
  const known = new Map<string | undefined, (pod: Pod) => boolean>();
  return (pod) => {
    const text = pod.metadata.annotations?.[effectiveAnnotation];
    const judge = known.get(text) ?? judgeOf(pod);
    known.set(text, judge);
    return judge(pod);
  };
}

/**
 * Whether the guest is as one that is booted for the VM now: what it was told at its boot, its keys and metadata, counts as well. By when the VM
 * has to have started says nothing of a guest.
 */
function isMadeOf(pod: Pod, effective: EffectiveSettings): boolean {
  const has = annotatedSettings(pod);
  return has !== undefined && isSameGuest(has, effective);
}

function isSameGuest(one: EffectiveSettings, other: EffectiveSettings): boolean {
  return isDeepStrictEqual(guestOf(one), guestOf(other));
}

/** A VM that says itself what the template says, and nothing else. */
function guestOfTemplate({ metadata }: Vm, { spec: { template } }: VmPool): Vm {
  return { metadata, spec: { ...template, powerState: 'Running' } };
}

function guestOf({ startDeadlineSeconds: _deadline, ...settings }: EffectiveSettings) {
  return meaningOf(withoutRest(settings));
}

/** No VM of the namespace is to begin on a node that is cordoned, does not answer, or takes only those of another. */
export function isUsable(node: Node | undefined, namespace: string): boolean {
  return (
    node !== undefined && !isLost(node) && node.spec?.unschedulable !== true && !isReserved(node, namespace)
  );
}

/**
 * Whether a taint of the node would keep the pod off it, if it came there now. One that ends no pods says as well that the node is for others, or is
 * about to go: Karpenter taints a node minutes before it evicts.
 */
export function isKeptOff(pod: Pod, node: Node | undefined): boolean {
  return !toleratesAll(lastingTaints(node?.spec?.taints ?? []), pod.spec.tolerations ?? []);
}

/** Whether the node takes only VMs of another namespace. */
export function isReserved(node: Node, namespace: string): boolean {
  return (reservedFor(node) ?? namespace) !== namespace;
}
