import { actionsGroup } from '../../../api/meta.ts';
import { isSvc3Error } from '../../../errors.ts';
import type { KubeClient } from '../../../kube/types.ts';
import type { NodeItem } from '../../../wire/node.ts';

/** A node as the aggregated API shows it. */
type NodeObject = Omit<NodeItem, 'name' | 'namespace'> & {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: Pick<NodeItem, 'name' | 'namespace'>;
};

/** Nodes as svc3's own roles give them: over the aggregated API, without a right to the nodes and pods of the cluster. */
export interface AggregatedNodes {
  list(namespace: string): Promise<NodeItem[]>;
  setTag(
    verb: 'tag' | 'untag',
    node: { readonly namespace: string; readonly name: string },
    tag: string,
  ): Promise<void>;
}

export function createAggregatedNodes(client: KubeClient): AggregatedNodes {
  const pathOf = (...parts: readonly string[]) =>
    `/apis/${actionsGroup}/v1/namespaces/${parts.map(encodeURIComponent).join('/')}`;
  return {
    async list(namespace) {
      const path = pathOf(namespace, 'nodes');
      const { body } = await client.request<{ items: NodeObject[] }>({ method: 'GET', path });
      return body.items.map(itemOf);
    },
    async setTag(verb, { namespace, name }, tag) {
      const path = pathOf(namespace, 'nodes', name, verb);
      await client.request({ method: 'POST', path, body: { tag }, idempotent: true });
    },
  };
}

function itemOf(object: NodeObject): NodeItem {
  const { apiVersion: _, kind: _kind, metadata, ...rest } = object;
  return { ...metadata, ...rest };
}

/**
 * What the aggregated API answers to who has no right to the nodes of the cluster.
 *
 * @throws `refusal` where it is another one than that or there is no such API, else what the API refuses it with: that names the right
 *   which svc3's roles give
 */
export async function insteadOf<T>(refusal: unknown, aggregated: () => Promise<T>): Promise<T> {
  if (!isSvc3Error(refusal, 'Forbidden')) throw refusal;
  try {
    return await aggregated();
  } catch (error) {
    // Of a node that is not there, the API says the name.
    throw isSvc3Error(error, 'NotFound') && error.details.name === undefined ? refusal : error;
  }
}
