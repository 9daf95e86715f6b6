import { labels, tagLabel } from '../../../api/meta.ts';
import { nodes, pods } from '../../../api/resources.ts';
import * as schemas from '../../../http/schemas.ts';
import { keepRequests } from '../../../items/nodeusage.ts';
import { isNodeOf, nodeItem, noUsage, type NodeUsage } from '../../../items/node.ts';
import type { Pod } from '../../../api/core.ts';
import type { KubeClient } from '../../../kube/types.ts';
import type { Nodes } from '../types.ts';
import { checked } from './checked.ts';

export function createNodes(client: KubeClient): Nodes {
  const setLabel = async (name: string, label: string, value: string | null) => {
    await client.patch(
      nodes,
      { name },
      { type: 'merge', body: { metadata: { labels: { [label]: value } } } },
    );
  };
  return {
    async list(namespace) {
      const [found, running] = await Promise.all([client.list(nodes), client.list(pods)]);
      const usages = usagesOf(running.items);
      return found.items
        .filter((node) => isNodeOf(node, namespace))
        .map((node) => nodeItem(node, namespace, usages.get(node.metadata.name ?? '') ?? noUsage));
    },
    async tag(_namespace, name, tag) {
      await setLabel(name, tagLabel(checked(schemas.tagBody, { tag }).tag), 'true');
    },
    async untag(_namespace, name, tag) {
      await setLabel(name, tagLabel(checked(schemas.tagBody, { tag }).tag), null);
    },
    assign: (name, namespace) => setLabel(name, labels.namespace, namespace ?? null),
    setGpuPassthrough: (name, allowed) => setLabel(name, labels.allowGpuPassthrough, allowed ? 'true' : null),
  };
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
