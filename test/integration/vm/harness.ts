import { expect, vi } from 'vitest';
import type { Container, Pod } from '../../../src/api/core.ts';
import { events, namespaces, pods, vms } from '../../../src/api/resources.ts';
import type { Vm, VmSpecInput } from '../../../src/api/vm.ts';
import { isSvc3Error, messageOf } from '../../../src/errors.ts';
import { createClient, type RootClient } from '../../../src/kube/client.ts';
import { loadKubeconfig } from '../../../src/kube/connection.ts';
import type { Condition } from '../../../src/api/object.ts';
import { podNameOf } from '../../../src/controllers/vm/names.ts';
import type { OwnControlPlane } from '../../support/controlplane.ts';
import { installDefinitions } from '../../support/definitions.ts';
import { type EmptyControlPlane, emptyControlPlane } from '../../support/emptycontrolplane.ts';
import { collectVmPods, simulateKubelet, type SimulatedKubelet } from '../../support/kubelet.ts';

/** Generous: on a loaded machine everything takes ten times as long. */
export const slow = { timeout: 60_000, interval: 50 };

export interface VmWorld {
  readonly controlPlane: EmptyControlPlane;
  readonly client: RootClient;
  readonly kubelet: SimulatedKubelet;
  /** A namespace of this name with these labels. */
  namespace(name: string, labels?: Record<string, string>): Promise<VmNamespace>;
  stop(): Promise<void>;
}

export interface VmNamespace {
  readonly name: string;
  deploy(name: string, spec?: VmSpecInput): Promise<Vm>;
  vm(name: string): Promise<Vm>;
  isThere(name: string): Promise<boolean>;
  pod(name: string): Promise<Pod | undefined>;
  condition(name: string, type: string): Promise<Partial<Condition>>;
  /** Waits until the condition matches. */
  until(name: string, type: string, expected: Partial<Condition>): Promise<void>;
  untilReady(name: string): Promise<void>;
  /** Reasons of the events about a VM, sorted. */
  events(name: string): Promise<string[]>;
  /** What kube-apiserver says to such a pod, without making one. It hears of what admission goes by a moment after that was written. */
  tryPod(resources?: NonNullable<Container['resources']>): Promise<string>;
  /** Waits until the VM has another pod than this one. */
  untilReplaced(name: string, old: Pod | undefined): Promise<void>;
  delete(name: string): Promise<void>;
  /** Deletes the VM and waits until it and its pod are gone. */
  remove(name: string): Promise<void>;
  untilGone(name: string): Promise<void>;
}

export interface VmWorldOptions {
  /** One of the file's own, new, which ends with the world. */
  readonly controlPlane?: OwnControlPlane;
  /** Of each simulated node. */
  readonly heartbeatMs?: number;
}

/** A control plane with simulated nodes and no operator yet. */
export async function vmWorld(options: VmWorldOptions = {}): Promise<VmWorld> {
  const controlPlane = options.controlPlane ?? (await emptyControlPlane());
  const client = createClient(await loadKubeconfig(controlPlane.kubeconfigPath));
  if (options.controlPlane !== undefined) await installDefinitions(client);
  const { heartbeatMs } = options;
  const kubelet = simulateKubelet(client, heartbeatMs === undefined ? {} : { heartbeatMs });
  const collector = collectVmPods(client);
  return {
    controlPlane,
    client,
    kubelet,
    async namespace(name, labels = {}) {
      await client.create(namespaces, { metadata: { name, labels } });
      await untilAccount(client, name);
      return vmNamespace(client, name);
    },
    async stop() {
      await kubelet.stop();
      await collector.stop();
      await client.close();
      await controlPlane.remove();
    },
  };
}

/** No pod can be made before the namespace's ServiceAccount is there. */
async function untilAccount(client: RootClient, namespace: string): Promise<void> {
  const path = `/api/v1/namespaces/${namespace}/serviceaccounts/default`;
  await vi.waitFor(() => client.request({ method: 'GET', path }), slow);
}

function vmNamespace(client: RootClient, name: string): VmNamespace {
  const space: VmNamespace = {
    name,
    deploy: (vm, spec = {}) =>
      client.create(vms, {
        apiVersion: 'svc3.dev/v1',
        kind: 'VM',
        metadata: { name: vm, namespace: name },
        spec: {
          ...(spec.config === undefined ? { image: 'registry.example.com/debian:12' } : {}),
          cpu: 1,
          memory: '256Mi',
          ...spec,
        },
      } as Vm),
    vm: (vm) => client.get(vms, vm, name),
    isThere: (vm) =>
      space.vm(vm).then(
        () => true,
        (error: unknown) => {
          if (isSvc3Error(error, 'NotFound')) return false;
          throw error;
        },
      ),
    async pod(vm) {
      try {
        return await client.get(pods, podNameOf(vm), name);
      } catch (error) {
        if (isSvc3Error(error, 'NotFound')) return undefined;
        throw error;
      }
    },
    async condition(vm, type) {
      const { status } = await client.get(vms, vm, name);
      return status?.conditions?.find((one) => one.type === type) ?? {};
    },
    async until(vm, type, expected) {
      await expect.poll(() => space.condition(vm, type), slow).toMatchObject(expected);
    },
    untilReady: (vm) => space.until(vm, 'Ready', { status: 'True' }),
    async events(vm) {
      const { items } = await client.list(events, { namespace: name });
      return items
        .filter(
          ({ regarding, reportingController }) =>
            regarding?.name === vm && regarding.kind === 'VM' && reportingController === 'svc3.dev/operator',
        )
        .map(({ reason = '' }) => reason)
        .sort();
    },
    async tryPod(resources = {}) {
      const containers = [{ name: 'a', image: 'b', resources }];
      const pod = { metadata: { name: 'probe', namespace: name }, spec: { containers } };
      return client.create(pods, pod, { dryRun: true }).then(() => 'allowed', messageOf);
    },
    async untilReplaced(vm, old) {
      const uid = old?.metadata.uid;
      await expect.poll(async () => (await space.pod(vm))?.metadata.uid ?? uid, slow).not.toBe(uid);
    },
    delete: (vm) => client.delete(vms, { name: vm, namespace: name }),
    async remove(vm) {
      await space.delete(vm);
      await space.untilGone(vm);
    },
    async untilGone(vm) {
      const left = () =>
        space.vm(vm).catch((error: unknown) => (isSvc3Error(error, 'NotFound') ? 'gone' : error));
      await expect.poll(left, slow).toBe('gone');
      await expect.poll(() => space.pod(vm), slow).toBeUndefined();
    },
  };
  return space;
}
