import { randomBytes } from 'node:crypto';
import type { z } from 'zod';
import { namespaces, objectNames } from '../api/meta.ts';
import { registryCredentials, secrets } from '../api/resources.ts';
import { CommonSettings, kubeConnection, readSettings } from '../config.ts';
import { createRunnerClient, type RunnerClient } from '../runnerapi/client.ts';
import { signControlToken } from '../runnerapi/token.ts';
import type { Controller } from '../controller/controller.ts';
import { createInformers, type Informers } from '../controller/informers.ts';
import { createLeaderElector, gatedClient, type LeaderElector } from '../controller/leader.ts';
import { runProcess } from '../controller/run.ts';
import { runControllers, type Runtime } from '../controller/runtime.ts';
import { createCredentialController } from '../controllers/credential/controller.ts';
import { credentialSettings, credentialSettingsOf } from '../controllers/credential/settings.ts';
import { messageOf, Svc3Error } from '../errors.ts';
import { createImageControllers } from '../controllers/image/controller.ts';
import { storeRegistry } from '../controllers/image/repositorypath.ts';
import { imageEnvironment, imageSettingsOf } from '../controllers/image/settings.ts';
import { createClient } from '../kube/client.ts';
import { createRecorder, eventDrainMs } from '../kube/recorder.ts';
import { conditionSources, createConditionMetrics } from '../controllers/metrics/conditions.ts';
import { createPlacementMetrics } from '../controllers/metrics/placements.ts';
import { createRegistryMetrics } from '../controllers/metrics/registries.ts';
import { createMetricsTokenController } from '../controllers/metrics/tokens.ts';
import { createLeaderMetrics, createWatchMetrics } from '../controller/metrics.ts';
import { electWithCaches } from '../controller/standby.ts';
import { createNodeController } from '../controllers/node/controller.ts';
import { nodeSettings, nodeSettingsOf } from '../controllers/node/settings.ts';
import { createLogger, createMetrics, serveHealth } from '../telemetry.ts';
import {
  type ControlKeys,
  controlKeySecrets,
  createControlKeyController,
  createControlKeys,
} from '../controllers/vm/runner/controlkeys.ts';
import { createVmController } from '../controllers/vm/controller.ts';
import { StartTraces } from '../controllers/vm/starts/starttraces.ts';
import { traceEnvironment } from '../tracing/settings.ts';
import { openTracer } from '../tracing/tracer.ts';
import { vmEnvironment, vmSettingsOf } from '../controllers/vm/environment.ts';
import { createImageResolver } from '../controllers/vm/resolve/imageresolver.ts';
import { createVmPoolController } from '../controllers/vmpool/controller.ts';
import { createPoolMetrics } from '../controllers/vmpool/metrics.ts';
import { createVmConfigController } from '../controllers/vmconfig/controller.ts';

const OperatorSettings = CommonSettings.extend({
  ...vmEnvironment,
  ...credentialSettings,
  ...imageEnvironment,
  ...nodeSettings,
  ...traceEnvironment,
});

const environment = settingsOrEnd();
const log = createLogger({ name: 'operator', level: environment.SVC3_LOG_LEVEL });

/** A wrong setting ends the process with one sentence that names it. */
function settingsOrEnd(): z.infer<typeof OperatorSettings> {
  try {
    return readSettings(OperatorSettings);
  } catch (error) {
    console.error(`svc3 operator: ${messageOf(error)}`);
    return process.exit(1);
  }
}

interface RunnerTarget {
  address: string;
  vmUid: string;
  pin: string | undefined;
  signal?: AbortSignal;
}

/** Runners are called with the installation's key; before it is there, nobody can be. */
function runnerOpener(keys: ControlKeys): (target: RunnerTarget) => RunnerClient {
  return ({ address, vmUid, pin, signal }) =>
    createRunnerClient({
      address,
      vmUid,
      ...(pin === undefined ? {} : { pin }),
      ...(signal === undefined ? {} : { signal }),
      sign(claims) {
        const key = keys.signingKey();
        if (key === undefined)
          throw new Svc3Error('ServiceUnavailable', 'there is no control key that can be read');
        return signControlToken(claims, key);
      },
    });
}

type Common = Omit<Runtime, 'settings'>;
type Metrics = ReturnType<typeof createMetrics>;

