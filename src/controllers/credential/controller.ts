import { setTimeout as sleep } from 'node:timers/promises';
import type { ConfigMap, Secret } from '../../api/core.ts';
import { namespaces, objectNames } from '../../api/meta.ts';
import type { RegistryCredential } from '../../api/registrycredential.ts';
import { configMaps } from '../../api/resources.ts';
import { leavesSpec } from '../../controller/change.ts';
import { createController, keyOf, splitKey, type Controller } from '../../controller/controller.ts';
import { runControllers, type Runtime } from '../../controller/runtime.ts';
import { createExpectations } from '../../controller/expectations.ts';
import type { Change, Informer } from '../../kube/types.ts';
import { createInsecureRegistriesReconciler } from './insecureregistries.ts';
import { createCredentialCaches, type CredentialCaches } from './observe.ts';
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

type Parts = Pick<
  Runtime<CredentialSettings>,
  'client' | 'informers' | 'recorder' | 'log' | 'metrics' | 'gate' | 'settings'
>;

/**
 * Registry credentials: the pull Secret of each namespace, status and finalizer of each credential, and the list of
 * registries that nodes may trust. To be made before the runtime's informers run.
 */
export function createCredentialController(runtime: Parts): CredentialController {
  return new CredentialControllers(runtime);
}

class CredentialControllers implements CredentialController {
  readonly name = 'credential';
  readonly #caches: CredentialCaches;
  readonly #configMap: Informer<ConfigMap>;
  readonly #publisher: Controller;
  readonly #reporter: Controller;
  readonly #nodes: Controller;
  readonly #expectedPullSecrets = createExpectations<Secret>((namespace) =>
    this.#publisher.enqueue(namespace),
  );
  readonly #expected = createExpectations<RegistryCredential>((key) =>
    this.#reporter.enqueue(splitKey(key).namespace ?? ''),
  );
  readonly #expectedConfigMap = createExpectations<ConfigMap>((name) => this.#nodes.enqueue(name));
  #publishing: Promise<void> | undefined;

  constructor(runtime: Parts) {
    const { client, informers, recorder, settings } = runtime;
    const policy = settings.insecureRegistries;
    const common = { log: runtime.log, gate: runtime.gate, metrics: runtime.metrics.controllers, backoff };
    this.#caches = createCredentialCaches(informers);
    this.#configMap = informers.get(configMaps, {
      namespace: namespaces.node,
      fieldSelector: `metadata.name=${objectNames.insecureRegistries}`,
    });
    const sources = { client, caches: this.#caches, expectedPullSecrets: this.#expectedPullSecrets };
    const { reconcile, refusal } = createPullSecretReconciler({
      ...sources,
      onRefusal: (namespace) => this.#reporter.enqueue(namespace),
    });
    this.#publisher = createController({ ...common, name: 'pull-secret', workers: publishers, reconcile });
    const report = createCredentialReconciler({
      ...sources,
      recorder,
      policy,
      expected: this.#expected,
      refusal,
    });
    this.#reporter = createController({
      ...common,
      name: 'registrycredential',
      workers: 8,
      reconcile: async (namespace) => {
        await this.#published();
        return report(namespace);
      },
    });
    this.#nodes = createController({
      ...common,
      name: 'insecure-registries',
      reconcile: createInsecureRegistriesReconciler({
        client,
        credentials: this.#caches.credentials,
        configMap: this.#configMap,
        expected: this.#expectedConfigMap,
        policy,
      }),
    });
    this.#listen();
  }

  pending(): number {
    return this.#publisher.pending() + this.#reporter.pending() + this.#nodes.pending();
  }

  async run(signal: AbortSignal): Promise<void> {
    const stopped = new Promise<void>((resolve) => {
      signal.addEventListener('abort', () => resolve(), { once: true });
      if (signal.aborted) resolve();
    });
    // A credential without its Secret would be taken out of the pull Secret.
    await Promise.race([Promise.all([this.#caches.synced(), this.#configMap.synced()]), stopped]);
    // Also where no credential is left.
    this.#nodes.enqueue(objectNames.insecureRegistries);
    try {
      await runControllers([this.#publisher, this.#reporter, this.#nodes], signal);
    } finally {
      for (const each of [this.#expectedPullSecrets, this.#expected, this.#expectedConfigMap]) each.clear();
    }
  }

  #listen(): void {
    this.#caches.credentials.onChange((change) => this.#onCredential(change));
    this.#caches.basicAuth.onChange(({ object }) => {
      for (const { metadata } of this.#caches.naming(object.metadata.name)) this.#enqueue(metadata.namespace);
    });
    this.#caches.pullSecrets.onChange(({ object }) => {
      const { namespace } = object.metadata;
      if (this.#expectedPullSecrets.observe(namespace, object)) this.#reporter.enqueue(namespace);
      else this.#enqueue(namespace);
    });
    this.#configMap.onChange(({ object }) => {
      this.#expectedConfigMap.observe(object.metadata.name, object);
      this.#nodes.enqueue(objectNames.insecureRegistries);
    });
  }

  #onCredential(change: Change<RegistryCredential>): void {
    const { object } = change;
    const old = change.kind === 'updated' ? change.old : object;
    // A status or finalizer of ours concerns nobody; the generation tells whether a relist hid a change behind it.
    const isOurs = this.#expected.observe(keyOf(object), object);
    if (isOurs && leavesSpec(change)) return;
    this.#enqueue(object.metadata.namespace);
    if (object.spec.allowInsecure || old.spec.allowInsecure)
      this.#nodes.enqueue(objectNames.insecureRegistries);
  }

  #enqueue(namespace = ''): void {
    this.#publisher.enqueue(namespace);
    this.#reporter.enqueue(namespace);
  }

  /** Pods wait for pull Secrets, nobody waits for a status: while many namespaces are filled, reports come after. */
  #published(): Promise<void> | undefined {
    if (this.#publisher.pending() > publishers) this.#publishing ??= this.#fewer();
    return this.#publishing;
  }

  /** One look for all reports that wait. */
  async #fewer(): Promise<void> {
    const began = performance.now();
    while (this.#publisher.pending() > publishers && performance.now() - began < yieldMs.most)
      await sleep(yieldMs.step);
    this.#publishing = undefined;
  }
}
