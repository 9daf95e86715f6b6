import { Svc3Error } from '../errors.ts';
import type { RegistryClient } from '../registry/client.ts';
import type { RemoteCatalog, RemoteImage } from './services.ts';

/** Registries with more repositories than this are cut off: the list is for people. */
const mostImages = 1_000;
const mostTags = 50;

async function listOne(client: RegistryClient, prefix: string, signal: AbortSignal): Promise<RemoteImage[]> {
  const repositories = (await client.repositories({ signal })).filter(
    (name) => prefix === '' || name === prefix || name.startsWith(`${prefix}/`),
  );
  const images: RemoteImage[] = [];
  for (const repository of repositories.slice(0, mostImages)) {
    const tags = (await client.tags(repository, { signal })).slice(0, mostTags);
    for (const tag of tags) images.push({ name: `${client.registry}/${repository}:${tag}`, tags });
  }
  return images;
}

/** What the chart's `remoteRegistries` hold, as the namespace's own credentials let one see it. */
export function createRemoteCatalog(
  registries: readonly string[],
  open: (registry: string, namespace: string) => Promise<RegistryClient>,
): RemoteCatalog {
  return {
    async list(namespace, signal) {
      const images: RemoteImage[] = [];
      for (const entry of registries) {
        const [host = '', ...path] = entry.replace(/^https?:\/\//, '').split('/');
        const client = await open(host, namespace);
        try {
          images.push(...(await listOne(client, path.join('/'), signal)));
        } catch (error) {
          throw new Svc3Error('BadGateway', `remote registry ${host} could not be listed`, { cause: error });
        } finally {
          await client.close();
        }
      }
      return images;
    },
  };
}
