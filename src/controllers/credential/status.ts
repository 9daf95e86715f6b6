import { conditionTypes } from '../../api/reasons.ts';
import type { RegistryCredential, RegistryCredentialStatus } from '../../api/registrycredential.ts';
import {
  findCondition,
  removeCondition,
  setCondition,
  type DecidedCondition,
} from '../../controller/conditions.ts';
import type { Plan } from './decide.ts';
import { isAllowedInsecure, type InsecurePolicy } from './insecure.ts';
import { parseServer } from '../../registry/identity.ts';

/** What is to be said about one credential. */
export interface Verdict {
  readonly isReady: boolean;
  readonly reason:
    | 'Published'
    | 'PublishedSecure'
    | 'SecretNotFound'
    | 'SecretInvalid'
    | 'SecretConflict'
    | 'SecretRefused';
  readonly message: string;
}

/** The verdict about a credential; `undefined` while its pull Secret is still to be written. */
export function judge(
  credential: RegistryCredential,
  plan: Plan,
  refusal: string | undefined,
  policy: InsecurePolicy,
): Verdict | undefined {
  const problem = plan.problems.get(credential.metadata.name);
  if (problem !== undefined) return { isReady: false, reason: problem.reason, message: problem.message };
  if (plan.pullSecret.kind !== 'keep') {
    return refusal === undefined ? undefined : { isReady: false, reason: 'SecretRefused', message: refusal };
  }
  const registry = parseServer(credential.spec.server, 'spec.server');
  if (credential.spec.allowInsecure && !isAllowedInsecure(registry, policy)) {
    const why = policy.enabled ? 'the chart does not allow this host' : 'the chart does not allow it';
    return {
      isReady: true,
      reason: 'PublishedSecure',
      message: `published, but nodes only pull from ${registry.registry} with a certificate they trust: ${why} (insecureRegistries)`,
    };
  }
  return { isReady: true, reason: 'Published', message: `published for ${registry.registry}` };
}

/** A Secret may be applied after its credential, and is replaced by deleting it first; in milliseconds. */
const secretGraceMs = 60_000;

/** Milliseconds until a missing Secret is somebody's to make; undefined where the verdict is another, or they are over. */
export function secretWaitMs(
  { status }: RegistryCredential,
  { reason }: Verdict,
  now: Date,
): number | undefined {
  if (reason !== 'SecretNotFound') return undefined;
  const ready = findCondition(status?.conditions, conditionTypes.ready);
  const since = ready?.status === 'False' ? Date.parse(ready.lastTransitionTime) : now.getTime();
  const leftMs = since + secretGraceMs - now.getTime();
  return leftMs > 0 ? leftMs : undefined;
}

const finalReasons: ReadonlySet<string> = new Set(['SecretNotFound', 'SecretInvalid', 'SecretConflict']);

/** The status that says so; conditions that did not change keep their time. */
export function statusOf(
  credential: RegistryCredential,
  verdict: Verdict,
  now: Date,
): RegistryCredentialStatus {
  const observedGeneration = credential.metadata.generation ?? 0;
  const { reason, message, isReady } = verdict;
  const put = (
    conditions: RegistryCredentialStatus['conditions'],
    condition: Omit<DecidedCondition, 'observedGeneration'>,
  ) => setCondition(conditions, { ...condition, observedGeneration }, now);
  const { ready, stalled, reconciling } = conditionTypes;
  const isSecretAwaited = secretWaitMs(credential, verdict, now) !== undefined;
  let conditions = put(credential.status?.conditions, {
    type: ready,
    status: isReady ? 'True' : 'False',
    reason,
    message,
  });
  // Nothing goes on until somebody acts (kstatus).
  conditions =
    finalReasons.has(reason) && !isSecretAwaited
      ? put(conditions, { type: stalled, status: 'True', reason, message })
      : removeCondition(conditions, stalled);
  conditions =
    reason === 'SecretRefused' || isSecretAwaited
      ? put(conditions, { type: reconciling, status: 'True', reason: 'Progressing', message })
      : removeCondition(conditions, reconciling);
  return {
    observedGeneration,
    conditions,
    registry: parseServer(credential.spec.server, 'spec.server').registry,
  };
}
