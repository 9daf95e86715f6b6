import { labels, namespaces } from '../../api/meta.ts';
import { conditionTypes } from '../../api/reasons.ts';
import type { RegistryCredential } from '../../api/registrycredential.ts';
import { registryCredentials, secrets, typeMeta } from '../../api/resources.ts';
import { findCondition } from '../../controller/conditions.ts';
import { keyOf } from '../../controller/controller.ts';
import { hasFinalizer } from '../../api/finalizer.ts';
import { addFinalizer, removeFinalizer } from '../../controller/finalizer.ts';
import { ignoring } from '../../controller/ignoring.ts';
import { applyStatus, isSameStatus } from '../../controller/status.ts';
import type { EventRecorder, ReconcileResult } from '../../kube/types.ts';
import type { Expectations } from '../../controller/expectations.ts';
import { basicAuthType } from './basicauth.ts';
import { decide, type Plan } from './decide.ts';
import type { InsecurePolicy } from './insecure.ts';
import { findBasicAuth, observe, type Sources } from './observe.ts';
import { judge, secretWaitMs, statusOf, type Verdict } from './status.ts';
import { storedSecretName } from './storedsecret.ts';

export interface CredentialReconcilerOptions extends Sources {
  recorder: EventRecorder;
  policy: InsecurePolicy;
  /** By `namespace/name`. */
  expected: Expectations<RegistryCredential>;
  /** What kube-apiserver said when it last refused the pull Secret of the namespace. */
  refusal(namespace: string): string | undefined;
  now?: () => Date;
}

/**
 * Finalizers, status and events of the RegistryCredentials of one namespace; keys are namespaces. It writes no pull
 * Secret. One that cannot be written does not hold up the others; its error comes out at the end.
 */
export function createCredentialReconciler(
  options: CredentialReconcilerOptions,
): (namespace: string) => Promise<ReconcileResult | void> {
  return async (namespace) => {
    const observed = await observe(options, namespace);
    const plan = decide(observed);
    const failures: unknown[] = [];
    const waits: number[] = [];
    for (const credential of observed.credentials)
      await reconcile(options, credential, plan)
        .then((waitMs) => waits.push(waitMs ?? Infinity))
        .catch((error: unknown) => failures.push(error));
    if (failures.length > 0) throw failures[0];
    const requeueAfterMs = Math.min(...waits);
    return Number.isFinite(requeueAfterMs) ? { requeueAfterMs } : undefined;
  };
}

async function reconcile(
  options: CredentialReconcilerOptions,
  cached: RegistryCredential,
  plan: Plan,
): Promise<number | undefined> {
  const credential = options.expected.current(keyOf(cached), cached);
  if (credential === undefined) return undefined;
  if (credential.metadata.deletionTimestamp === undefined)
    return report(options, await hold(options, credential), plan);
  return release(options, credential, plan);
}

/** Only a credential whose Secret svc3 is to clean up needs the finalizer; others go when they are deleted. */
async function hold(
  { client, caches, expected }: CredentialReconcilerOptions,
  credential: RegistryCredential,
): Promise<RegistryCredential> {
  if (hasFinalizer(credential)) return credential;
  const secret = caches.basicAuth.get(credential.spec.secretRef.name, namespaces.credentials);
  if (secret?.metadata.labels?.[labels.managed] !== 'true') return credential;
  const held = await addFinalizer(client, registryCredentials, credential);
  expected.wrote(keyOf(credential), held);
  return held;
}

/** Lets a deleted credential go once the pull Secret does not hold it any more; where that may not be written, it says what it waits for. */
async function release(
  options: CredentialReconcilerOptions,
  credential: RegistryCredential,
  plan: Plan,
): Promise<number | undefined> {
  if (!hasFinalizer(credential)) return undefined;
  const { kind } = plan.pullSecret;
  // The change of the pull Secret brings the key back.
  if (kind === 'update' || kind === 'delete') return report(options, credential, plan);
  const { namespace, name } = credential.metadata;
  // A credential that was pointed at another Secret still owns the one that was made for it.
  const owned = new Set([credential.spec.secretRef.name, storedSecretName(namespace, name)]);
  for (const secret of owned) await deleteManagedSecret(options, credential, secret);
  const { client, expected } = options;
  await removeFinalizer(client, registryCredentials, credential, { expected, key: keyOf(credential) });
  return undefined;
}

/** A basic-auth Secret that CLI or HTTP made for this credential, unless another credential names it too. */
async function deleteManagedSecret(
  { client, caches }: Sources,
  credential: RegistryCredential,
  name: string,
): Promise<void> {
  const others = caches
    .naming(name)
    .filter(
      ({ metadata }) => metadata.uid !== credential.metadata.uid && metadata.deletionTimestamp === undefined,
    );
  if (others.length > 0) return;
  const secret = await findBasicAuth(caches, client, name);
  if (secret?.type !== basicAuthType || secret.metadata.labels?.[labels.managed] !== 'true') return;
  const { uid, resourceVersion } = secret.metadata;
  const key = { name, namespace: namespaces.credentials };
  await ignoring(['NotFound'], client.delete(secrets, key, { uid, resourceVersion }));
}

/** @returns milliseconds until something else is to be said though nothing has changed */
async function report(
  options: CredentialReconcilerOptions,
  credential: RegistryCredential,
  plan: Plan,
): Promise<number | undefined> {
  const { client, recorder, expected, policy, refusal, now = () => new Date() } = options;
  const { namespace } = credential.metadata;
  const verdict = judge(credential, plan, refusal(namespace), policy);
  if (verdict === undefined) return undefined;
  const time = now();
  const status = statusOf(credential, verdict, time);
  const waitMs = secretWaitMs(credential, verdict, time);
  if (isSameStatus(credential.status, status)) return waitMs;
  const written = await applyStatus(client, registryCredentials, credential, status);
  if (written === undefined) return waitMs;
  expected.wrote(keyOf(credential), written);
  tell(recorder, credential, verdict);
  return waitMs;
}

/** Events tell of transitions; that a new credential is published as it should is none. */
function tell(recorder: EventRecorder, credential: RegistryCredential, verdict: Verdict): void {
  const before = findCondition(credential.status?.conditions, conditionTypes.ready)?.reason;
  const { reason, message, isReady } = verdict;
  if (before === reason || (before === undefined && reason === 'Published')) return;
  recorder.event(
    { ...typeMeta(registryCredentials), metadata: credential.metadata },
    { type: isReady ? 'Normal' : 'Warning', reason, message },
  );
}
