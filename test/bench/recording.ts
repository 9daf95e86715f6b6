/** One VM's life as a real control plane tells it, and texts made after its model. */
import type { Node, Pod } from '../../src/api/core.ts';
import { namespaces, objectNames } from '../../src/api/meta.ts';
import { nodes, pods, secrets, vms } from '../../src/api/resources.ts';
import { isSvc3Error } from '../../src/errors.ts';
import type { RootClient } from '../../src/kube/client.ts';
import { createLineSplitter } from '../../src/kube/lines.ts';
import { podNameOf } from '../../src/controllers/vm/names.ts';
import { startOperatorProcess } from './operatorprocess.ts';
import { until } from './until.ts';
import { barePod, benchVm, isVmReady, namespace, observe, simulatedCluster } from './simulated.ts';

export interface Recording {
  readonly node: string;
  readonly vm: string;
  readonly pod: string;
  /** Of the installation: without it the pods' keys would have to be renewed. */
  readonly controlKey: string;
  readonly podUid: string;
  readonly vmUid: string;
  /** Watch events of a pod that is not svc3's, from ADDED to DELETED. */
  readonly otherEvents: readonly string[];
  readonly otherUid: string;
}

export const recordedVm = 'recordedvm';
export const recordedNode = 'recordednode';
export const recordedPod = 'recordedpod';

export async function record(): Promise<Recording> {
  const cluster = await simulatedCluster([
    { name: recordedNode, allocatable: { cpu: '64', memory: '256Gi', pods: '500' } },
  ]);
  const { client, controlPlane } = cluster;
  const operator = await startOperatorProcess(controlPlane.kubeconfigPath);
  const ready = observe(cluster.watched.vms, { ready: isVmReady });
  const watch = await watchLines(client);
  try {
    await client.create(vms, benchVm(recordedVm));
    await client.create(pods, barePod(recordedPod));
    await until('the VM to run', () => ready.at('ready', recordedVm) !== undefined);
    const [node, vm, pod, other, key] = await Promise.all([
      client.get(nodes, recordedNode),
      client.get(vms, recordedVm, namespace),
      client.get(pods, podNameOf(recordedVm), namespace),
      client.get(pods, recordedPod, namespace),
      client.get(secrets, objectNames.controlKeySecret, namespaces.system),
    ]);
    await client.delete(pods, { name: recordedPod, namespace });
    const ofOther = () => watch.lines.filter((line) => line.includes(`"name":"${recordedPod}"`));
    await until('the pod to be gone', () => ofOther().at(-1)?.startsWith('{"type":"DELETED"') === true);
    return {
      node: JSON.stringify(node satisfies Node),
      vm: JSON.stringify(vm),
      pod: JSON.stringify(pod satisfies Pod),
      controlKey: JSON.stringify(key),
      podUid: pod.metadata.uid ?? '',
      vmUid: vm.metadata.uid ?? '',
      otherEvents: ofOther(),
      otherUid: other.metadata.uid ?? '',
    };
  } finally {
    watch.cancel();
    ready.stop();
    await operator.stop();
    await cluster.remove();
  }
}

async function watchLines(client: RootClient): Promise<{ lines: string[]; cancel(): void }> {
  const lines: string[] = [];
  const stream = await client.stream({
    method: 'GET',
    path: `/api/v1/namespaces/${namespace}/pods`,
    query: { watch: true },
  });
  const splitter = createLineSplitter((line) => lines.push(line));
  void (async () => {
    for await (const chunk of stream.body) splitter.push(chunk);
  })().catch((error: unknown) => {
    if (!isSvc3Error(error)) throw error;
  });
  return { lines, cancel: () => stream.cancel() };
}

/** A text with places that are filled anew each time: each of `holes` and every resourceVersion. */
export function template(
  text: string,
  holes: Readonly<Record<string, (index: number) => string>>,
): (index: number, version: number) => string {
  const names = Object.keys(holes).filter((name) => name !== '');
  const pattern = new RegExp(`(${[...names, '(?<="resourceVersion":")\\d+(?=")'].join('|')})`);
  const parts = text.split(pattern);
  const fillers = parts.map((part, place) => {
    if (place % 2 === 0) return undefined;
    return holes[part] ?? ((_: number, version: number) => `${version}`);
  }) as (((index: number, version: number) => string) | undefined)[];
  return (index, version) => parts.map((part, place) => fillers[place]?.(index, version) ?? part).join('');
}
