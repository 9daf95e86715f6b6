import { objectNames } from '../../api/meta.ts';
import type { Secret } from '../../api/core.ts';
import { secrets } from '../../api/resources.ts';
import { waiting } from '../../controller/outcome.ts';
import { isRefusal } from '../../controller/refusal.ts';
import { isSvc3Error, messageOf, Svc3Error } from '../../errors.ts';
import { absentVersion } from '../../kube/ensure.ts';
import type { ReconcileResult } from '../../kube/types.ts';
import { scrub, scrubBase64 } from '../../registry/scrub.ts';
import {
  decide,
  dockerConfigKey,
  pullSecretLabels,
  pullSecretType,
  type Plan,
  type PullSecretPlan,
} from './decide.ts';
import { observe, type Sources } from './observe.ts';
import type { Submitted } from '../../api/object.ts';

/**
 * Two writes to the pull Secret of one namespace are at least so far apart: a credential that changes a hundred times in
 * a second is written five times, and a single change at once.
 */
export const spacingMs = 200;

export interface PullSecretReconciler {
  reconcile(namespace: string): Promise<ReconcileResult | void>;
  /** What kube-apiserver said when it last refused the pull Secret of the namespace. */
  refusal(namespace: string): string | undefined;
}

export interface PullSecretOptions extends Sources {
  /** Called when a refusal begins or ends. */
  onRefusal(namespace: string): void;
}

/** Keeps the pull Secret of each namespace true; keys are namespaces. */
export function createPullSecretReconciler(options: PullSecretOptions): PullSecretReconciler {
  const { onRefusal } = options;
  const refusals = new Map<string, string>();
  const writtenAt = new Map<string, number>();

  function refuse(namespace: string, message: string | undefined): void {
    if (refusals.get(namespace) === message) return;
    if (message === undefined) refusals.delete(namespace);
    else refusals.set(namespace, message);
    onRefusal(namespace);
  }

  async function write(namespace: string, plan: Plan): Promise<void> {
    try {
      await act(options, namespace, plan.pullSecret);
      refuse(namespace, undefined);
    } catch (error) {
      const said = withoutSecrets(messageOf(error), plan);
      if (isGoing(error)) throw waiting(`namespace ${namespace} is being removed`, 1_000);
      if (isRefusal(error) || isSvc3Error(error, 'RequestEntityTooLarge')) refuse(namespace, said);
      throw said === messageOf(error) ? error : new Svc3Error('InternalError', said);
    }
  }

  return {
    refusal: (namespace) => refusals.get(namespace),
    async reconcile(namespace) {
      const observed = await observe(options, namespace);
      const plan = decide(observed);
      if (plan.pullSecret.kind === 'keep') {
        refuse(namespace, undefined);
        if (observed.credentials.length === 0) writtenAt.delete(namespace);
        return undefined;
      }
      const sinceMs = performance.now() - (writtenAt.get(namespace) ?? Number.NEGATIVE_INFINITY);
      if (sinceMs < spacingMs) return { requeueAfterMs: spacingMs - sinceMs };
      writtenAt.set(namespace, performance.now());
      await write(namespace, plan);
      return undefined;
    },
  };
}

/** Admission may quote the Secret that it refuses. */
function withoutSecrets(text: string, { pullSecret, logins }: Plan): string {
  const config = 'config' in pullSecret ? pullSecret.config : '';
  return scrubBase64(logins.reduce(scrub, text), config);
}

/** The namespace is gone or going: whatever is in it goes as well. */
function isGoing(error: unknown): boolean {
  return (
    isSvc3Error(error, 'NotFound') ||
    (isSvc3Error(error, 'Forbidden') && error.message.includes('because it is being terminated'))
  );
}

async function act(
  { client, expectedPullSecrets }: Sources,
  namespace: string,
  plan: PullSecretPlan,
): Promise<void> {
  switch (plan.kind) {
    case 'keep':
      return;
    case 'delete': {
      const { uid, resourceVersion } = plan.secret.metadata;
      const key = { name: objectNames.pullSecret, namespace };
      await client.delete(secrets, key, { uid, resourceVersion }).catch(gone);
      expectedPullSecrets.deleted(namespace, plan.secret);
      return;
    }
    case 'create':
    case 'update': {
      const old = plan.kind === 'update' ? plan.secret.metadata : { resourceVersion: absentVersion };
      const written = await client.apply(secrets, pullSecret(namespace, plan.config, old));
      expectedPullSecrets.wrote(namespace, written);
      return;
    }
  }
}

function gone(error: unknown): void {
  if (!isSvc3Error(error, 'NotFound')) throw error;
}

/** Written only over exactly the object that was seen, or only where there was none. */
function pullSecret(
  namespace: string,
  config: string,
  { uid, resourceVersion }: { uid?: string; resourceVersion?: string },
): Submitted<Secret> {
  return {
    metadata: {
      name: objectNames.pullSecret,
      namespace,
      labels: { ...pullSecretLabels },
      ...(uid === undefined ? {} : { uid }),
      ...(resourceVersion === undefined ? {} : { resourceVersion }),
    },
    type: pullSecretType,
    data: { [dockerConfigKey]: config },
  };
}
