import { namespaces, objectNames } from '../../api/meta.ts';
import { events } from '../../api/resources.ts';
import { isSvc3Error } from '../../errors.ts';
import { unauthorized } from '../auth/auth.ts';
import type { KubeClient } from '../../kube/types.ts';

/**
 * Takes a code, once over all replicas: kube-apiserver makes one object of a name. It is an Event, since these go by themselves, long after the
 * code has ended (--event-ttl, one hour), and tell an administrator that somebody signed in.
 *
 * @throws Svc3Error Unauthorized where it was taken before
 */
export async function takeCode(client: KubeClient, id: string): Promise<void> {
  const reporter = `svc3.dev/${objectNames.apiService}`;
  try {
    await client.create(events, {
      metadata: { name: `svc3-ui-code-${id}`, namespace: namespaces.system },
      eventTime: `${new Date().toISOString().slice(0, -1)}000Z`,
      type: 'Normal',
      reason: 'SignedIn',
      action: 'SignIn',
      note: 'A code of svc3 ui was exchanged for a session of the web page.',
      reportingController: reporter,
      reportingInstance: reporter,
      regarding: {
        apiVersion: 'v1',
        kind: 'Service',
        name: objectNames.apiService,
        namespace: namespaces.system,
      },
    });
  } catch (error) {
    if (isSvc3Error(error, 'AlreadyExists'))
      throw unauthorized('this code has been used; ask for a new one: svc3 ui');
    throw error;
  }
}
