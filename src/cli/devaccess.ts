import { rm } from 'node:fs/promises';
import path from 'node:path';
import { namespaces, objectNames } from '../api/meta.ts';
import { secrets } from '../api/resources.ts';
import { isSvc3Error } from '../errors.ts';
import { caFileOf, type Config, type ConfigStore, createConfigStore, writePrivate } from './config.ts';
import type { Environment } from './environment.ts';
import { wordsFor } from './devwords.ts';
import { openClient } from './kubernetes.ts';
import { sleep } from './sleep.ts';

interface LocalApi {
  readonly name: string;
  readonly baseUrl: string;
  readonly kubeconfig: string;
}

interface AdmitOptions {
  readonly signal: AbortSignal;
  progress(text: string): void;
}

/** The api writes its certificate when it starts for the first time. */
const certificateWaitMs = 60_000;

/**
 * Gives the cluster's administrator an account in svc3-users and tells this program where the HTTP API is. The
 * configuration of another installation is left as it is.
 */
export async function admit(
  environment: Environment,
  api: LocalApi,
  { signal, progress }: AdmitOptions,
): Promise<void> {
  const { client, users, close } = await openClient({
    environment,
    kubeconfig: api.kubeconfig,
    warning: progress,
  });
  try {
    const name = await users.ownName();
    await users.add(name, { clusterAdmin: true, role: 'svc3-edit', namespaces: [], completes: true });
    const said = await remember(environment, api, await certificateOf());
    if (said !== undefined) progress(said);
  } finally {
    await close();
  }

  async function certificateOf(): Promise<string | undefined> {
    const end = performance.now() + certificateWaitMs;
    while (performance.now() < end && !signal.aborted) {
      try {
        const { data } = await client.get(secrets, objectNames.apiTlsSecret, namespaces.system);
        const pem = data?.['ca.crt'] ?? data?.['tls.crt'];
        if (pem !== undefined) return Buffer.from(pem, 'base64').toString('utf8');
      } catch (error) {
        if (!isSvc3Error(error, 'NotFound')) throw error;
      }
      await sleep(500, signal);
    }
    return undefined;
  }
}

/** Notes where the HTTP API is and by which certificate it is known. What there is to say where that cannot be, and what helps. */
export async function remember(
  environment: Environment,
  { name, baseUrl }: Omit<LocalApi, 'kubeconfig'>,
  certificate: string | undefined,
): Promise<string | undefined> {
  const words = wordsFor(name, environment.variables);
  if (certificate === undefined) return `the HTTP API has no certificate yet; ${words.up} again when it has`;
  const config = createConfigStore(environment);
  const caFile = caFileOf(config, name);
  await writePrivate(caFile, certificate);
  const saved = await config.read();
  if (saved.baseUrl !== undefined && !isOfLocalCluster(config, saved))
    return `baseUrl stays ${saved.baseUrl}; for this cluster: eval "$(${words.status} -o env)"`;
  const sameApi = saved.baseUrl === baseUrl;
  await config.write({ baseUrl, caFile, ...(sameApi ? {} : { token: undefined }) });
  return undefined;
}

/** A login through a tunnel is at 127.0.0.1 as well. */
function isOfLocalCluster({ file }: Pick<ConfigStore, 'file'>, { caFile }: Config): boolean {
  return caFile !== undefined && path.dirname(caFile) === path.dirname(file) && caFile.endsWith('-ca.pem');
}

/** Removes what `admit` wrote for a cluster that is gone for good. */
export async function forget(environment: Environment, baseUrl: string): Promise<void> {
  const config = createConfigStore(environment);
  const saved = await config.read();
  if (saved.baseUrl !== baseUrl) return;
  if (saved.caFile !== undefined && isOfLocalCluster(config, saved)) await rm(saved.caFile, { force: true });
  await config.write({ baseUrl: undefined, caFile: undefined, token: undefined });
}
