import { describe, expect, test } from 'vitest';
import { namespaces } from '../../../../src/api/meta.ts';
import { explainVm } from '../../../../src/http/routes/vmdetails.ts';
import type { ListOptions } from '../../../../src/kube/types.ts';
import { openApiOf } from '../../../../src/http/server/openapi.ts';
import type { Explanation } from '../../../../src/wire/vmschemas.ts';
import { aVm, effective } from '../../controllers/vm/builders.ts';

/** What the explanation of a placed VM is, and the lists that were asked for: `resource namespace`, which is empty for all. */
async function explained(query: Readonly<Record<string, string>>) {
  const listed: string[] = [];
  const signals: (AbortSignal | undefined)[] = [];
  const leaving = new AbortController();
  const client = {
    get: ({ plural }: { plural: string }) =>
      Promise.resolve(
        plural === 'configmaps'
          ? { metadata: { namespace: namespaces.system }, data: { SVC3_RUNNER_IMAGE: 'runner' } }
          : aVm({ status: { effective, podName: 'svc3-vm-web', node: 'n1' } }),
      ),
    list({ plural }: { plural: string }, { namespace = '', signal }: ListOptions = {}) {
      listed.push(`${plural} ${namespace}`);
      signals.push(signal);
      return Promise.resolve({ items: [] });
    },
  };
  const call = {
    params: { namespace: 'team', vm: 'web' },
    query: explainVm.query.parse(query),
    caller: { client },
    signal: leaving.signal,
  };
  const { body } = await explainVm.handler(call as never);
  return { explanation: body as Explanation, listed: new Set(listed), signals, leaving };
}

describe('the explanation of a VM', () => {
  test.each([{}, { nodes: 'true' }])(
    'tells what placement says of every node where %j is asked',
    async (query) => {
      const { explanation, listed } = await explained(query);
      expect(explanation.nodes).toEqual([]);
      expect(listed).toEqual(new Set(['events team', 'nodes ', 'pods ', 'vms ']));
    },
  );

  test('without the nodes lists nothing of all namespaces', async () => {
    const { explanation, listed } = await explained({ nodes: 'false' });
    expect(explanation).not.toHaveProperty('nodes');
    expect(explanation.item.name).toBe('web');
    expect(listed).toEqual(new Set(['events team']));
  });

  test('is read no further when the client has hung up', async () => {
    const { signals, leaving } = await explained({});
    leaving.abort();
    expect(signals.map((signal) => signal?.aborted)).toEqual(Array.from({ length: 5 }, () => true));
  });

  test('is asked for with a flag, which the document has', () => {
    expect(explainVm.query.safeParse({ nodes: 'perhaps' }).success).toBe(false);
    const { paths } = openApiOf([explainVm]) as {
      paths: Record<
        string,
        Record<string, { parameters: { name: string; in: string; required?: boolean }[] }>
      >;
    };
    const named = paths[explainVm.path]?.['get']?.parameters.find(({ name }) => name === 'nodes');
    expect(named).toMatchObject({ in: 'query' });
    expect(named?.required ?? false).toBe(false);
  });
});
