import type { Image, Iso } from '../../../api/image.ts';
import { images, isos, vms } from '../../../api/resources.ts';
import { Svc3Error } from '../../../errors.ts';
import { imageItem } from '../../../items/image.ts';
import type { KubeClient, Resource } from '../../../kube/types.ts';
import type { Disks, Service } from '../types.ts';

type Disk = Image | Iso;

/** Images or ISOs straight on kube-apiserver; streams need the HTTP API. */
export function createDisks(
  client: KubeClient,
  kind: 'images' | 'isos',
  http: () => Promise<Service>,
): Disks {
  // Both kinds have the same shape, an ISO's sources being some of an Image's.
  const resource = (kind === 'images' ? images : isos) as Resource<Disk>;
  const field = kind === 'images' ? 'image' : 'iso';
  const create = async (namespace: string, name: string, spec: Disk['spec']) =>
    imageItem(await client.create(resource, { metadata: { name, namespace }, spec }));
  return {
    async list(namespace) {
      const { items } = await client.list(resource, { namespace });
      return items.map(imageItem);
    },
    get: async (namespace, name) => imageItem(await client.get(resource, name, namespace)),
    generate: (namespace, { name, size, description }) =>
      create(namespace, name, { source: { blank: { size } }, ...described(description) }),
    async copy(namespace, from, { name, description }) {
      await client.get(resource, from, namespace);
      return create(namespace, name, { source: { image: { name: from } }, ...described(description) });
    },
    async describe(namespace, name, description) {
      await client.patch(resource, { name, namespace }, { type: 'merge', body: { spec: { description } } });
    },
    async delete(namespace, name) {
      const users = (await client.list(vms, { namespace })).items.filter((vm) => vm.spec[field] === name);
      if (users.length > 0) {
        const names = users.map((vm) => vm.metadata.name).join(', ');
        throw new Svc3Error('Conflict', `${field} ${name} is in use by vm ${names}`);
      }
      await client.delete(resource, { name, namespace });
    },
    upload: async (namespace, request) => (await http())[kind].upload(namespace, request),
    download: async (namespace, name) => (await http())[kind].download(namespace, name),
    remote: async (namespace) => (await http())[kind].remote(namespace),
    pull: (namespace, reference, { name, description }) =>
      create(namespace, name ?? nameOf(reference), {
        source: { remote: { reference } },
        ...described(description),
      }),
  };
}

function described(description: string | undefined): { description?: string } {
  return description === undefined ? {} : { description };
}

/** A name for what a reference points to: its last part and its tag. */
export function nameOf(reference: string): string {
  const last = reference.replace(/@.*$/, '').split('/').at(-1) ?? '';
  const name = last
    .toLowerCase()
    .replaceAll(/[^a-z0-9-]+/g, '-')
    .replaceAll(/^[^a-z]+|-+$/g, '');
  if (name === '')
    throw new Svc3Error('Invalid', `name: "${reference.slice(0, 128)}" gives no name; say one with --name`);
  return name.slice(0, 63).replace(/-+$/, '');
}
