import { setTimeout as delay } from 'node:timers/promises';
import { actionsGroup, version } from '../../api/meta.ts';
import { apiServices } from '../../api/resources.ts';
import { backoffDelay } from '../../backoff.ts';
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

/** How often it is read while kube-apiserver knows the certificate, in milliseconds. */
const readEveryMs = 60_000;
const retryTimes = { baseMs: 2_000, maxMs: readEveryMs, jitter: 0.5 } as const;

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

  async function isWritten(): Promise<boolean> {
    try {
      return await writeCaBundle(client, certificate());
    } catch (error) {
      log.warn({ err: error }, 'could not tell kube-apiserver which certificate to trust');
      return false;
    }
  }

  async function keep(): Promise<void> {
    let failures = 0;
    while (!signal.aborted) {
      waiting = new AbortController();
      failures = (await isWritten()) ? 0 : failures + 1;
      const waitMs = failures === 0 ? readEveryMs : backoffDelay(failures, retryTimes);
      const ended = AbortSignal.any([signal, waiting.signal]);
      await delay(waitMs, undefined, { signal: ended, ref: false }).catch(() => undefined);
      if (waiting.signal.aborted) failures = 0;
    }
  }

  void keep();
  return () => waiting.abort();
}
