import { vmConfigs } from '../../../api/resources.ts';
import { writing } from '../../../usecases/writing.ts';
import { withoutEffect } from '../../../wire/deploy.ts';
import * as vmSchemas from '../../../wire/vmschemas.ts';
import { configFields, vmConfigItem, vmConfigOf } from '../../../wire/vmconfig.ts';
import type { VmConfigs } from '../types.ts';
import { checked } from './checked.ts';
import { usernameOf } from './username.ts';
import { followObjects, type Followable } from './follow.ts';

/** VM configurations straight on kube-apiserver; `warning` hears which settings have no effect, and which fields are unknown. */
export function createVmConfigs(followable: Followable, warning: (text: string) => void): VmConfigs {
  const { client } = followable;
  return {
    async list(namespace) {
      const { items } = await client.list(vmConfigs, { namespace });
      return items.map(vmConfigItem);
    },
    listAll: async () => (await client.list(vmConfigs)).items.map(vmConfigItem),
    watch: (namespace, signal) =>
      followObjects(followable, { resource: vmConfigs, namespace, toItem: vmConfigItem }, signal),
    get: async (namespace, name) => vmConfigItem(await client.get(vmConfigs, name, namespace)),
    async create(namespace, given) {
      const request = checked(vmSchemas.vmConfigBody, given, warning);
      const config = vmConfigOf(request, { namespace, owner: await usernameOf(client) });
      const made = await writing(() => client.create(vmConfigs, config), configFields);
      for (const text of withoutEffect(request)) warning(text);
      return vmConfigItem(made);
    },
    delete: (namespace, name) => client.delete(vmConfigs, { name, namespace }),
  };
}
