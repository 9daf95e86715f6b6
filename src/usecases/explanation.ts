import { configMaps, events, images, nodes, pods, vmConfigs, vmPools, vms } from '../api/resources.ts';
import type { Event } from '../api/core.ts';
import { configKeyOf } from '../api/configkey.ts';
import { namespaces, objectNames } from '../api/meta.ts';
import type { Image } from '../api/image.ts';
import { slimObject } from '../api/slim.ts';
import type { Vm } from '../api/vm.ts';
import type { VmPool } from '../api/vmpool.ts';
import { isSvc3Error } from '../errors.ts';
import { vmItem } from '../wire/vm.ts';
import type { Explanation } from '../wire/vmschemas.ts';
import type { KubeClient } from '../kube/types.ts';
import type { NodeVerdict } from '../placement/explain.ts';

/** What an explanation is to have. */
export interface ExplanationOptions {
  /** Whether the verdicts of nodes are in it, which take lists of all nodes, pods and VMs of the cluster; they are unless it is false. */
  readonly nodes?: boolean | undefined;
  /** Nobody waits for it any more: its lists are ended. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Conditions of a VM, the verdict of every node, and the events of the VM and its pod, as far as the client may see them.
 * @throws Svc3Error NotFound, Forbidden: of the VM itself
 */
export async function explain(
  client: KubeClient,
  namespace: string,
  name: string,
  { nodes: hasNodes = true, signal }: ExplanationOptions = {},
): Promise<Explanation> {
  const vm = await client.get(vms, name, namespace);
  const podName = vm.status?.podName;
  const [verdicts, ...found] = await endingTogether(signal, (ending) => {
    const about = (kind: string, regarding: string) => eventsOf(client, namespace, kind, regarding, ending);
    return Promise.all([
      hasNodes ? verdictsOf(client, vm, ending) : undefined,
      about('VM', name),
      ...(podName === undefined ? [] : [about('Pod', podName)]),
    ]);
  });
  // Another VM had the name before: its events are kept for an hour.
  const made = Date.parse(vm.metadata.creationTimestamp ?? '') || 0;
  const shown = found
    .flat()
    .map((event) => ({
      time: timeOf(event),
      type: event.type ?? 'Normal',
      reason: event.reason ?? '',
      message: event.note ?? '',
    }))
    .filter(({ time }) => !(Date.parse(time) < made));
  shown.sort((a, b) => (Date.parse(a.time) || 0) - (Date.parse(b.time) || 0));
  return {
    item: vmItem(vm),
    conditions: vm.status?.conditions ?? [],
    warnings: vm.status?.warnings ?? [],
    ...(verdicts === undefined ? {} : { nodes: verdicts }),
    events: shown,
  };
}

/**
 * Gives `work` a signal that is aborted with `outer`, and when `work` fails: what it has begun besides is of no use then.
 * @throws the error of `work`
 */
async function endingTogether<T>(
  outer: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const failing = new AbortController();
  try {
    return await work(outer === undefined ? failing.signal : AbortSignal.any([outer, failing.signal]));
  } catch (error) {
    failing.abort(error);
    throw error;
  }
}

/** Empty for who may not see them. */
async function eventsOf(
  client: KubeClient,
  namespace: string,
  kind: string,
  regarding: string,
  signal: AbortSignal,
): Promise<readonly Event[]> {
  const fieldSelector = `regarding.kind=${kind},regarding.name=${regarding}`;
  try {
    return (await client.list(events, { namespace, fieldSelector, transform: slimObject, signal })).items;
  } catch (error) {
    if (isSvc3Error(error, 'Forbidden')) return [];
    throw error;
  }
}

/**
 * What placement would say of every node now; undefined for who may not see nodes, and pods and VMs of all namespaces, or the VMConfig and
 * VMPool that say what a VM asks for before it is placed.
 */
async function verdictsOf(
  client: KubeClient,
  named: Vm,
  signal: AbortSignal,
): Promise<readonly NodeVerdict[] | undefined> {
  try {
    // Placement is only loaded for who asks.
    const [{ explainVm, imageNameOf, podOwner, requestedVm }, { vmSettingsFrom }, { countedPod }] =
      await Promise.all([
        import('../controllers/vm/explain/explain.ts'),
        import('../controllers/vm/environment.ts'),
        import('../controllers/vm/pod/slimpod.ts'),
      ]);
    const isPlaced = named.status?.effective !== undefined;
    const vm = isPlaced ? named : requestedVm(named, await poolOf(client, named));
    const key = isPlaced ? undefined : configKeyOf(vm);
    const [settings, inventory, running, all, config] = await endingTogether(signal, (ending) =>
      Promise.all([
        client.get(configMaps, objectNames.settings, namespaces.system),
        // Kubelets and administrators make them: none is larger than some 20 KB.
        client.list(nodes, { pageSize: 500, signal: ending }),
        client.list(pods, { transform: countedPod, signal: ending }),
        client.list(vms, { transform: podOwner, signal: ending }),
        key === undefined ? undefined : client.get(vmConfigs, key.name, key.namespace),
      ]),
    );
    return explainVm({
      vm,
      config,
      image: await imageOf(client, imageNameOf(vm, config), vm.metadata.namespace),
      nodes: inventory.items,
      pods: running.items,
      vms: all.items,
      settings: vmSettingsFrom(settings.data ?? {}),
    });
  } catch (error) {
    if (isSvc3Error(error, 'Forbidden', 'NotFound')) return undefined;
    throw error;
  }
}

/** @throws Svc3Error NotFound, Forbidden: of the VMPool that the VM names */
async function poolOf(client: KubeClient, { metadata, spec }: Vm): Promise<VmPool | undefined> {
  return spec.pool === undefined ? undefined : client.get(vmPools, spec.pool, metadata.namespace);
}

/** Undefined for who may not see it: what is said of its memory is left out. */
async function imageOf(
  client: KubeClient,
  name: string | undefined,
  namespace: string,
): Promise<Image | undefined> {
  if (name === undefined) return undefined;
  try {
    return await client.get(images, name, namespace);
  } catch (error) {
    if (isSvc3Error(error, 'Forbidden', 'NotFound')) return undefined;
    throw error;
  }
}

function timeOf({ series, eventTime, deprecatedLastTimestamp, metadata }: Event): string {
  return series?.lastObservedTime ?? eventTime ?? deprecatedLastTimestamp ?? metadata.creationTimestamp ?? '';
}
