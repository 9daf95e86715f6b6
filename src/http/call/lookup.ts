import { configKeyOf } from '../../api/configkey.ts';
import type { Image, Iso } from '../../api/image.ts';
import { vms } from '../../api/resources.ts';
import type { Vm } from '../../api/vm.ts';
import type { VmConfig } from '../../api/vmconfig.ts';
import type { VmPool } from '../../api/vmpool.ts';
import { ifFound, Svc3Error, isSvc3Error } from '../../errors.ts';
import type { KubeObject, Resource, StoredMeta } from '../../api/object.ts';
import type { Informer } from '../../kube/types.ts';
import { type Inherited, inheritedFromPool } from '../../wire/vm.ts';
import { requireMeant } from '../../wire/meant.ts';
import type { Services } from './services.ts';

interface Key {
  readonly namespace: string;
  readonly name: string;
}

function notFound(resource: string, name: string): Svc3Error {
  return new Svc3Error('NotFound', `${resource} "${name}" not found`, {
    details: { group: 'svc3.dev', kind: resource, name },
  });
}

/** From the cache; what the cache does not have (yet) is asked for once. */
async function find<T extends KubeObject>(informer: Informer<T>, services: Services, key: Key): Promise<T> {
  const cached = informer.get(key.name, key.namespace);
  return cached ?? (await live(informer.resource, services, key));
}

async function live<T extends KubeObject>(
  resource: Resource<T>,
  { client }: Services,
  { name, namespace }: Key,
): Promise<T> {
  try {
    return await client.get(resource, name, namespace);
  } catch (error) {
    if (isSvc3Error(error, 'NotFound')) throw notFound(resource.plural, name);
    throw error;
  }
}

/**
 * A VM that what is asked for fits: as the cache has it, or as kube-apiserver does where the cache's does not fit. Another replica may have
 * carried out what this one has not heard of yet.
 *
 * @param refuse - throws Conflict where it does not fit
 * @throws Svc3Error NotFound
 */
export async function findVmFor(services: Services, key: Key, refuse: (vm: Vm) => unknown): Promise<Vm> {
  const found = await findVm(services, key);
  try {
    refuse(found);
    return found;
  } catch (error) {
    if (!isSvc3Error(error, 'Conflict')) throw error;
    return await live(vms, services, key);
  }
}

/**
 * A VM as kube-apiserver has it: what depends on it is not left undone because another replica has changed it.
 *
 * @throws Svc3Error NotFound
 */
export const findLiveVm = (services: Services, key: Key): Promise<Vm> => live(vms, services, key);

/**
 * The very VM that a request was carried out on: where the cache shows another one of its name, as kube-apiserver has it.
 *
 * @throws Svc3Error NotFound, also where another one has the name by now
 */
export async function findByUid(services: Services, key: Key, uid: string): Promise<Vm> {
  const cached = services.caches.vms.objects.get(key.name, key.namespace);
  const vm = cached?.metadata.uid === uid ? cached : await live(vms, services, key);
  if (vm.metadata.uid !== uid) throw notFound(vms.plural, key.name);
  return vm;
}

/**
 * Looks at kube-apiserver where a request says which object it means: the cache may still have the one before.
 *
 * @throws Svc3Error NotFound; Conflict where another one has the name by now
 */
export async function requireMeantNow<T extends KubeObject & { metadata: StoredMeta }>(
  resource: Resource<T>,
  services: Services,
  key: Key,
  meant: string | undefined,
): Promise<void> {
  if (meant !== undefined) requireMeant(resource, await live(resource, services, key), meant);
}

/** Each of these throws NotFound. Call them only for callers whose right to the object was asked for. */
export const findVm = (services: Services, key: Key): Promise<Vm> =>
  find(services.caches.vms.objects, services, key);
export const findVmConfig = (services: Services, key: Key): Promise<VmConfig> =>
  find(services.caches.vmConfigs.objects, services, key);
export const findVmPool = (services: Services, key: Key): Promise<VmPool> =>
  find(services.caches.vmPools.objects, services, key);
export const findImage = (services: Services, key: Key): Promise<Image> =>
  find(services.caches.images.objects, services, key);
export const findIso = (services: Services, key: Key): Promise<Iso> =>
  find(services.caches.isos.objects, services, key);

/** What a VM has where it says nothing itself; undefined where that is nothing, or not there. */
export async function findInherited(
  services: Services,
  { metadata, spec }: Vm,
): Promise<Inherited | undefined> {
  const { namespace } = metadata;
  const configOf = (key: Key | undefined) =>
    key === undefined ? Promise.resolve(undefined) : ifFound(findVmConfig(services, key));
  if (spec.pool === undefined) return configOf(configKeyOf({ metadata, spec }));
  const pool = await ifFound(findVmPool(services, { namespace, name: spec.pool }));
  if (pool === undefined) return undefined;
  const { config: name } = pool.spec.template;
  return inheritedFromPool(pool, await configOf(name === undefined ? undefined : { namespace, name }));
}
