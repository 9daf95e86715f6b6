import { pino } from 'pino';
import { anyAddress } from '../net/anyaddress.ts';
import { fieldManagers, namespaces, objectNames } from '../api/meta.ts';
import { keepCaBundle } from '../http/aggregated/cabundle.ts';
import { createAggregatedSurface } from '../http/aggregated/surface.ts';
import { requestHeadersOf } from '../http/aggregated/requestheader.ts';
import { parseQuantity } from '../api/quantity.ts';
import { configMaps, secrets } from '../api/resources.ts';
import { kubeConnection, readSettings } from '../config.ts';
import { createGateway } from '../http/legacy/gateway.ts';
import { rows } from '../http/legacy/table.ts';
import { createInformers, type Informers } from '../controller/informers.ts';
import { createWatchMetrics } from '../controller/metrics.ts';
import { verifyLogin } from '../controllers/credential/login.ts';
import { messageOf } from '../errors.ts';
import {
  createCertificateStore,
  ensureCertificate,
  ensureTlsSecret,
  keepTlsSecret,
  reportCertificate,
  watchCertificate,
} from '../http/server/certificate.ts';
import { ensureInternalCertificate, followInternalCertificate } from '../http/server/internalcertificate.ts';
import { createAnswerLines } from '../http/server/accesslog.ts';
import { createDelegatedAuthorizer } from '../http/auth/delegated.ts';
import { createImageTransfer } from '../http/uploads/imagetransfer.ts';
import { createResumableUploads } from '../http/uploads/resumableuploads.ts';
import { UploadTurns } from '../http/uploads/turns.ts';
import { createUploadTargets } from '../usecases/uploadtarget.ts';
import { cachesOf, createApi, type Api } from '../http/process.ts';
import { withinReach } from '../http/remotes/reach.ts';
import { createRemoteCatalog } from '../http/remotes/remotes.ts';
import {
  controlKeyOf,
  createRunnerConnections,
  createSharedSealer,
  createSharedTicketSigner,
} from '../http/streams/runnerconnections.ts';
import { createVmUsages } from '../http/streams/vmusages.ts';
import type { Services } from '../http/call/services.ts';
import {
  ApiSettings,
  certificateNames,
  httpSettingsOf,
  internalNames,
  outsideNames,
} from '../http/server/settings.ts';
import { createServingTls, type KeyPair } from '../http/server/tls.ts';
import { createNamespaceRegistries } from '../controllers/image/registries.ts';
import { storeRegistry } from '../controllers/image/repositorypath.ts';
import { createRegistryMetrics } from '../controllers/metrics/registries.ts';
import { createClient } from '../kube/client.ts';
import type { ConnectionConfig } from '../kube/connection.ts';
import type { Informer, KubeClient } from '../kube/types.ts';
import type { Secret, UserInfo } from '../api/core.ts';
import type { Caller } from '../http/call/caller.ts';
import { createLogger, createMetrics, serveHealth } from '../telemetry.ts';
import { openTracer } from '../tracing/tracer.ts';

const settings = readSettings(ApiSettings);
const destination = pino.destination(1);
const log = createLogger({ name: 'api', level: settings.SVC3_LOG_LEVEL, destination });
const answerLines = createAnswerLines('api', (text) => destination.write(text));
process.once('exit', () => answerLines.flush());
const metrics = createMetrics();
const stopping = new AbortController();

const tlsKey = { namespace: namespaces.system, name: objectNames.apiTlsSecret };

