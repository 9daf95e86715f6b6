import { nodes, pods } from '../../../api/resources.ts';
import { ifFound } from '../../../errors.ts';
import { assignNode, setGpuPassthrough, setNodeTag } from '../../../usecases/nodelabels.ts';
import * as schemas from '../../../wire/schemas.ts';
import { createNodeUsages, keepRequests, type PodRequests } from '../../../wire/nodeusage.ts';
import { isNodeOf, nodeItem, noUsage, type NodeItem, type NodeUsage } from '../../../wire/node.ts';
import type { Node, Pod } from '../../../api/core.ts';
import type { Nodes } from '../types.ts';
import { poll } from '../../poll.ts';
import { createAggregatedNodes, insteadOf } from './aggregatednodes.ts';
import { checked } from './checked.ts';
import { byName, follow, type Followable, type Followed } from './follow.ts';
import { topNodes } from './top.ts';

/** Nodes straight on kube-apiserver: the cluster's own, and what the aggregated API says of them to who may not see those. */
export function createNodes({ client, informers }: Followable): Nodes {
  const aggregated = createAggregatedNodes(client);
  const find = (name: string) => ifFound(client.get(nodes, name));
  const setTag = async (verb: 'tag' | 'untag', node: { namespace: string; name: string }, given: string) => {
    const { tag } = checked(schemas.tagBody, { tag: given });
    await setNodeTag({ writer: client, find }, node, tag, verb === 'tag').catch((refusal: unknown) =>
      insteadOf(refusal, () => aggregated.setTag(verb, node, tag)),
    );
  };
  const read = async (namespace: string) => {
    const [found, running] = await Promise.all([client.list(nodes), client.list(pods)]);
    const usages = usagesOf(running.items);
    return itemsOf(found.items, namespace, (name) => usages.get(name) ?? noUsage);
  };
  return {
    list: (namespace) =>
      read(namespace).catch((refusal: unknown) => insteadOf(refusal, () => aggregated.list(namespace))),
    async *watch(namespace, signal) {
      const cached = informers<Node>({ client, resource: nodes });
      const running = informers<PodRequests>({
        client,
        resource: pods,
        transform: (pod) => keepRequests(pod as Pod),
      });
      const usages = createNodeUsages(running);
      const followed: Followed<NodeItem> = {
        list: () => read(namespace),
        informers: [cached, running],
        items: () => itemsOf(byName(cached.list()), namespace, (name) => usages.of(name)),
      };
      try {
        yield* follow(followed, signal);
      } catch (refusal) {
        // The aggregated API has no watch.
        yield* poll(() => insteadOf(refusal, () => aggregated.list(namespace)), signal);
      }
    },
    top: () => topNodes(client),
    tag: (namespace, name, tag) => setTag('tag', { namespace, name }, tag),
    untag: (namespace, name, tag) => setTag('untag', { namespace, name }, tag),
    async assign(name, given) {
      const { namespace } = checked(schemas.assignBody, { namespace: given });
      await assignNode(client, name, namespace);
    },
    setGpuPassthrough: (name, allowed) => setGpuPassthrough(client, name, allowed),
  };
}

function itemsOf(
  found: readonly Node[],
  namespace: string,
  usageOf: (name: string) => NodeUsage,
): NodeItem[] {
  return found
    .filter((node) => isNodeOf(node, namespace))
    .map((node) => nodeItem(node, namespace, usageOf(node.metadata.name)));
}

function usagesOf(all: readonly Pod[]): Map<string, NodeUsage> {
  const usages = new Map<string, NodeUsage>();
  for (const { node, usage } of all.map(keepRequests)) {
    if (node === undefined || usage === undefined) continue;
    const before = usages.get(node) ?? noUsage;
    usages.set(node, {
      cpuMilli: before.cpuMilli + usage.cpuMilli,
      memoryBytes: before.memoryBytes + usage.memoryBytes,
      gpus: before.gpus + usage.gpus,
    });
  }
  return usages;
}
