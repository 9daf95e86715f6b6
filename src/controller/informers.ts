import { group } from '../api/meta.ts';
import { persistentVolumeClaims, vms } from '../api/resources.ts';
import { slimObject, slimWithLabels } from '../api/slim.ts';
import { createInformer } from '../kube/informer.ts';
import type { KubeObject, Resource } from '../api/object.ts';
import type { Informer, InformerOptions, KubeClient, Log } from '../kube/types.ts';

export type SharedInformerOptions<T extends KubeObject> = Omit<
  InformerOptions<T>,
  'client' | 'resource' | 'log' | 'tuning'
>;

/** The informers of one process: one watch per resource and selector, however many controllers read it. */
export interface Informers {
  /**
   * The informer of a resource, made at first asking. Indexes of later callers are added; handlers and indexes are
   * registered before `run`. Where no transform is given, what tenants make is kept as `slimObject` leaves it, VMs with all their
   * labels.
   */
  get<T extends KubeObject>(resource: Resource<T>, options?: SharedInformerOptions<T>): Informer<T>;
  /** Runs them all until the signal. */
  run(signal: AbortSignal): Promise<void>;
  hasSynced(): boolean;
  /** Resolves when every one has its first complete list. */
  synced(): Promise<void>;
  /**
   * Seconds since kube-apiserver was last heard of, by resource, of several selectors the longest; since the start of the
   * process where it never was.
   */
  silence(): ReadonlyMap<string, number>;
}

/** What tenants make, without what nobody here reads. */
function slimOf<T extends KubeObject>(resource: Resource<T>): { transform?: (object: T) => T } {
  if (resource.group === vms.group && resource.plural === vms.plural) return { transform: slimWithLabels };
  return isOfTenants(resource) ? { transform: slimObject } : {};
}

function isOfTenants({ group: ofResource, plural }: Resource<KubeObject>): boolean {
  return ofResource === group || plural === persistentVolumeClaims.plural;
}

/**
 * The informers of a process, none of which runs before `run`. A resource that is asked for with the same namespace and selectors is one informer: the
 * transform of who asks first holds for all.
 *
 * @throws TypeError from `get`, for an informer that is not there yet when `run` has been called
 */
export function createInformers(client: KubeClient, log: Log): Informers {
  const all = new Map<string, Informer<KubeObject>>();
  let running = false;

  return {
    get<T extends KubeObject>(resource: Resource<T>, options: SharedInformerOptions<T> = {}) {
      const { namespace = '', labelSelector = '', fieldSelector = '' } = options;
      const key = [resource.group, resource.plural, namespace, labelSelector, fieldSelector].join('|');
      const known = all.get(key) as unknown as Informer<T> | undefined;
      if (known !== undefined) {
        known.addIndexes(options.indexes ?? {});
        return known;
      }
      if (running) throw new TypeError(`the informer of ${resource.plural} is asked for after the start`);
      const informer = createInformer({ ...slimOf(resource), ...options, client, resource, log });
      all.set(key, informer);
      return informer;
    },
    async run(signal) {
      running = true;
      await Promise.all([...all.values()].map((informer) => informer.run(signal)));
    },
    hasSynced: () => [...all.values()].every((informer) => informer.hasSynced()),
    async synced() {
      await Promise.all([...all.values()].map((informer) => informer.synced()));
    },
    silence() {
      const longest = new Map<string, number>();
      for (const { resource, silenceMs } of all.values()) {
        const seconds = (silenceMs() ?? performance.now()) / 1000;
        longest.set(resource.plural, Math.max(longest.get(resource.plural) ?? 0, seconds));
      }
      return longest;
    },
  };
}