/** All controllers, in the order in which they are started. To be made before the informers run. */
function createControllers(
  common: Common,
  controlKeys: ControlKeys,
  metrics: Metrics,
  starts: StartTraces | undefined,
): Pick<Controller, 'run'>[] {
  const { informers } = common;
  const openRunner = runnerOpener(controlKeys);
  const registryFailed = createRegistryMetrics(metrics.registry, [
    storeRegistry({ url: environment.SVC3_STORE_URL }),
  ]);
  // Made first: it keeps more of the pull Secrets in the shared cache than the others need.
  const credentials = createCredentialController({
    ...common,
    settings: credentialSettingsOf(environment),
  });
  const poolMetrics = createPoolMetrics(metrics.registry);
  const vms = createVmController(
    { ...common, settings: vmSettingsOf(environment) },
    {
      controlKeys: () => controlKeys.publicKeys(),
      openRunner,
      claims: poolMetrics,
      resolver: createImageResolver({
        credentials: informers.get(registryCredentials),
        basicAuth: informers.get(secrets, { namespace: namespaces.credentials }),
        storeUrl: environment.SVC3_STORE_URL,
        failed: registryFailed,
      }),
      placed: createPlacementMetrics(metrics.registry),
      starts,
    },
  );
  const pools = createVmPoolController(
    { ...common, settings: vmSettingsOf(environment) },
    { shared: vms.shared, metrics: poolMetrics },
  );
  const disks = createImageControllers(
    { ...common, settings: imageSettingsOf(environment) },
    { openRunner, registryFailed },
  );
  const nodes = createNodeController({ ...common, settings: nodeSettingsOf(environment) });
  const configs = createVmConfigController(common);
  const tokens = environment.SVC3_VM_METRICS
    ? [createMetricsTokenController({ ...common, settings: undefined }, () => controlKeys.signingKey())]
    : [];
  const keys = createControlKeyController(common, controlKeys);
  return [credentials, vms, pools, configs, nodes, ...disks, ...tokens, keys];
}

function followStates(metrics: Metrics, informers: Informers, elector: LeaderElector): void {
  createConditionMetrics(metrics.registry, conditionSources(informers));
  createWatchMetrics(metrics.registry, informers);
  createLeaderMetrics(metrics.registry, {
    isLeader: () => elector.isLeader(),
    transitions: () => elector.transitions(),
  });
}

/** So long after the caches are full their garbage is given back, in milliseconds: an idle process would keep it. */
const garbageMs = 2_000;

function giveGarbageBack(): void {
  setTimeout(
    () => globalThis.gc?.({ type: 'major', execution: 'sync', flavor: 'last-resort' }),
    garbageMs,
  ).unref();
}

async function start(signal: AbortSignal): Promise<void> {
  const metrics = createMetrics();
  const instance = environment.POD_NAME;
  const { registry } = metrics;
  const tracer = await openTracer(environment, { service: 'svc3-operator', instance, registry, log });
  const starts = tracer === undefined ? undefined : new StartTraces(tracer);
  const client = createClient(await kubeConnection(environment), {
    userAgent: `svc3-operator/${instance}`,
    onCall: metrics.kubeCall,
  });
  const informers = createInformers(client, log);
  const elector = createLeaderElector({
    client,
    namespace: environment.POD_NAMESPACE,
    name: objectNames.operatorLease,
    // A container that was started again is another candidate: its predecessor may still believe that it leads.
    identity: `${instance}-${randomBytes(4).toString('hex')}`,
    log,
    onStarted: (leading) => lead(leading),
  });
  const { gate } = elector;
  const guarded = gatedClient(client, gate);
  const recorder = createRecorder(guarded, {
    component: 'operator',
    instance,
    log,
    onDropped: metrics.eventDropped,
  });
  const controlKeys = createControlKeys(guarded, controlKeySecrets(informers), log);
  const common: Common = { client: guarded, informers, recorder, log, metrics, gate };
  const controllers = createControllers(common, controlKeys, metrics, starts);
  followStates(metrics, informers, elector);

  async function lead(leading: AbortSignal): Promise<void> {
    await controlKeys.ensure();
    log.info({}, 'leading');
    await runControllers(controllers, leading);
    await recorder.drain(eventDrainMs);
  }

  const health = await serveHealth({
    port: environment.SVC3_HEALTH_PORT,
    ...(environment.SVC3_HEALTH_HOST === undefined ? {} : { host: environment.SVC3_HEALTH_HOST }),
    ready: () => informers.hasSynced(),
    live: () => true,
    metrics: registry,
  });
  void informers.synced().then(giveGarbageBack);
  const watching = new AbortController();
  const caches = informers.run(watching.signal);
  try {
    // The caches outlive leading: what is under way at the end still reads them.
    await electWithCaches(elector, informers, signal);
  } finally {
    watching.abort();
    await caches.catch(() => undefined);
    starts?.flush();
    await tracer?.close();
    await health.close();
    await client.close();
  }
}

await runProcess({ name: 'operator', log, start, graceMs: environment.SVC3_SHUTDOWN_GRACE_MS });
