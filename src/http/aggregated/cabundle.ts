import { setTimeout as delay } from 'node:timers/promises';
import { actionsGroup, version } from '../../api/meta.ts';
import { apiServices } from '../../api/resources.ts';
import { isSvc3Error } from '../../errors.ts';
import type { KubeClient, Log } from '../../kube/types.ts';

const name = `${version}.${actionsGroup}`;

/**
 * Tells kube-apiserver which certificate to trust; nothing is written when it knows. False: there is no APIService, or another
 * replica wrote it meanwhile.
 */
async function writeCaBundle(client: KubeClient, certificatePem: string): Promise<boolean> {
  const caBundle = Buffer.from(certificatePem).toString('base64');
  try {
    const { metadata, spec } = await client.get(apiServices, name);
    if ((spec as { caBundle?: string }).caBundle === caBundle) return true;
    const { resourceVersion } = metadata;
    await client.patch(
      apiServices,
      { name },
      {
        type: 'merge',
        body: { metadata: { resourceVersion }, spec: { caBundle, insecureSkipTLSVerify: null } },
      },
    );
    return true;
  } catch (error) {
    if (isSvc3Error(error, 'NotFound', 'Conflict')) return false;
    throw error;
  }
}

const bounds = { firstMs: 1_000, longestMs: 60_000 } as const;

/**
 * The same until `signal`: an installation makes the APIService after the api's pods, and one that somebody makes anew
 * knows nothing. Reads once a minute, and as soon as the returned function says that there is another certificate.
 */
export function keepCaBundle(
  client: KubeClient,
  certificate: () => string,
  { log, signal }: { log: Log; signal: AbortSignal },
): () => void {
  let waiting = new AbortController();

  async function keep(): Promise<void> {
    let backoffMs: number = bounds.firstMs;
    while (!signal.aborted) {
      waiting = new AbortController();
      try {
        const written = await writeCaBundle(client, certificate());
        backoffMs = written ? bounds.longestMs : Math.min(backoffMs * 2, bounds.longestMs);
      } catch (error) {
        log.warn({ err: error }, 'could not tell kube-apiserver which certificate to trust');
        backoffMs = Math.min(backoffMs * 2, bounds.longestMs);
      }
      const ended = AbortSignal.any([signal, waiting.signal]);
      await delay(backoffMs, undefined, { signal: ended, ref: false }).catch(() => undefined);
      if (waiting.signal.aborted) backoffMs = bounds.firstMs;
    }
  }

  void keep();
  return () => waiting.abort();
}
