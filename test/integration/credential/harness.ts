import { Writable } from 'node:stream';
import type { Secret } from '../../../src/api/core.ts';
import { conditionTypes } from '../../../src/api/reasons.ts';
import { labels, namespaces, objectNames } from '../../../src/api/meta.ts';
import type { RegistryCredential } from '../../../src/api/registrycredential.ts';
import { namespaces as namespaceResource, registryCredentials, secrets } from '../../../src/api/resources.ts';
import { findCondition } from '../../../src/controller/conditions.ts';
import { createInformers } from '../../../src/controller/informers.ts';
import { createCredentialController } from '../../../src/controllers/credential/controller.ts';
import { base64 } from '../../../src/controllers/credential/dockerconfig.ts';
import type { InsecurePolicy } from '../../../src/controllers/credential/insecure.ts';
import { parseServer } from '../../../src/registry/identity.ts';
import { isSvc3Error } from '../../../src/errors.ts';
import { createClient, type RootClient } from '../../../src/kube/client.ts';
import { loadKubeconfig } from '../../../src/kube/connection.ts';
import { createRecorder } from '../../../src/kube/recorder.ts';
import type { KubeClient } from '../../../src/kube/types.ts';
import { createLogger, createMetrics } from '../../../src/telemetry.ts';
import type { OwnControlPlane } from '../../support/controlplane.ts';
import { installDefinitions } from '../../support/definitions.ts';
import { type EmptyControlPlane, emptyControlPlane } from '../../support/emptycontrolplane.ts';
import type { Submitted } from '../../../src/api/object.ts';

/** The namespaces of an installation that registry credentials need. */
const installed = [namespaces.credentials, namespaces.node, namespaces.system];

export interface CredentialCluster {
  readonly controlPlane: EmptyControlPlane;
  /** Has all rights. */
  readonly client: RootClient;
  remove(): Promise<void>;
}

/**
 * A control plane for one file, `own` where it is given one that ends with it: an operator works on the credentials of all namespaces, so two
 * files cannot share one at the same time.
 */
export async function credentialCluster(own?: OwnControlPlane): Promise<CredentialCluster> {
  const controlPlane = own ?? (await emptyControlPlane());
  const client = createClient(await loadKubeconfig(controlPlane.kubeconfigPath));
  if (own !== undefined) await installDefinitions(client);
  await Promise.all(installed.map((name) => client.apply(namespaceResource, { metadata: { name } })));
  return {
    controlPlane,
    client,
    async remove() {
      await client.close();
      await controlPlane.remove();
    },
  };
}

export interface TestOperator {
  /** Everything it logged. */
  readonly logged: string[];
  readonly metrics: ReturnType<typeof createMetrics>;
  pending(): number;
  drainEvents(): Promise<void>;
  stop(): Promise<void>;
}

/** The credential controller as the operator process runs it, without election. */
export async function startOperator(
  client: KubeClient,
  policy: InsecurePolicy = { enabled: false, allowed: [] },
): Promise<TestOperator> {
  const stopping = new AbortController();
  const logged: string[] = [];
  const destination = new Writable({
    write(chunk: Buffer, _, done) {
      logged.push(chunk.toString('utf8'));
      done();
    },
  });
  const log = createLogger({ name: 'operator', level: 'debug', destination });
  const metrics = createMetrics();
  const informers = createInformers(client, log);
  const recorder = createRecorder(client, { component: 'operator', log });
  const gate = { isHeld: () => true, assertHeld: () => undefined };
  const controller = createCredentialController({
    client,
    informers,
    recorder,
    log,
    metrics,
    gate,
    settings: { insecureRegistries: policy },
  });
  const running = Promise.all([informers.run(stopping.signal), controller.run(stopping.signal)]);
  return {
    logged,
    metrics,
    pending: () => controller.pending(),
    drainEvents: () => recorder.drain(),
    async stop() {
      stopping.abort();
      await running.catch(() => undefined);
    },
  };
}

export function basicAuth(
  name: string,
  username: string,
  password: string,
  isManaged = false,
): Submitted<Secret> {
  return {
    metadata: {
      name,
      namespace: namespaces.credentials,
      ...(isManaged ? { labels: { [labels.managed]: 'true' } } : {}),
    },
    type: 'kubernetes.io/basic-auth',
    data: { username: base64(username), password: base64(password) },
  };
}

export function credential(
  namespace: string,
  server: string,
  spec: Partial<RegistryCredential['spec']> = {},
): Submitted<RegistryCredential> {
  const { name, scheme } = parseServer(server);
  return {
    metadata: { name, namespace },
    spec: {
      server,
      allowInsecure: scheme === 'http',
      secretRef: { name: `${namespace}.${name}` },
      ...spec,
    },
  };
}

/** Writes Secret and credential as an administrator would. */
export async function addCredential(
  client: KubeClient,
  namespace: string,
  server: string,
  password = 's3cret',
): Promise<RegistryCredential> {
  const wanted = credential(namespace, server);
  await client.apply(secrets, basicAuth(wanted.spec.secretRef.name, 'alice', password), {
    fieldManager: 'admin',
  });
  return client.apply(registryCredentials, wanted, { fieldManager: 'admin' });
}

export async function newNamespace(client: KubeClient, prefix = 'team'): Promise<string> {
  const { metadata } = await client.create(namespaceResource, { metadata: { generateName: `${prefix}-` } });
  return metadata.name ?? '';
}

async function ifFound<T>(read: Promise<T>): Promise<T | undefined> {
  try {
    return await read;
  } catch (error) {
    if (isSvc3Error(error, 'NotFound')) return undefined;
    throw error;
  }
}

export function pullSecretOf(client: KubeClient, namespace: string): Promise<Secret | undefined> {
  return ifFound(client.get(secrets, objectNames.pullSecret, namespace));
}

/** Passwords in the pull Secret by key of the docker config; undefined where there is no pull Secret. */
export async function published(
  client: KubeClient,
  namespace: string,
): Promise<Record<string, string> | undefined> {
  const secret = await pullSecretOf(client, namespace);
  if (secret === undefined) return undefined;
  const text = Buffer.from(secret.data?.['.dockerconfigjson'] ?? '', 'base64').toString('utf8');
  const { auths } = JSON.parse(text === '' ? '{"auths":{}}' : text) as {
    auths: Record<string, { password: string }>;
  };
  return Object.fromEntries(Object.entries(auths).map(([key, { password }]) => [key, password]));
}

export function findCredential(
  client: KubeClient,
  namespace: string,
  server: string,
): Promise<RegistryCredential | undefined> {
  return ifFound(client.get(registryCredentials, parseServer(server).name, namespace));
}

/** Reason of the condition Ready. */
export async function readyReason(
  client: KubeClient,
  namespace: string,
  server: string,
): Promise<string | undefined> {
  const found = await findCredential(client, namespace, server);
  return findCondition(found?.status?.conditions, conditionTypes.ready)?.reason;
}
