import type { SelfSubjectAccessReview } from '../../../api/core.ts';
import { group } from '../../../api/meta.ts';
import { registryCredentials, selfSubjectAccessReviews } from '../../../api/resources.ts';
import { verifyLogin, type LoginRequest } from '../../../controllers/credential/login.ts';
import { parseServer } from '../../../registry/identity.ts';
import {
  checkStoreRequest,
  removeCredential,
  storeCredential,
  usernameOf,
} from '../../../controllers/credential/store.ts';
import { Svc3Error } from '../../../errors.ts';
import { registryCredentialItem } from '../../../wire/registrycredential.ts';
import type { KubeClient } from '../../../kube/types.ts';
import type { RegistryCredentialRequest, RegistryCredentials, Verdict } from '../types.ts';

/** Registry credentials straight on kube-apiserver, for cluster administrators. */
export function createRegistryCredentials(client: KubeClient): RegistryCredentials {
  return {
    async list(namespace) {
      await requireAdministrator(client, 'list');
      const { items } = await client.list(registryCredentials, { namespace });
      const shown = await Promise.all(
        items.map(async (each) => registryCredentialItem(each, await usernameOf(client, each))),
      );
      return shown.sort((a, b) => (a.server < b.server ? -1 : 1));
    },
    async add(namespace, request, options) {
      checkStoreRequest(request);
      await requireAdministrator(client, 'create');
      const added = await storeCredential(client, namespace, request);
      if (options.verify === 'never') return added;
      const onlyPublic = options.verify === 'public';
      const { contacting = () => undefined } = options;
      const told = (what: string) => contacting(`${what} from this machine`);
      return { ...added, verdict: await verify({ ...request, onlyPublic, contacting: told }) };
    },
    async remove(namespace, server) {
      parseServer(server);
      await requireAdministrator(client, 'delete');
      await removeCredential(client, namespace, server);
    },
  };
}

/** One login from here; a registry that only the cluster can reach is not refused for that. */
async function verify({
  allowInsecure = false,
  ...request
}: RegistryCredentialRequest & Pick<LoginRequest, 'onlyPublic' | 'contacting'>): Promise<Verdict> {
  const { outcome, message } = await verifyLogin({ ...request, allowInsecure });
  return { accepted: outcome === 'Accepted', message };
}

/** Only cluster administrators manage registry credentials, which also holds for reading (spec: rule 3). */
async function requireAdministrator(client: KubeClient, verb: string): Promise<void> {
  const spec = { resourceAttributes: { group, resource: 'registrycredentials', verb } };
  const review: SelfSubjectAccessReview = await client.create(selfSubjectAccessReviews, { spec });
  if (review.status?.allowed === true) return;
  throw new Svc3Error('Forbidden', 'only cluster administrators manage registry credentials');
}
