/** The image store of a local cluster, as its host reaches it: over loopback, where a forward leads to the registry. */
import type { RegistryCredentials } from '../../registry/auth.ts';
import { createRegistryClient, type RegistryClient } from '../../registry/client.ts';
import type { RegistryEndpoint } from '../../registry/transport.ts';

export interface StoreEndpoint extends RegistryEndpoint {
  readonly credentials: RegistryCredentials;
}

/** Calls with a client of the registry, which is closed afterwards. */
export async function withStore<T>(
  endpoint: RegistryEndpoint,
  call: (client: RegistryClient) => Promise<T>,
): Promise<T> {
  const client = createRegistryClient(endpoint);
  try {
    return await call(client);
  } finally {
    await client.close();
  }
}

/** Whether the registry has an image under all of these tags, and the same under each. */
export async function hasTags(
  client: RegistryClient,
  repository: string,
  tags: readonly string[],
): Promise<boolean> {
  const digests = new Set<string | undefined>();
  // One after the other: of several that are sent before the registry has asked for the password, it refuses all but the first.
  for (const tag of tags) digests.add(await client.digestOf(repository, tag));
  return digests.size === 1 && !digests.has(undefined);
}
