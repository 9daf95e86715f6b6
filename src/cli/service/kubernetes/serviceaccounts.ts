import { limits } from '../../../api/meta.ts';
import { serviceAccounts } from '../../../api/resources.ts';
import type { TokenRequest } from '../../../api/core.ts';
import { invalidField, Svc3Error } from '../../../errors.ts';
import { parseDuration } from '../../../wire/duration.ts';
import type { KubeClient, RawResponse } from '../../../kube/types.ts';
import { createServiceAccount } from '../../../usecases/serviceaccount.ts';
import type { IssuedToken, ServiceAccounts } from '../types.ts';

/** Service accounts straight on kube-apiserver; `warning` hears that a token lives shorter than was asked. */
export function createServiceAccounts(client: KubeClient, warning: (text: string) => void): ServiceAccounts {
  return {
    async list(namespace) {
      const { items } = await client.list(serviceAccounts, { namespace });
      return items.map(({ metadata: { name, creationTimestamp = '' } }) => ({
        name,
        createdAt: creationTimestamp,
      }));
    },
    async create(namespace, name, role) {
      await createServiceAccount(client, { namespace, name, role }, warning);
    },
    delete: (namespace, name) => client.delete(serviceAccounts, { name, namespace }),
    token: (namespace, name, { duration }) => {
      const seconds = duration === undefined ? limits.serviceAccountTokenSeconds : durationSeconds(duration);
      return requestToken(client, { namespace, name, seconds, warning });
    },
  };
}

/** A token of a ServiceAccount by core TokenRequest; the expiry is the server's, who may shorten it and says so. */
async function requestToken(
  client: KubeClient,
  {
    namespace,
    name,
    seconds,
    warning,
  }: { namespace: string; name: string; seconds: number; warning(text: string): void },
): Promise<IssuedToken> {
  const { body }: RawResponse<TokenRequest> = await client.request<TokenRequest>({
    method: 'POST',
    path: `/api/v1/namespaces/${encodeURIComponent(namespace)}/serviceaccounts/${encodeURIComponent(name)}/token`,
    body: {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      spec: { expirationSeconds: seconds },
    },
    onWarning: warning,
  });
  if (body.status?.token === undefined || body.status.expirationTimestamp === undefined)
    throw new Svc3Error('BadGateway', 'kube-apiserver answered a TokenRequest without a token');
  const { token, expirationTimestamp } = body.status;
  return { token, expirationTimestamp };
}

/** `720h`, `1h30m`, `30d` or plain seconds, as whole seconds of at least 10 minutes (kube-apiserver's minimum). */
function durationSeconds(text: string): number {
  const seconds = parseDuration(text, 'duration');
  if (seconds < 600) throw invalidField('duration', 'must be at least 10 minutes');
  if (seconds > 2 ** 32) throw invalidField('duration', 'must be less than 136 years');
  return seconds;
}
