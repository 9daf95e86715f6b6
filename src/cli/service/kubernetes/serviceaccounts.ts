import { serviceAccounts } from '../../../api/resources.ts';
import type { KubeClient } from '../../../kube/types.ts';
import { createServiceAccount, listServiceAccounts } from '../../../usecases/serviceaccount.ts';
import { issueToken } from '../../../usecases/token.ts';
import * as schemas from '../../../wire/schemas.ts';
import type { ServiceAccounts } from '../types.ts';
import { checked } from './checked.ts';

/** Service accounts straight on kube-apiserver; `warning` hears that a token lives shorter than was asked. */
export function createServiceAccounts(client: KubeClient, warning: (text: string) => void): ServiceAccounts {
  return {
    list: (namespace) => listServiceAccounts(client, namespace),
    async create(namespace, name, role) {
      await createServiceAccount(client, { namespace, name, role }, warning);
    },
    delete: (namespace, name) => client.delete(serviceAccounts, { name, namespace }),
    async token(namespace, name, request) {
      const options = checked(schemas.tokenBody, request) ?? {};
      return issueToken({ caller: client, warn: warning }, { namespace, name }, options);
    },
  };
}
