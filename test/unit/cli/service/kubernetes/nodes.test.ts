import { describe, expect, it } from 'vitest';
import { createNodes } from '../../../../../src/cli/service/kubernetes/nodes.ts';
import { Svc3Error } from '../../../../../src/errors.ts';
import type { KubeClient, RawRequest } from '../../../../../src/kube/types.ts';
import { nodeItem, noUsage } from '../../../../../src/wire/node.ts';
import { nodeObject } from '../../../../../src/http/aggregated/table.ts';
import type { Node } from '../../../../../src/api/core.ts';

const node = {
  metadata: { name: 'worker-1', labels: { 'svc3.dev/tag.ssd': 'true', 'kubernetes.io/arch': 'amd64' } },
  status: { allocatable: { cpu: '4', memory: '8Gi' } },
} as unknown as Node;
const item = nodeItem(node, 'team', noUsage);
const forbidden = new Svc3Error('Forbidden', 'nodes is forbidden');
const root = '/apis/api.svc3.dev/v1/namespaces/team/nodes';

/** Nodes for somebody whom kube-apiserver answers so, and what the aggregated API is asked for. */
function nodesFor({ own, answer }: { own?: Error; answer?: Error } = {}) {
  const asked: string[] = [];
  const ownAnswer = <T>(value: T) => (own === undefined ? Promise.resolve(value) : Promise.reject(own));
  const client: Partial<Record<keyof KubeClient, unknown>> = {
    list: ({ plural }: { plural: string }) => ownAnswer({ items: plural === 'nodes' ? [node] : [] }),
    get: () => ownAnswer(node),
    patch: () => ownAnswer(node),
    request({ method, path, body }: RawRequest) {
      asked.push([method, path, ...(body === undefined ? [] : [JSON.stringify(body)])].join(' '));
      if (answer !== undefined) return Promise.reject(answer);
      return Promise.resolve({ body: method === 'GET' ? { items: [nodeObject(item)] } : {} });
    },
  };
  const informers = () => ({ onChange: () => undefined, list: () => [] }) as never;
  return { asked, nodes: createNodes({ client: client as unknown as KubeClient, informers }) };
}

describe('nodes straight on kube-apiserver', () => {
  it('are those of the cluster to who may see them', async () => {
    const { nodes, asked } = nodesFor();
    expect(await nodes.list('team')).toEqual([item]);
    await nodes.tag('team', 'worker-1', 'ssd');
    expect(asked).toEqual([]);
  });

  it('are those of the aggregated API, and the same, to others', async () => {
    const { nodes, asked } = nodesFor({ own: forbidden });
    expect(await nodes.list('team')).toEqual([item]);
    expect(asked).toEqual([`GET ${root}`]);
  });

  it('are asked for again and again where others follow them', async () => {
    const { nodes, asked } = nodesFor({ own: forbidden });
    const ended = new AbortController();
    for await (const items of nodes.watch('team', ended.signal)) {
      expect(items).toEqual([item]);
      if (asked.length === 2) ended.abort();
    }
    expect(asked).toEqual([`GET ${root}`, `GET ${root}`]);
  });

  it('are tagged over the aggregated API by others', async () => {
    const { nodes, asked } = nodesFor({ own: forbidden });
    await nodes.tag('team', 'worker-1', 'ssd');
    await nodes.untag('team', 'worker-1', 'ssd');
    expect(asked).toEqual([
      `POST ${root}/worker-1/tag {"tag":"ssd"}`,
      `POST ${root}/worker-1/untag {"tag":"ssd"}`,
    ]);
    await expect(nodes.tag('team', 'worker-1', '-bad-')).rejects.toMatchObject({ reason: 'Invalid' });
    expect(asked).toHaveLength(2);
  });

  const refusals = {
    aggregated: new Svc3Error('Forbidden', 'nodes.api.svc3.dev is forbidden'),
    noNode: new Svc3Error('NotFound', 'nodes "worker-1" not found', { details: { name: 'worker-1' } }),
    noApi: new Svc3Error('NotFound', 'the server could not find the requested resource'),
    other: new Svc3Error('ServiceUnavailable', 'away'),
  };

  it.each([
    ['the right that svc3 gives', { own: forbidden, answer: refusals.aggregated }, refusals.aggregated],
    ['a node that is not there', { own: forbidden, answer: refusals.noNode }, refusals.noNode],
    ['the right to nodes, without an aggregated API', { own: forbidden, answer: refusals.noApi }, forbidden],
    ['what else kube-apiserver says', { own: refusals.other }, refusals.other],
  ])('are refused with %s', async (_, answers, refusal) => {
    const { nodes } = nodesFor(answers);
    await expect(nodes.list('team')).rejects.toBe(refusal);
    await expect(nodes.tag('team', 'worker-1', 'ssd')).rejects.toBe(refusal);
    const { signal } = new AbortController();
    await expect(nodes.watch('team', signal)[Symbol.asyncIterator]().next()).rejects.toBe(refusal);
  });
});
