import type { Secret } from '../../api/core.ts';
import { fieldManagers, labels, objectNames } from '../../api/meta.ts';
import type { RegistryCredential } from '../../api/registrycredential.ts';
import { readBasicAuth } from './basicauth.ts';
import { base64, dockerConfigJson, type RegistryLogin } from './dockerconfig.ts';
import { parseServer } from '../../registry/identity.ts';

export const pullSecretType = 'kubernetes.io/dockerconfigjson';
export const dockerConfigKey = '.dockerconfigjson';

/** Who made the pull Secret. */
export const pullSecretLabels = {
  [labels.name]: 'svc3',
  [labels.component]: 'registry-credentials',
  [labels.partOf]: 'svc3',
  [labels.managedBy]: 'svc3',
} as const;

/** One namespace as it is. */
export interface Observed {
  readonly credentials: readonly RegistryCredential[];
  /** Basic-auth Secrets that the credentials name; one that does not exist is missing. */
  readonly secrets: ReadonlyMap<string, Secret>;
  readonly pullSecret: Secret | undefined;
}

/** Why a credential does not stand in the pull Secret. */
export interface Problem {
  readonly reason: 'SecretNotFound' | 'SecretInvalid' | 'SecretConflict';
  readonly message: string;
}

/** What is to be done to the pull Secret. */
export type PullSecretPlan =
  | { readonly kind: 'keep' }
  | { readonly kind: 'create'; readonly config: string }
  | { readonly kind: 'update'; readonly config: string; readonly secret: Secret }
  | { readonly kind: 'delete'; readonly secret: Secret };

export interface Plan {
  readonly pullSecret: PullSecretPlan;
  /** By name of the credential; those that are well have none. */
  readonly problems: ReadonlyMap<string, Problem>;
  /** What the plan publishes: to be kept out of every text. */
  readonly logins: readonly RegistryLogin[];
}

/** What to do for a namespace so that its pull Secret holds exactly its usable credentials. */
export function decide({ credentials, secrets, pullSecret }: Observed): Plan {
  const problems = new Map<string, Problem>();
  const logins: RegistryLogin[] = [];
  const live = credentials.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  for (const { metadata, spec } of live) {
    const read = readBasicAuth(spec.secretRef.name, secrets.get(spec.secretRef.name));
    if (read.kind === 'problem') problems.set(metadata.name, read);
    else logins.push({ ...read, registry: parseServer(spec.server, 'spec.server') });
  }
  const conflict = pullSecret === undefined ? undefined : conflictOf(pullSecret);
  if (conflict === undefined) return { pullSecret: planPullSecret(logins, pullSecret), problems, logins };
  for (const { metadata } of live) {
    const name = metadata.name;
    if (!problems.has(name)) problems.set(name, conflict);
  }
  return { pullSecret: { kind: 'keep' }, problems, logins };
}

/**
 * Made by svc3: so says the label, or the server's own record of who applied it (where somebody has taken the label
 * away).
 */
export function isOurs(secret: Secret): boolean {
  const applied = (secret.metadata.managedFields ?? []) as { manager?: string; operation?: string }[];
  return (
    secret.type === pullSecretType &&
    (secret.metadata.labels?.[labels.managedBy] === 'svc3' ||
      applied.some(({ manager, operation }) => manager === fieldManagers.operator && operation === 'Apply'))
  );
}

function conflictOf(secret: Secret): Problem | undefined {
  if (!isOurs(secret))
    return {
      reason: 'SecretConflict',
      message: `a Secret ${objectNames.pullSecret} that svc3 did not make is in the way; delete or rename it`,
    };
  return secret.metadata.deletionTimestamp === undefined
    ? undefined
    : {
        reason: 'SecretConflict',
        message: `the Secret ${objectNames.pullSecret} is being deleted and waits for finalizers of others`,
      };
}

function planPullSecret(logins: readonly RegistryLogin[], secret: Secret | undefined): PullSecretPlan {
  if (logins.length === 0) return secret === undefined ? { kind: 'keep' } : { kind: 'delete', secret };
  const config = base64(dockerConfigJson(logins));
  if (secret === undefined) return { kind: 'create', config };
  const isLabelled = Object.entries(pullSecretLabels).every(
    ([key, value]) => secret.metadata.labels?.[key] === value,
  );
  if (secret.data?.[dockerConfigKey] === config && isLabelled) return { kind: 'keep' };
  // An immutable one can only be made anew.
  return secret.immutable === true ? { kind: 'delete', secret } : { kind: 'update', config, secret };
}
