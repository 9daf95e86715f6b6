import { vmPools } from '../../../api/resources.ts';
import { writing } from '../../../usecases/writing.ts';
import { poolFields, poolWarnings, scalePatch, vmPoolItem, vmPoolOf } from '../../../wire/vmpool.ts';
import * as vmSchemas from '../../../wire/vmschemas.ts';
import type { VmPools } from '../types.ts';
import { checked } from './checked.ts';
import { usernameOf } from './username.ts';
import { followObjects, type Followable } from './follow.ts';

/** VM pools straight on kube-apiserver; `warning` hears which settings have no effect, and which fields are unknown. */
export function createVmPools(followable: Followable, warning: (text: string) => void): VmPools {
  const { client } = followable;
  return {
    async list(namespace) {
      const { items } = await client.list(vmPools, { namespace });
      return items.map(vmPoolItem);
    },
    listAll: async () => (await client.list(vmPools)).items.map(vmPoolItem),
    watch: (namespace, signal) =>
      followObjects(followable, { resource: vmPools, namespace, toItem: vmPoolItem }, signal),
    get: async (namespace, name) => vmPoolItem(await client.get(vmPools, name, namespace)),
    async create(namespace, given) {
      const request = checked(vmSchemas.vmPoolBody, given, warning);
      const pool = vmPoolOf(request, { namespace, owner: await usernameOf(client) });
      const made = await writing(() => client.create(vmPools, pool), poolFields);
      for (const text of poolWarnings(request)) warning(text);
      return vmPoolItem(made);
    },
    async scale(namespace, name, given) {
      const body = scalePatch(checked(vmSchemas.vmPoolScaleBody, given));
      const patch = { type: 'merge', body } as const;
      return vmPoolItem(await writing(() => client.patch(vmPools, { name, namespace }, patch), poolFields));
    },
    delete: (namespace, name) => client.delete(vmPools, { name, namespace }),
  };
}
