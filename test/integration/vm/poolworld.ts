import { expect } from 'vitest';
import type { z } from 'zod';
import type { Pod } from '../../../src/api/core.ts';
import { labels } from '../../../src/api/meta.ts';
import { controllerOf } from '../../../src/api/owner.ts';
import { pods, vmPools, vms } from '../../../src/api/resources.ts';
import type { ClaimRequest } from '../../../src/api/runner.ts';
import type { Vm } from '../../../src/api/vm.ts';
import type { VmPool, VmPoolSpec } from '../../../src/api/vmpool.ts';
import type { VmControllerParts } from '../../../src/controllers/vm/controller.ts';
import type { VmSettings } from '../../../src/controllers/vm/settings.ts';
import { Svc3Error } from '../../../src/errors.ts';
import type { KubeClient } from '../../../src/kube/types.ts';
import { startVmOperator, type VmOperator } from '../../support/operator.ts';
import { runnerState } from '../../unit/controllers/vm/builders.ts';
import type { VmNamespace, VmWorld } from './harness.ts';

export const template = {
  image: `r.example.com/debian@sha256:${'a'.repeat(64)}`,
  architecture: 'amd64',
  cpu: 1,
  memory: '64Mi',
} as const;

/** Pools on a control plane, with runners of guests that wait. */
export interface PoolWorld {
  operate(
    client?: KubeClient,
    parts?: Partial<VmControllerParts>,
    settings?: Partial<VmSettings>,
  ): Promise<VmOperator>;
  /** Like SIGKILL, of all operators. */
  stopAll(): Promise<void>;
  /** A pool `ci` of the namespace. */
  aPool(space: VmNamespace, spec?: Partial<z.input<typeof VmPoolSpec>>): Promise<void>;
  claim(space: VmNamespace, name: string): Promise<Vm>;
  pool(space: VmNamespace): Promise<VmPool>;
  idle(space: VmNamespace): Promise<number | undefined>;
  podsOf(space: VmNamespace): Promise<Pod[]>;
  /** Every VM runs in a pod of its own, and every pod that a VM has is that of one. */
  expectOneToOne(space: VmNamespace, count: number): Promise<void>;
}

/**
 * The runners are played here. They cannot show that a guest goes on, nor as which VM; test/integration/runner/standby.test.ts and
 * test/life/pool.test.ts do.
 *
 * @param world - read when it is used: tests make it in `beforeAll`
 */
export function poolWorld(world: () => VmWorld): PoolWorld {
  let operators: VmOperator[] = [];
  /** UID of the VM that each pod was claimed for first, as its runner keeps it. */
  const claimedBy = new Map<string, string>();
  const openRunner = ({ vmUid }: { vmUid: string }) => ({
    state: async () => runnerState({ vmUid, guestReady: true }),
    power: () => Promise.reject(new Error('not asked for')),
    resize: () => Promise.reject(new Error('not asked for')),
    eject: () => Promise.reject(new Error('not asked for')),
    ports: async () => runnerState({ vmUid, guestReady: true }),
    async claim({ podUid, vm }: ClaimRequest) {
      if (vmUid !== podUid) throw new Svc3Error('Unauthorized', 'meant for another VM');
      if ((claimedBy.get(podUid) ?? vm.uid) !== vm.uid) throw new Svc3Error('Conflict', 'of another VM');
      claimedBy.set(podUid, vm.uid);
      return runnerState({ vmUid: vm.uid, guestReady: true });
    },
    fingerprint: () => 'print',
  });
  const podsOf = async (space: VmNamespace) =>
    (await world().client.list(pods, { namespace: space.name })).items;
  const pool = (space: VmNamespace) => world().client.get(vmPools, 'ci', space.name);
  return {
    async operate(client = world().client, parts = {}, settings = {}) {
      const operator = await startVmOperator(client, settings, () => ({ openRunner, ...parts }));
      operators.push(operator);
      return operator;
    },
    async stopAll() {
      await Promise.all(operators.map((one) => one.stop()));
      operators = [];
    },
    async aPool(space, spec = {}) {
      await world().client.create(vmPools, {
        apiVersion: 'svc3.dev/v1',
        kind: 'VMPool',
        metadata: { name: 'ci', namespace: space.name },
        spec: { template, minIdle: 2, ...spec } as VmPool['spec'],
      });
    },
    claim: (space, name) =>
      world().client.create(vms, {
        apiVersion: 'svc3.dev/v1',
        kind: 'VM',
        metadata: { name, namespace: space.name },
        spec: { pool: 'ci', powerState: 'Running' },
      }),
    pool,
    idle: async (space) => (await pool(space)).status?.idle,
    podsOf,
    async expectOneToOne(space, count) {
      const { items } = await world().client.list(vms, { namespace: space.name });
      expect(items).toHaveLength(count);
      const names = items.map(({ status }) => status?.podName);
      expect(new Set(names).size).toBe(count);
      const owned = (await podsOf(space)).filter((pod) => controllerOf(pod)?.kind === 'VM');
      expect(new Set(owned.map(({ metadata }) => metadata.name))).toEqual(new Set(names));
      expect(owned).toHaveLength(count);
      const byName = new Map(owned.map((pod) => [pod.metadata.name, pod]));
      for (const { metadata, status } of items) {
        const pod = byName.get(status?.podName ?? '');
        expect(controllerOf(pod ?? {})?.uid).toBe(metadata.uid);
        expect(pod?.metadata.labels?.[labels.vm]).toBe(metadata.name);
        const told = claimedBy.get(pod?.metadata.uid ?? '');
        if (pod?.metadata.labels?.[labels.pool] !== undefined) expect(told).toBe(metadata.uid);
      }
    },
  };
}

/** Where in a claim an operator is killed. */
export interface Kill {
  /** Writes of the claim that it has done, and knows of. */
  readonly after: number;
  /** Whether the next one has reached kube-apiserver. */
  readonly isWritten: boolean;
}

/** A client with which nothing more comes to anything after some write of a claim, as where the process is killed there. */
export function killedAfter(
  client: KubeClient,
  { after, isWritten }: Kill,
): { client: KubeClient; died: Promise<void> } {
  let left = after;
  const died = Promise.withResolvers<void>();
  const write = async <T>(isOfClaim: boolean, call: () => Promise<T>): Promise<T> => {
    if (!isOfClaim || left-- > 0) return call();
    const isFirst = left === -1;
    if (isFirst && isWritten) await call();
    died.resolve();
    throw new Svc3Error('ServiceUnavailable', 'killed');
  };
  const killed: KubeClient = Object.assign(Object.create(client) as KubeClient, {
    apply: (...args: Parameters<KubeClient['apply']>) =>
      write(args[0].plural === 'vms', () => client.apply(...args)),
    patch: (...args: Parameters<KubeClient['patch']>) =>
      write(args[0].plural === 'pods', () => client.patch(...args)),
  });
  return { client: killed, died: died.promise };
}