async function main(): Promise<void> {
  let ready = false;
  const end = ended(() => ready);
  const connection = await kubeConnection(settings);
  const client = createClient(connection, {
    userAgent: `svc3-api/${settings.POD_NAME}`,
    fieldManager: fieldManagers.api,
    onCall: metrics.kubeCall,
  });
  const informers = createInformers(client, log);
  createWatchMetrics(metrics.registry, informers);

  const health = await serveHealth({
    port: settings.SVC3_HEALTH_PORT,
    ...(settings.SVC3_HEALTH_HOST === undefined ? {} : { host: settings.SVC3_HEALTH_HOST }),
    ready: () => ready,
    live: () => true,
    metrics: metrics.registry,
  });
  const tracer = await openTracer(settings, {
    service: 'svc3-api',
    instance: settings.POD_NAME,
    registry: metrics.registry,
    log,
  });
  const services = await createServices(connection, client, informers, tracer);
  const api = await createEndpoint(services, informers);
  const watching = informers.run(stopping.signal);
  await informers.synced();
  const host = settings.SVC3_HTTP_HOST ?? (await anyAddress());
  const { port } = await api.listen({ host, port: settings.SVC3_HTTP_PORT });
  ready = true;
  log.info({ port }, 'serving');

  await end;
  ready = false;
  log.info({}, 'draining');
  await api.close(settings.SVC3_SHUTDOWN_GRACE_MS, settings.SVC3_DRAIN_DELAY_MS);
  await tracer?.close();
  stopping.abort();
  await watching.catch(() => undefined);
  await health.close();
  await client.close();
}

/** A cache of one Secret of the installation. To be asked for before the informers run. */
function ownSecret(informers: Informers, name: string): Informer<Secret> {
  return informers.get(secrets, { namespace: namespaces.system, fieldSelector: `metadata.name=${name}` });
}

async function createServices(
  connection: ConnectionConfig,
  client: KubeClient,
  informers: Informers,
  tracer: Services['tracer'],
): Promise<Services> {
  const controlSecret = ownSecret(informers, objectNames.controlKeySecret);
  const controlKey = () => controlKeyOf(controlSecret.get(objectNames.controlKeySecret, namespaces.system));
  const store = { url: settings.SVC3_STORE_URL, prefix: settings.SVC3_STORE_PREFIX };
  const registryFailed = createRegistryMetrics(metrics.registry, [storeRegistry(store)]);
  const registries = createNamespaceRegistries(client, store, registryFailed);
  const uploadTargets = createUploadTargets(client);
  const turns = new UploadTurns();
  const maxBytes = parseQuantity(settings.SVC3_WORKER_SCRATCH_SIZE, 'SVC3_WORKER_SCRATCH_SIZE');
  const catalog = createRemoteCatalog(settings.SVC3_REMOTE_REGISTRIES, (registry, namespace) =>
    registries.look(namespace, registry),
  );
  return {
    client,
    tracer,
    caches: cachesOf(client, informers),
    settings: httpSettingsOf(settings, connection),
    log,
    registryLogin: verifyLogin,
    transfer: createImageTransfer(uploadTargets, registries, store, { turns, maxBytes }),
    uploads: createResumableUploads(uploadTargets, registries, store, {
      turns,
      maxBytes,
      expiryMs: settings.SVC3_UPLOAD_EXPIRY_HOURS * 3_600_000,
    }),
    remotes: withinReach(catalog, store),
    runners: createRunnerConnections(controlKey),
    usages: createVmUsages(controlKey),
    certificates: createCertificateStore(client, tlsKey),
    tickets: createSharedTicketSigner(controlKey),
    seals: createSharedSealer(controlKey),
  };
}

