import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { CustomResourceDefinition } from '../../../src/api/core.ts';
import { customResourceDefinitions } from '../../support/resources.ts';
import type { RootClient } from '../../../src/kube/client.ts';
import { testCluster, uniqueNamespace } from '../../support/cluster.ts';
import { installDefinitions } from '../../support/definitions.ts';
import { allOn, type Rendered, rendered } from './helm.ts';

/** Of the Prometheus operator, without their descriptions: what it takes, kube-apiserver says here as it does in a cluster that has it. */
const file = new URL('../../contracts/prometheus-operator-0.79.2-crds.json', import.meta.url);
const group = 'monitoring.coreos.com/v1';

let client: RootClient;
let namespace: string;
let definitions: CustomResourceDefinition[];

beforeAll(async () => {
  ({ client } = await testCluster());
  namespace = await uniqueNamespace(client, 'monitors');
  definitions = JSON.parse(await readFile(file, 'utf8')) as CustomResourceDefinition[];
  await installDefinitions(client, definitions);
});

afterAll(async () => {
  for (const { metadata } of definitions ?? [])
    await client.delete(customResourceDefinitions, { name: metadata?.name ?? '' });
});

/** The spec that kube-apiserver would store, or why it refuses the object, as for a field that it does not know. */
async function stored({ kind, metadata, spec }: Rendered): Promise<unknown> {
  try {
    const { body } = await client.request<Rendered>({
      method: 'POST',
      path: `/apis/${group}/namespaces/${namespace}/${kind.toLowerCase()}s`,
      query: { dryRun: 'All', fieldValidation: 'Strict' },
      body: { apiVersion: group, kind, metadata: { ...metadata, namespace }, spec },
    });
    return body.spec;
  } catch (error) {
    return String(error);
  }
}

// Argo CD compares lists of custom resources as they are: what is filled in there would be a drift for ever.
test('the Prometheus operator takes every monitor and rule of the chart, to the last field, and fills in none', async () => {
  const objects = await rendered(...allOn);
  const monitoring = objects.filter(({ apiVersion }) => apiVersion === group);
  const kinds = monitoring.map(({ kind }) => kind);
  expect(kinds).toEqual(expect.arrayContaining(['PodMonitor', 'ServiceMonitor', 'PrometheusRule']));
  const name = ({ kind, metadata }: Rendered) => `${kind} ${metadata.name}`;
  const taken = await Promise.all(monitoring.map(async (object) => [name(object), await stored(object)]));
  expect(taken).toEqual(monitoring.map((object) => [name(object), object.spec]));
  const first = monitoring.find(({ kind }) => kind === 'PodMonitor');
  const wrong = { ...first, spec: { ...first?.spec, unheardOf: true } };
  expect(await stored(wrong as unknown as Rendered)).toMatch(/unknown field "spec.unheardOf"/);
});
