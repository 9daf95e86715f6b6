import { describe, expect, it } from 'vitest';
import { tableRows } from '../../../../../src/cli/render.ts';
import { topNodes, topVms } from '../../../../../src/cli/service/kubernetes/top.ts';
import { nodeTopView, vmTopView } from '../../../../../src/cli/views.ts';
import { Svc3Error } from '../../../../../src/errors.ts';
import type { KubeClient } from '../../../../../src/kube/types.ts';

const style = { wide: false, colour: false, now: new Date(0) };

/** Answers lists by group and plural; an error is thrown. */
function clientOf(lists: Record<string, object[] | Error>) {
  const asked: object[] = [];
  const list: unknown = async (resource: { group: string; plural: string }, options: object) => {
    const found = lists[`${resource.group}/${resource.plural}`];
    asked.push({ plural: resource.plural, ...options });
    if (found instanceof Error) throw found;
    return { items: found ?? [] };
  };
  return { client: { list } as KubeClient, asked };
}

const vm = (name: string, status?: object) => ({ metadata: { name, namespace: 'team' }, status });
const effective = { cpu: 2, memory: '4Gi' };
const pod = (name: string, ...usages: object[]) => ({
  metadata: { name, namespace: 'team' },
  containers: usages.map((usage) => ({ usage })),
});

describe('what VMs use', () => {
  it('is the sum of the containers of their pods, beside what they have', async () => {
    const { client, asked } = clientOf({
      'svc3.dev/vms': [
        vm('one', { podName: 'one-x', node: 'node1', effective }),
        vm('young', { podName: 'young-x', node: 'node1', effective }),
        vm('empty', { podName: 'empty-x', effective }),
        vm('placeless'),
      ],
      'metrics.k8s.io/pods': [
        pod('one-x', { cpu: '11500001n', memory: '307200Ki' }, { cpu: '500u', memory: '1Mi' }),
        pod('empty-x'),
        pod('other', { cpu: '1', memory: '1Gi' }),
      ],
    });
    const items = await topVms(client, 'team');
    expect(items[0]).toEqual({
      name: 'one',
      namespace: 'team',
      node: 'node1',
      usedCpuMilli: 13,
      usedMemoryBytes: 301 * 2 ** 20,
      ...effective,
    });
    const { header, rows } = tableRows(vmTopView, items, style);
    expect([header, ...rows].map((line) => line.trim().split(/ {2,}/))).toEqual([
      ['NAME', 'NODE', 'CPU', 'VM CPU', 'MEMORY', 'VM MEMORY'],
      ['one', 'node1', '13m', '2', '301Mi', '4Gi'],
      ['young', 'node1', '-', '2', '-', '4Gi'],
      ['empty', '-', '-', '2', '-', '4Gi'],
      ['placeless', '-', '-', '-', '-', '-'],
    ]);
    expect(asked).toContainEqual({ plural: 'pods', namespace: 'team', labelSelector: 'svc3.dev/vm' });
  });

  it('is that of the pod in the namespace of the VM, where all are asked for at once', async () => {
    const of = (namespace: string, cpu: string) => ({
      vm: { metadata: { name: 'one', namespace }, status: { podName: 'one-x' } },
      pod: {
        metadata: { name: 'one-x', namespace },
        containers: [{ usage: { cpu, memory: '1Mi' } }],
      },
    });
    const [a, b] = [of('a', '1'), of('b', '2')];
    const { client, asked } = clientOf({
      'svc3.dev/vms': [a.vm, b.vm],
      'metrics.k8s.io/pods': [b.pod, a.pod],
    });
    expect(await topVms(client)).toMatchObject([
      { namespace: 'a', usedCpuMilli: 1000 },
      { namespace: 'b', usedCpuMilli: 2000 },
    ]);
    expect(asked).toEqual([{ plural: 'vms' }, { plural: 'pods', labelSelector: 'svc3.dev/vm' }]);
  });
});

describe('what is used of nodes', () => {
  it.each([
    ['250000000n', '1048576k', '250m', '6%', '1000Mi', '12%'],
    ['1500000u', '2Gi', '1500m', '37%', '2048Mi', '25%'],
    ['12m', '2097152Ki', '12m', '0%', '2048Mi', '25%'],
    ['4', '8589934592', '4000m', '100%', '8192Mi', '100%'],
  ])('with %s and %s is told in millicores, mebibytes and per cent', async (cpu, memory, ...cells) => {
    const { client } = clientOf({
      '/nodes': [
        { metadata: { name: 'node1' }, status: { allocatable: { cpu: '4', memory: '8Gi' } } },
        { metadata: { name: 'node2' }, status: { allocatable: { cpu: '4', memory: '8Gi' } } },
      ],
      'metrics.k8s.io/nodes': [{ metadata: { name: 'node1' }, usage: { cpu, memory } }],
    });
    const { rows } = tableRows(nodeTopView, await topNodes(client), style);
    expect(rows.map((line) => line.trim().split(/ {2,}/))).toEqual([
      ['node1', ...cells],
      ['node2', '-', '-', '-', '-'],
    ]);
  });
});

describe('without figures', () => {
  const both = (error: Error) => clientOf({ 'metrics.k8s.io/pods': error, 'metrics.k8s.io/nodes': error });

  it('says what to do where metrics-server is missing', async () => {
    const { client } = both(new Svc3Error('NotFound', 'the server could not find the requested resource'));
    const refusal = {
      reason: 'NotFound',
      message: expect.stringMatching(/metrics-server.*dev up --metrics/),
    };
    await expect(topVms(client, 'team')).rejects.toMatchObject(refusal);
    await expect(topNodes(client)).rejects.toMatchObject(refusal);
  });

  it('gives the refusal of kube-apiserver where the right is missing', async () => {
    const refusal = new Svc3Error('Forbidden', 'pods.metrics.k8s.io is forbidden');
    const { client } = both(refusal);
    await expect(topVms(client, 'team')).rejects.toBe(refusal);
    await expect(topNodes(client)).rejects.toBe(refusal);
  });
});
