import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import { createVm, type E2eCluster, e2eCluster, eventually, type TestVm } from '../support/e2e.ts';

let cluster: E2eCluster;
beforeAll(async () => {
  cluster = await e2eCluster();
});

const made: TestVm[] = [];
const undo: string[][] = [];
afterEach(async () => {
  await Promise.all(made.splice(0).map((vm) => vm.delete()));
  for (const words of undo.splice(0)) await cluster.kubectl(...words);
});

const host = 'kubernetes.io/hostname';
/** Terms of pods on the same node. */
const onNode = (labels: object) => ({
  requiredDuringSchedulingIgnoredDuringExecution: [
    { labelSelector: { matchLabels: labels }, topologyKey: host },
  ],
});

async function create(name: string, spec: object, labels: Record<string, string> = {}): Promise<TestVm> {
  const vm = await createVm(cluster, name, spec, labels);
  made.push(vm);
  return vm;
}

const nodeOf = async (vm: TestVm) => (await vm.get())?.status?.node;

describe('beside a real kube-scheduler', { timeout: 600_000 }, () => {
  test('VMs that keep apart get a node each, and one more waits until one of them is gone', async () => {
    const labels = { team: 'apart' };
    const affinity = { podAntiAffinity: onNode(labels) };
    const [first, second] = await Promise.all(
      ['apart1', 'apart2'].map((name) => create(name, { affinity }, labels)),
    );
    const taken = async () => new Set([await nodeOf(first!), await nodeOf(second!)]);
    await expect.poll(taken, eventually).toEqual(new Set(['node1', 'node2']));
    const third = await create('apart3', { affinity }, labels);
    const told = async () =>
      (await third.get())?.status?.conditions?.find(({ type }) => type === 'Scheduled')?.message;
    await expect
      .poll(told, eventually)
      .toBe("0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules.");
    const explained = await cluster.svc3('-n', 'svc3-default', 'vm', 'explain', 'apart3');
    expect(explained.stdout).toMatch(/^node1 +no .*anti-affinity/m);
    const freed = await nodeOf(first!);
    await first!.delete();
    await expect.poll(() => nodeOf(third), eventually).toBe(freed);
    await third.untilReady();
  });

  test('a VM that wants to be with another waits for it, and follows it', async () => {
    const follower = await create('follower', { affinity: { podAffinity: onNode({ team: 'leading' }) } });
    const told = async () =>
      (await follower.get())?.status?.conditions?.find(({ type }) => type === 'Scheduled')?.message;
    await expect
      .poll(told, eventually)
      .toBe("0/2 nodes are available: 2 node(s) didn't match pod affinity rules.");
    const leader = await create('leader', { nodeName: 'node2' }, { team: 'leading' });
    await expect.poll(() => nodeOf(follower), eventually).toBe('node2');
    await Promise.all([leader.untilReady(), follower.untilReady()]);
  });

  test("a pod that is no VM's keeps a VM away from its node", async () => {
    await cluster.kubectl('label', 'node', 'node1', 'tag.svc3.dev/shy=true');
    undo.push(['label', 'node', 'node1', 'tag.svc3.dev/shy-']);
    await cluster.kubectl.apply({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'shy', namespace: 'svc3-default' },
      spec: {
        affinity: { podAntiAffinity: onNode({ 'svc3.dev/vm': 'shunned' }) },
        nodeSelector: { [host]: 'node1' },
        containers: [{ name: 'pause', image: 'registry.k8s.io/pause:3.10', ...restricted }],
        terminationGracePeriodSeconds: 0,
      },
    });
    undo.push(['delete', 'pod', 'shy', '-n', 'svc3-default', '--wait=false']);
    await cluster.kubectl(
      'wait',
      'pod/shy',
      '-n',
      'svc3-default',
      '--for=condition=PodScheduled',
      '--timeout=60s',
    );
    const vm = await create('shunned', { tag: 'shy' });
    await vm.untilReady();
    expect(await nodeOf(vm)).toBe('node2');
  });
});

const restricted = {
  securityContext: {
    allowPrivilegeEscalation: false,
    capabilities: { drop: ['ALL'] },
    runAsNonRoot: true,
    runAsUser: 1,
    seccompProfile: { type: 'RuntimeDefault' },
  },
};
