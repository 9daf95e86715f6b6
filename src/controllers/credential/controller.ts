import { setTimeout as sleep } from 'node:timers/promises';
import type { ConfigMap, Secret } from '../../api/core.ts';
import { namespaces, objectNames } from '../../api/meta.ts';
import type { RegistryCredential } from '../../api/registrycredential.ts';
import { configMaps } from '../../api/resources.ts';
import { createController, keyOf, splitKey } from '../../controller/controller.ts';
import { runControllers, type Runtime } from '../../controller/runtime.ts';
import { createExpectations } from '../../controller/expectations.ts';
import { createInsecureRegistriesReconciler } from './insecureregistries.ts';
import { createCredentialCaches } from './observe.ts';
import { createPullSecretReconciler } from './pullsecret.ts';
import { createCredentialReconciler } from './reconciler.ts';
import type { CredentialSettings } from './settings.ts';

/** So that a Secret that was refused is there soon after quota or policy allow it. */
const backoff = { baseMs: 50, maxMs: 30_000 };

/** Namespaces whose pull Secrets are written at the same time. */
const publishers = 32;

/** How long a report waits while there are more namespaces than that, and how often it looks. */
const yieldMs = { step: 20, most: 10_000 };

export interface CredentialController {
  readonly name: string;
  /** Waits for the caches, then works until the signal. */
  run(signal: AbortSignal): Promise<void>;
  /** Keys waiting or being worked on. */
  pending(): number;
}

/**
 * Registry credentials: the pull Secret of each namespace, status and finalizer of each credential, and the list of
 * registries that nodes may trust. To be made before the runtime's informers run.
 */
export function createCredentialController(
  runtime: Pick<
    Runtime<CredentialSettings>,
    'client' | 'informers' | 'recorder' | 'log' | 'metrics' | 'gate' | 'settings'
  >,
): CredentialController {
  const { client, informers, recorder, log, gate, settings } = runtime;
  const policy = settings.insecureRegistries;
  const common = { log, gate, metrics: runtime.metrics.controllers, backoff };
  const caches = createCredentialCaches(informers);
  const configMap = informers.get(configMaps, {
    namespace: namespaces.node,
    fieldSelector: `metadata.name=${objectNames.insecureRegistries}`,
  });

  const expectedPullSecrets = createExpectations<Secret>((namespace) => publisher.enqueue(namespace));
  const expected = createExpectations<RegistryCredential>((key) =>
    reporter.enqueue(splitKey(key).namespace ?? ''),
  );
  const expectedConfigMap = createExpectations<ConfigMap>((name) => nodes.enqueue(name));
  const sources = { client, caches, expectedPullSecrets };
  const pullSecret = createPullSecretReconciler({
    ...sources,
    onRefusal: (namespace) => reporter.enqueue(namespace),
  });
  const publisher = createController({
    ...common,
    name: 'pull-secret',
    workers: publishers,
    reconcile: pullSecret.reconcile,
  });
  const report = createCredentialReconciler({
    ...sources,
    recorder,
    policy,
    expected,
    refusal: pullSecret.refusal,
  });
  const reporter = createController({
    ...common,
    name: 'registrycredential',
    workers: 8,
    async reconcile(namespace) {
      await published();
      await report(namespace);
    },
  });
  let publishing: Promise<void> | undefined;

  /** Pods wait for pull Secrets, nobody waits for a status: while many namespaces are filled, reports come after. */
  function published(): Promise<void> | undefined {
    if (publisher.pending() > publishers) publishing ??= fewer();
    return publishing;
  }

  /** One look for all reports that wait. */
  async function fewer(): Promise<void> {
    const began = performance.now();
    while (publisher.pending() > publishers && performance.now() - began < yieldMs.most) {
      await sleep(yieldMs.step);
    }
    publishing = undefined;
  }

  const nodes = createController({
    ...common,
    name: 'insecure-registries',
    reconcile: createInsecureRegistriesReconciler({
      client,
      credentials: caches.credentials,
      configMap,
      expected: expectedConfigMap,
      policy,
    }),
  });

  function enqueue(namespace = ''): void {
    publisher.enqueue(namespace);
    reporter.enqueue(namespace);
  }

  caches.credentials.onChange((change) => {
    const { object } = change;
    // A status or finalizer of ours concerns nobody; the generation tells whether a relist hid a change behind it.
    const isOurs = expected.observe(keyOf(object), object);
    if (
      isOurs &&
      change.kind === 'updated' &&
      change.old.metadata.generation === object.metadata.generation
    ) {
      return;
    }
    enqueue(object.metadata.namespace);
    const old = change.kind === 'updated' ? change.old : object;
    if (object.spec.allowInsecure || old.spec.allowInsecure) nodes.enqueue(objectNames.insecureRegistries);
  });
  caches.basicAuth.onChange(({ object }) => {
    for (const { metadata } of caches.naming(object.metadata.name ?? '')) enqueue(metadata.namespace);
  });
  caches.pullSecrets.onChange(({ object }) => {
    const { namespace = '' } = object.metadata;
    if (expectedPullSecrets.observe(namespace, object)) reporter.enqueue(namespace);
    else enqueue(namespace);
  });
  configMap.onChange(({ object }) => {
    expectedConfigMap.observe(object.metadata.name ?? '', object);
    nodes.enqueue(objectNames.insecureRegistries);
  });

  return {
    name: 'credential',
    pending: () => publisher.pending() + reporter.pending() + nodes.pending(),
    async run(signal) {
      const stopped = new Promise<void>((resolve) => {
        signal.addEventListener('abort', () => resolve(), { once: true });
        if (signal.aborted) resolve();
      });
      // A credential without its Secret would be taken out of the pull Secret.
      await Promise.race([Promise.all([caches.synced(), configMap.synced()]), stopped]);
      // Also where no credential is left.
      nodes.enqueue(objectNames.insecureRegistries);
      try {
        await runControllers([publisher, reporter, nodes], signal);
      } finally {
        for (const expectations of [expectedPullSecrets, expected, expectedConfigMap]) expectations.clear();
      }
    },
  };
}
