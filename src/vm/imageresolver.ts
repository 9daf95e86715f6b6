import type { Secret } from '../api/core.ts';
import { namespaces } from '../api/meta.ts';
import type { RegistryCredential } from '../api/registrycredential.ts';
import { Architecture } from '../api/vmconfig.ts';
import { readBasicAuth } from '../credential/basicauth.ts';
import { isSvc3Error } from '../errors.ts';
import { accessOf, credentialNames } from '../image/access.ts';
import type { Informer } from '../kube/types.ts';
import { createRegistryClient } from '../registry/client.ts';
import { resolveImage } from '../registry/image.ts';
import { parseReference } from '../registry/reference.ts';
import type { RegistryEndpoint } from '../registry/transport.ts';
import type { ImageResolver, ResolvedImage } from './resolve.ts';

/** A registry that takes longer is left to the kubelet: the VM is not pinned then. */
const timeoutMs = 5_000;
/** Hundreds of VMs of one image come within moments; a tag that moves is seen this late. */
const keepMs = 10_000;
const mostKept = 1_000;

export interface ResolverSources {
  readonly credentials: Informer<RegistryCredential>;
  /** Basic-auth Secrets of `svc3-credentials`. */
  readonly basicAuth: Informer<Secret>;
  /** The image store's URL: it is plain HTTP where that says so, also to who has no credential for it. */
  readonly storeUrl: string;
}

/** Asks registries what a reference means, with the namespace's credential for that registry, else anonymously. */
export function createImageResolver({ credentials, basicAuth, storeUrl }: ResolverSources): ImageResolver {
  const kept = new Map<string, { at: number; image: Promise<ResolvedImage> }>();

  function credentialOf(namespace: string, registry: string): RegistryCredential | undefined {
    return credentialNames(registry)
      .map((name) => credentials.get(name, namespace))
      .find((one) => one !== undefined);
  }

  /** Changes with the credential: an answer that was given without it, or to an older one, does not hold for it. */
  function credentialVersion(namespace: string, reference: string): string {
    const credential = credentialOf(namespace, parseReference(reference).registry);
    if (credential === undefined) return '';
    const secret = basicAuth.get(credential.spec.secretRef.name, namespaces.credentials);
    return `${credential.metadata.resourceVersion ?? ''}/${secret?.metadata.resourceVersion ?? ''}`;
  }

  function endpointOf(namespace: string, registry: string): RegistryEndpoint {
    const credential = credentialOf(namespace, registry);
    const access = accessOf(credential, registry, { url: storeUrl, prefix: '' });
    if (credential === undefined) return { registry, ...access };
    const { secretRef } = credential.spec;
    const login = readBasicAuth(secretRef.name, basicAuth.get(secretRef.name, namespaces.credentials));
    return {
      registry,
      ...access,
      ...(login.kind === 'login'
        ? { credentials: { username: login.username, password: login.password } }
        : {}),
    };
  }

  async function ask(namespace: string, text: string): Promise<ResolvedImage> {
    const reference = parseReference(text);
    const endpoint = endpointOf(namespace, reference.registry);
    try {
      return await askAt(endpoint, text);
    } catch (error) {
      // A public image must still be found when a stored credential fails.
      if (endpoint.credentials === undefined || !isSvc3Error(error, 'Unauthorized', 'Forbidden')) throw error;
      const { credentials: _credentials, ...anonymous } = endpoint;
      return await askAt(anonymous, text).catch(() => Promise.reject(error));
    }
  }

  return {
    async resolve(namespace, reference) {
      const key = `${namespace} ${reference} ${credentialVersion(namespace, reference)}`;
      const known = kept.get(key);
      if (known !== undefined && performance.now() - known.at < keepMs) return known.image;
      const image = ask(namespace, reference);
      kept.set(key, { at: performance.now(), image });
      const [oldest] = kept.keys();
      if (kept.size > mostKept && oldest !== undefined) kept.delete(oldest);
      image.catch((error: unknown) => {
        // What the registry said may be set right at any moment; one that cannot be reached costs seconds each time.
        if (isSvc3Error(error, 'NotFound', 'Unauthorized', 'Forbidden')) kept.delete(key);
      });
      return image;
    },
  };
}

async function askAt(endpoint: RegistryEndpoint, text: string): Promise<ResolvedImage> {
  const client = createRegistryClient(endpoint);
  try {
    const image = await resolveImage(client, parseReference(text), {
      signal: AbortSignal.timeout(timeoutMs),
    });
    const architecture = Architecture.safeParse(image.architecture);
    return { digest: image.digest, architecture: architecture.success ? architecture.data : undefined };
  } finally {
    await client.close();
  }
}