/** The HTTPS endpoint with all API surfaces; it follows its certificates. */
async function createEndpoint(services: Services, informers: Informers): Promise<Api> {
  const { client } = services;
  const tlsSecret = ownSecret(informers, objectNames.apiTlsSecret);
  const pair = await ensureCertificate(client, tlsKey, certificateNames(settings));
  const users = createDelegatedAuthorizer(client, services.caches.accounts);
  const aggregation = await startAggregation(client, informers, users);
  const tls = createServingTls({ pair, ...aggregation?.tls });
  const api = createApi({
    services,
    registry: metrics.registry,
    tls,
    answered: log.isLevelEnabled('info') ? answerLines.answered : () => undefined,
    surfaces: (authenticator) => [
      createGateway(authenticator, rows, settings.SVC3_DEFAULT_NAMESPACE),
      ...(aggregation === undefined ? [] : [aggregation.surface]),
    ],
    concurrentPerIdentity: settings.SVC3_CONCURRENT_REQUESTS,
    longRunningPerIdentity: settings.SVC3_WAITING_REQUESTS,
    checkReplies: settings.SVC3_CHECK_REPLIES,
  });
  aggregation?.onClientCa((pem) => tls.setClientCa(pem));
  aggregation?.follow(tlsSecret, (internal) => tls.setInternal(internal));
  keepTlsSecret(tlsSecret, tlsKey, {
    ensure: () => ensureTlsSecret(client, tlsKey, certificateNames(settings)),
    log,
    signal: stopping.signal,
  });
  watchCertificate(
    tlsSecret,
    tlsKey,
    (taken) => {
      tls.setCertificate(taken);
      reportCertificate(taken, tlsKey, outsideNames(settings), log);
    },
    () => log.warn({ name: tlsKey.name }, 'the Secret holds no certificate with its key; the old one stays'),
  );
  return api;
}

/** What the aggregated API surface needs; undefined where it is off or the cluster has no aggregation layer. */
async function startAggregation(
  client: KubeClient,
  informers: Informers,
  callerOf: (user: UserInfo) => Caller,
) {
  if (!settings.SVC3_AGGREGATED_API_ENABLED) return undefined;
  const source = { namespace: 'kube-system', name: 'extension-apiserver-authentication' };
  let headers = requestHeadersOf(await client.get(configMaps, source.name, source.namespace));
  if (headers === undefined) {
    log.warn(
      {},
      'kube-apiserver has no aggregation layer (flag --requestheader-client-ca-file): the aggregated API is not served, and namespaces that are deleted wait in Terminating until chart value aggregatedApi.enabled is false',
    );
    return undefined;
  }
  const informer = informers.get(configMaps, {
    namespace: source.namespace,
    fieldSelector: `metadata.name=${source.name}`,
  });
  let changed: (pem: string) => void = () => undefined;
  informer.onChange((change) => {
    if (change.kind === 'deleted') return;
    headers = requestHeadersOf(change.object) ?? headers;
    if (headers !== undefined) changed(headers.clientCa);
  });
  let internal = await ensureInternalCertificate(client, tlsKey, internalNames);
  const trustIt = keepCaBundle(client, () => internal.cert, { log, signal: stopping.signal });
  return {
    tls: { internal: { ...internal, names: internalNames }, clientCa: headers.clientCa },
    /** Whoever writes it: another replica, or somebody who removed the Secret. */
    follow(secret: Informer<Secret>, serve: (pair: KeyPair) => void) {
      followInternalCertificate(secret, tlsKey, {
        current: internal,
        onPair(pair) {
          internal = pair;
          serve(pair);
          trustIt();
        },
        async ensure() {
          await ensureTlsSecret(client, tlsKey, certificateNames(settings));
          await ensureInternalCertificate(client, tlsKey, internalNames);
        },
        log,
        signal: stopping.signal,
      });
    },
    surface: createAggregatedSurface(() => headers, callerOf),
    onClientCa: (listener: (pem: string) => void) => {
      changed = listener;
    },
  };
}

/**
 * Resolves at the first signal to end; a second one ends the process at once. So does the first where nothing is served yet: as process 1 of a
 * container it would not end by itself.
 */
function ended(isServing: () => boolean): Promise<void> {
  return new Promise((resolve) => {
    let asked = false;
    const end = (): void => {
      if (asked) process.exit(1);
      if (!isServing()) process.exit(0);
      asked = true;
      resolve();
    };
    process.on('SIGTERM', end);
    process.on('SIGINT', end);
  });
}

main().then(
  () => process.exit(0),
  (error: unknown) => {
    log.error({ err: error }, messageOf(error));
    process.exit(1);
  },
);
