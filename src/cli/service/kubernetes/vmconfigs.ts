import { vmConfigs } from '../../../api/resources.ts';
import * as vmSchemas from '../../../wire/vmschemas.ts';
import { settingsOf } from '../../../wire/deploy.ts';
import type { VmConfigSpec } from '../../../api/vmconfig.ts';
import { vmConfigItem } from '../../../wire/vmconfig.ts';
import type { VmConfigs } from '../types.ts';
import { checked } from './checked.ts';
import { followObjects, type Followable } from './follow.ts';

/** VM configurations straight on kube-apiserver. */
export function createVmConfigs(followable: Followable): VmConfigs {
  const { client } = followable;
  return {
    async list(namespace) {
      const { items } = await client.list(vmConfigs, { namespace });
      return items.map(vmConfigItem);
    },
    watch: (namespace, signal) =>
      followObjects(followable, { resource: vmConfigs, namespace, toItem: vmConfigItem }, signal),
    get: async (namespace, name) => vmConfigItem(await client.get(vmConfigs, name, namespace)),
    async create(namespace, given) {
      const request = checked(vmSchemas.vmConfigBody, given);
      const spec = settingsOf(request) as VmConfigSpec;
      if (request.nodeName !== undefined) spec.nodeName = request.nodeName;
      return vmConfigItem(
        await client.create(vmConfigs, { metadata: { name: request.name, namespace }, spec }),
      );
    },
    delete: (namespace, name) => client.delete(vmConfigs, { name, namespace }),
  };
}
