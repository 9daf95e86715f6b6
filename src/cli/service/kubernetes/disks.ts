import type { Image, Iso } from '../../../api/image.ts';
import { images, isos, vmConfigs, vmPools, vms } from '../../../api/resources.ts';
import type { PossibleUsers } from '../../../api/diskusers.ts';
import { diskClaims } from '../../../usecases/diskclaims.ts';
import { deleteDisk } from '../../../usecases/diskdeletion.ts';
import { copyDisk, describeDisk, makeBlank, pullDisk } from '../../../usecases/newdisk.ts';
import * as schemas from '../../../wire/schemas.ts';
import { imageItem } from '../../../wire/image.ts';
import type { Resource } from '../../../api/object.ts';
import type { KubeClient } from '../../../kube/types.ts';
import type { Disks, Service } from '../types.ts';
import { checked } from './checked.ts';
import { followObjects, type Followable } from './follow.ts';
import { waiterOn } from './wait.ts';

type Disk = Image | Iso;

/** What names a remote disk in requests of `/api/v1`. */
const references = {
  image: schemas.pullParams.pick({ remoteimage: true }),
  iso: schemas.pullIsoParams.pick({ remoteiso: true }),
};

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
  const environment = { caller: client, resource, field } as const;
  return {
    async list(namespace) {
      const { items } = await client.list(resource, { namespace });
      return items.map(imageItem);
    },
    listAll: async () => (await client.list(resource)).items.map(imageItem),
    watch: (namespace, signal) =>
      followObjects(followable, { resource, namespace, toItem: imageItem }, signal),
    get: async (namespace, name) => imageItem(await client.get(resource, name, namespace)),
    generate: async (namespace, request) =>
      imageItem(await makeBlank(environment, namespace, checked(schemas.generateBody, request))),
    async copy(namespace, from, request) {
      const source = () => client.get(resource, from, namespace);
      return imageItem(await copyDisk({ ...environment, source }, checked(schemas.copyBody, request)));
    },
    async describe(namespace, name, text) {
      const { description } = checked(schemas.descriptionBody, { description: text });
      await describeDisk(environment, { name, namespace }, description);
    },
    async delete(namespace, name, signal) {
      const users = () => possibleUsers(client, resource, namespace);
      const deletion = { ...environment, users, wait: waiterOn(client, signal) };
      return deleteDisk(deletion, await client.get(resource, name, namespace));
    },
    upload: async (namespace, request) => (await http())[kind].upload(namespace, request),
    download: async (namespace, name) => (await http())[kind].download(namespace, name),
    remote: async (namespace) => (await http())[kind].remote(namespace),
    async pull(namespace, reference, request) {
      checked(references[field], { [`remote${field}`]: reference });
      const body = checked(schemas.pullBody, request);
      return imageItem(await pullDisk(environment, namespace, { ...body, reference }));
    },
  };
}

async function possibleUsers(
  client: KubeClient,
  resource: Resource<Disk>,
  namespace: string,
): Promise<PossibleUsers> {
  const [running, configs, pools, disks, claims] = await Promise.all([
    client.list(vms, { namespace }),
    client.list(vmConfigs, { namespace }),
    client.list(vmPools, { namespace }),
    client.list(resource, { namespace }),
    resource.plural === images.plural ? diskClaims(client, namespace) : [],
  ]);
  const byName = new Map(configs.items.map((config) => [config.metadata.name, config]));
  // VMs elsewhere whose VMConfig names the disk are the operator's to see: it keeps the disk while it has users.
  return {
    vms: running.items,
    pools: pools.items,
    disks: disks.items,
    claims,
    config: (name, of) => (of === namespace ? byName.get(name) : undefined),
  };
}
