import type { Secret } from '../../../api/core.ts';
import { namespaces } from '../../../api/meta.ts';
import type { RegistryCredential } from '../../../api/registrycredential.ts';
import { Architecture } from '../../../api/vmconfig.ts';
import { readBasicAuth } from '../../credential/basicauth.ts';
import { isSvc3Error } from '../../../errors.ts';
import { accessOf, credentialName } from '../../image/access.ts';
import type { Informer } from '../../../kube/types.ts';
import { createRegistryClient } from '../../../registry/client.ts';
import { resolveImage } from '../../../registry/image.ts';
import { parseReference } from '../../../registry/reference.ts';
import type { RegistryEndpoint, RegistryFailed } from '../../../registry/transport.ts';
import { virtualSizeOf } from './imagesize.ts';
import type { ImageResolver, ResolvedImage, SoughtImage } from './imageresolutions.ts';

export interface ResolverSources {
  readonly credentials: Informer<RegistryCredential>;
  /** Basic-auth Secrets of `svc3-credentials`. */
  readonly basicAuth: Informer<Secret>;
  /** The image store's URL: it is plain HTTP where that says so, also to who has no credential for it. */
  readonly storeUrl: string;
  readonly failed?: RegistryFailed;
}

/** Asks registries what a reference means, with the namespace's credential for that registry, else anonymously. */
export function createImageResolver({
  credentials,
  basicAuth,
  storeUrl,
  failed,
}: ResolverSources): ImageResolver {
  function credentialOf(namespace: string, registry: string): RegistryCredential | undefined {
    return credentials.get(credentialName(registry), namespace);
  }

  function credentialVersion(namespace: string, reference: string): string {
    const credential = credentialOf(namespace, parseReference(reference).registry);
    if (credential === undefined) return '';
    const secret = basicAuth.get(credential.spec.secretRef.name, namespaces.credentials);
    return `${credential.metadata.resourceVersion}/${secret?.metadata.resourceVersion}`;
  }

  function endpointOf(namespace: string, registry: string): RegistryEndpoint {
    const credential = credentialOf(namespace, registry);
    const access = accessOf(credential, registry, { url: storeUrl, prefix: '' });
    if (credential === undefined) return { registry, failed, ...access };
    const { secretRef } = credential.spec;
    const login = readBasicAuth(secretRef.name, basicAuth.get(secretRef.name, namespaces.credentials));
    return {
      registry,
      failed,
      ...access,
      ...(login.kind === 'login'
        ? { credentials: { username: login.username, password: login.password } }
        : {}),
    };
  }

  async function resolve(
    namespace: string,
    text: string,
    signal: AbortSignal,
    sought: SoughtImage = {},
  ): Promise<ResolvedImage> {
    const endpoint = endpointOf(namespace, parseReference(text).registry);
    try {
      return await askAt(endpoint, text, signal, sought);
    } catch (error) {
      // A public image must still be found when a stored credential fails.
      if (endpoint.credentials === undefined || !isSvc3Error(error, 'Unauthorized', 'Forbidden')) throw error;
      const { credentials: _credentials, ...anonymous } = endpoint;
      return await askAt(anonymous, text, signal, sought).catch(() => Promise.reject(error));
    }
  }

  return {
    resolve,
    credentialVersion,
    onCredential(changed) {
      credentials.onChange(({ object }) => changed(object.metadata.namespace));
      basicAuth.onChange(({ object }) => {
        for (const { metadata, spec } of credentials.list())
          if (spec.secretRef.name === object.metadata.name) changed(metadata.namespace);
      });
    },
  };
}

async function askAt(
  endpoint: RegistryEndpoint,
  text: string,
  signal: AbortSignal,
  { architecture: wanted, withSize = false }: SoughtImage,
): Promise<ResolvedImage> {
  const client = createRegistryClient(endpoint);
  try {
    const reference = parseReference(text);
    const image = await resolveImage(client, reference, { signal, architecture: wanted });
    const architecture = Architecture.safeParse(image.architecture);
    const bytes = withSize ? await virtualSizeOf(client, reference.repository, image, signal) : undefined;
    return { digest: image.digest, architecture: architecture.data, bytes };
  } finally {
    await client.close();
  }
}
