import type { Image, Iso } from '../../../api/image.ts';
import { images, isos, vmConfigs, vmPools, vms } from '../../../api/resources.ts';
import { refuseLateCopy } from '../../../api/diskcopies.ts';
import type { PossibleUsers } from '../../../api/diskusers.ts';
import { deleteDisk } from '../../../usecases/diskdeletion.ts';
import { architectureNote } from '../../../usecases/uploadtarget.ts';
import { writing } from '../../../usecases/writing.ts';
import { nameOfReference } from '../../../wire/names.ts';
import * as schemas from '../../../wire/schemas.ts';
import { imageItem } from '../../../wire/image.ts';
import type { Resource } from '../../../api/object.ts';
import type { KubeClient } from '../../../kube/types.ts';
import type { Disks, Service } from '../types.ts';
import { checked } from './checked.ts';
import { followObjects, type Followable } from './follow.ts';
import { waiterOn } from './wait.ts';

type Disk = Image | Iso;

/** Images or ISOs straight on kube-apiserver; streams need the HTTP API. */
export function createDisks(
  followable: Followable,
  kind: 'images' | 'isos',
  http: () => Promise<Service>,
): Disks {
  const { client } = followable;
  // Both kinds have the same shape, an ISO's sources being some of an Image's.
  const resource = (kind === 'images' ? images : isos) as Resource<Disk>;
  const field = kind === 'images' ? 'image' : 'iso';
  const fields = {
    'metadata.name': 'name',
    'spec.source.blank.size': 'size',
    'spec.source.remote.reference': `remote${field}`,
  };
  const create = async (
    namespace: string,
    name: string,
    spec: Disk['spec'],
    annotations: Readonly<Record<string, string>> = {},
  ) => {
    const disk = { metadata: { name, namespace, annotations }, spec };
    return imageItem(await writing(() => client.create(resource, disk), fields));
  };
  return {
    async list(namespace) {
      const { items } = await client.list(resource, { namespace });
      return items.map(imageItem);
    },
    watch: (namespace, signal) =>
      followObjects(followable, { resource, namespace, toItem: imageItem }, signal),
    get: async (namespace, name) => imageItem(await client.get(resource, name, namespace)),
    async generate(namespace, request) {
      const { name, size, description, architecture } = checked(schemas.generateBody, request);
      const spec = { source: { blank: { size } }, ...described(description) };
      return create(namespace, name, spec, architectureNote(architecture));
    },
    async copy(namespace, from, request) {
      const { name, description } = checked(schemas.copyBody, request);
      refuseLateCopy(await client.get(resource, from, namespace), field);
      return create(namespace, name, { source: { image: { name: from } }, ...described(description) });
    },
    async describe(namespace, name, text) {
      const { description } = checked(schemas.descriptionBody, { description: text });
      await client.patch(resource, { name, namespace }, { type: 'merge', body: { spec: { description } } });
    },
    async delete(namespace, name, signal) {
      const users = () => possibleUsers(client, resource, namespace);
      const environment = { caller: client, resource, field, users, wait: waiterOn(client, signal) } as const;
      return deleteDisk(environment, await client.get(resource, name, namespace));
    },
    upload: async (namespace, request) => (await http())[kind].upload(namespace, request),
    download: async (namespace, name) => (await http())[kind].download(namespace, name),
    remote: async (namespace) => (await http())[kind].remote(namespace),
    async pull(namespace, reference, request) {
      const { remoteimage } = checked(schemas.pullParams.pick({ remoteimage: true }), {
        remoteimage: reference,
      });
      const { name, description } = checked(schemas.pullBody, request) ?? {};
      const source = { remote: { reference: remoteimage } };
      return create(namespace, name ?? nameOfReference(reference, 'reference'), {
        source,
        ...described(description),
      });
    },
  };
}

async function possibleUsers(
  client: KubeClient,
  resource: Resource<Disk>,
  namespace: string,
): Promise<PossibleUsers> {
  const [running, configs, pools, disks] = await Promise.all([
    client.list(vms, { namespace }),
    client.list(vmConfigs, { namespace }),
    client.list(vmPools, { namespace }),
    client.list(resource, { namespace }),
  ]);
  const byName = new Map(configs.items.map((config) => [config.metadata.name, config]));
  // VMs elsewhere whose VMConfig names the disk are the operator's to see: it keeps the disk while it has users.
  return {
    vms: running.items,
    pools: pools.items,
    disks: disks.items,
    config: (name, of) => (of === namespace ? byName.get(name) : undefined),
  };
}

function described(description: string | undefined): { description?: string } {
  return description === undefined ? {} : { description };
}
