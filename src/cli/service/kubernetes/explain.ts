import { events, vms } from '../../../api/resources.ts';
import type { Event } from '../../../api/core.ts';
import { vmItem } from '../../../items/vm.ts';
import type { KubeClient } from '../../../kube/types.ts';
import type { Explanation } from '../types.ts';

/** Conditions of a VM and the events of it and its pod, oldest first. */
export async function explain(client: KubeClient, namespace: string, name: string): Promise<Explanation> {
  const vm = await client.get(vms, name, namespace);
  const about = async (kind: string, regarding: string) => {
    const fieldSelector = `regarding.kind=${kind},regarding.name=${regarding}`;
    return (await client.list(events, { namespace, fieldSelector })).items;
  };
  const podName = vm.status?.podName;
  const found = await Promise.all([
    about('VM', name),
    ...(podName === undefined ? [] : [about('Pod', podName)]),
  ]);
  const shown = found.flat().map((event) => ({
    time: timeOf(event),
    type: event.type ?? 'Normal',
    reason: event.reason ?? '',
    message: event.note ?? '',
  }));
  shown.sort((a, b) => (Date.parse(a.time) || 0) - (Date.parse(b.time) || 0));
  return {
    item: vmItem(vm),
    conditions: vm.status?.conditions ?? [],
    warnings: vm.status?.warnings ?? [],
    events: shown,
  };
}

function timeOf({ series, eventTime, deprecatedLastTimestamp, metadata }: Event): string {
  return series?.lastObservedTime ?? eventTime ?? deprecatedLastTimestamp ?? metadata.creationTimestamp ?? '';
}
