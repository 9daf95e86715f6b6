import type { RegistryCredential, RegistryCredentialStatus } from '../../api/registrycredential.ts';
import { applyOrderLeftMs, readyStatus, type Progress } from '../../controller/kstatus.ts';
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
  if (plan.pullSecret.kind !== 'keep')
    return refusal === undefined ? undefined : { isReady: false, reason: 'SecretRefused', message: refusal };
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

/** Milliseconds until a missing Secret is somebody's to make; undefined where the verdict is another, or they are over. */
export function secretWaitMs(
  { status }: RegistryCredential,
  { reason }: Verdict,
  now: Date,
): number | undefined {
  return reason === 'SecretNotFound' ? applyOrderLeftMs(status?.conditions, now) : undefined;
}

const finalReasons: ReadonlySet<string> = new Set(['SecretNotFound', 'SecretInvalid', 'SecretConflict']);

/** Nothing goes on until somebody acts where the reason is final (kstatus). */
function progressOf(credential: RegistryCredential, verdict: Verdict, now: Date): Progress {
  const isSecretAwaited = secretWaitMs(credential, verdict, now) !== undefined;
  if (verdict.reason === 'SecretRefused' || isSecretAwaited) return 'reconciling';
  return finalReasons.has(verdict.reason) ? 'stalled' : 'idle';
}

/** The status that says so; conditions that did not change keep their time. */
export function statusOf(
  credential: RegistryCredential,
  verdict: Verdict,
  now: Date,
): RegistryCredentialStatus {
  return {
    ...readyStatus(credential, verdict, progressOf(credential, verdict, now), now),
    registry: parseServer(credential.spec.server, 'spec.server').registry,
  };
}
