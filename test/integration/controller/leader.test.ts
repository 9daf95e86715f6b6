import { beforeAll, describe, expect, test, vi } from 'vitest';
import { configMaps, leases } from '../../../src/api/resources.ts';
import { gatedClient } from '../../../src/controller/leader.ts';
import type { LeaderElectorOptions } from '../../../src/controller/leader.ts';
import type { KubeClient } from '../../../src/kube/types.ts';
import { testCluster, uniqueNamespace } from '../../support/cluster.ts';
import type { TestCluster } from '../../support/cluster.ts';
import { candidate } from '../../support/election.ts';
import type { Candidate } from '../../support/election.ts';
import { shortTimes } from '../../support/electiontimes.ts';

let cluster: TestCluster;
let namespace: string;

beforeAll(async () => {
  cluster = await testCluster();
  namespace = await uniqueNamespace(cluster.client, 'leader');
});

const within = { timeout: 60_000 };

const take = (name: string, identity: string, options: Partial<LeaderElectorOptions> = {}): Candidate =>
  candidate({ client: cluster.client, namespace, name, identity, ...options });

const holder = async (name: string): Promise<string | undefined> =>
  (await cluster.client.get(leases, name, namespace)).spec?.holderIdentity;

describe('an election', () => {
  test('has one leader, who writes the lease as Kubernetes does', async () => {
    const [a, b] = [take('one', 'a'), take('one', 'b')];
    await expect.poll(() => a.works() || b.works(), within).toBe(true);
    expect(a.works() && b.works()).toBe(false);
    const { spec } = await cluster.client.get(leases, 'one', namespace);
    expect(spec).toMatchObject({
      holderIdentity: a.works() ? 'a' : 'b',
      leaseDurationSeconds: shortTimes.leaseMs / 1000,
      leaseTransitions: 0,
    });
    expect(spec?.renewTime).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
  });

  test('goes to the other when the leader is told to stop, who releases the lease', async () => {
    const a = take('release', 'a');
    await expect.poll(a.works, within).toBe(true);
    const b = take('release', 'b');
    await a.stop();
    expect(a.elector.isLeader()).toBe(false);
    await expect.poll(b.works, within).toBe(true);
    const { spec } = await cluster.client.get(leases, 'release', namespace);
    expect(spec).toMatchObject({ holderIdentity: 'b', leaseTransitions: 1 });
    expect(b.elector.transitions()).toBe(1);
  });

  test('waits for the work of a leader that stops before it releases the lease', async () => {
    const finish = Promise.withResolvers<void>();
    const a = take('drain', 'a', { onStarted: () => finish.promise });
    await expect.poll(() => a.elector.isLeader(), within).toBe(true);
    const stopped = a.stop();
    await expect.poll(() => holder('drain'), within).toBe('a');
    expect(a.elector.gate.isHeld()).toBe(true);
    finish.resolve();
    await stopped;
    expect(await holder('drain')).toBe('');
  });
});

describe('clocks', () => {
  test('that jump, of the leader or of a candidate, by a day in both directions, change nothing', async () => {
    let offsetMs = 0;
    const wall = () => new Date(Date.now() + offsetMs);
    const a = take('jump', 'a', { wall });
    await expect.poll(a.works, within).toBe(true);
    const behind = take('jump', 'b', { wall: () => new Date(Date.now() - 86_400_000) });
    const ahead = take('jump', 'c', { wall: () => new Date(Date.now() + 86_400_000) });
    for (const jump of [86_400_000, -86_400_000]) {
      offsetMs = jump;
      const { spec } = await cluster.client.get(leases, 'jump', namespace);
      await expect
        .poll(async () => (await cluster.client.get(leases, 'jump', namespace)).spec?.renewTime, within)
        .not.toBe(spec?.renewTime);
    }
    // As long as a lease lasts, so that every candidate has judged it.
    const until = performance.now() + shortTimes.leaseMs + 1_000;
    await vi.waitFor(() => expect(performance.now()).toBeGreaterThan(until), {
      timeout: 60_000,
      interval: 200,
    });
    expect([a.works(), behind.works(), ahead.works()]).toEqual([true, false, false]);
    expect((await cluster.client.get(leases, 'jump', namespace)).spec?.leaseTransitions).toBe(0);
  });

  test('of others are not believed: a lease from the far future is taken over once it was not renewed for its duration', async () => {
    await cluster.client.create(leases, {
      metadata: { name: 'future', namespace },
      spec: {
        holderIdentity: 'gone',
        leaseDurationSeconds: 1,
        renewTime: '2999-01-01T00:00:00.123456Z',
        acquireTime: '2999-01-01T00:00:00.123456Z',
        leaseTransitions: 7,
      },
    });
    const a = take('future', 'a');
    await expect.poll(a.works, within).toBe(true);
    expect((await cluster.client.get(leases, 'future', namespace)).spec?.leaseTransitions).toBe(8);
  });
});

test('a gated client reads always and writes only while its process leads', async () => {
  const a = take('gated', 'a');
  const gated: KubeClient = gatedClient(cluster.client, a.elector.gate);
  const write = () => gated.apply(configMaps, { metadata: { name: 'gated', namespace }, data: { a: '1' } });
  await expect.poll(a.works, within).toBe(true);
  await write();
  await a.stop();
  await expect(write()).rejects.toThrow('this process does not lead');
  await expect(gated.get(configMaps, 'gated', namespace)).resolves.toBeDefined();
});
