import type { SelfSubjectAccessReview } from '../../../api/core.ts';
import { group } from '../../../api/meta.ts';
import { selfSubjectAccessReviews } from '../../../api/resources.ts';
import { verifyLogin } from '../../../controllers/credential/login.ts';
import { checkStoreRequest, removeCredential } from '../../../controllers/credential/store.ts';
import { Svc3Error } from '../../../errors.ts';
import type { KubeClient } from '../../../kube/types.ts';
import { parseServer } from '../../../registry/identity.ts';
import { addCredential, listCredentials } from '../../../usecases/credential.ts';
import * as schemas from '../../../wire/schemas.ts';
import type { RegistryCredentials } from '../types.ts';
import { checked } from './checked.ts';

/** Registry credentials straight on kube-apiserver, for cluster administrators. */
export function createRegistryCredentials(client: KubeClient): RegistryCredentials {
  return {
    async list(namespace) {
      await requireAdministrator(client, 'list');
      return listCredentials(client, namespace);
    },
    async add(namespace, given, { verify, contacting = () => undefined }) {
      const request = checked(schemas.registryAddBody, given);
      checkStoreRequest(request);
      await requireAdministrator(client, 'create');
      const told = (what: string) => contacting(`${what} from this machine`);
      // One login from here; a registry that only the cluster can reach is not refused for that.
      const environment = { caller: client, login: verifyLogin };
      return addCredential(environment, namespace, request, { verify, contacting: told });
    },
    async remove(namespace, server) {
      parseServer(server);
      await requireAdministrator(client, 'delete');
      await removeCredential(client, namespace, server);
    },
  };
}

/** Only cluster administrators manage registry credentials, which also holds for reading (spec: Authentication, rule 6). */
async function requireAdministrator(client: KubeClient, verb: string): Promise<void> {
  const spec = { resourceAttributes: { group, resource: 'registrycredentials', verb } };
  const review: SelfSubjectAccessReview = await client.create(selfSubjectAccessReviews, { spec });
  const { allowed, denied, evaluationError = '' } = review.status ?? {};
  if (allowed === true) return;
  if (denied !== true && evaluationError !== '')
    throw new Svc3Error(
      'ServiceUnavailable',
      `kube-apiserver cannot tell now whether you may ${verb} registry credentials: ${evaluationError}`,
    );
  throw new Svc3Error('Forbidden', 'only cluster administrators manage registry credentials');
}
