import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { CustomResourceDefinition } from '../../../src/api/core.ts';
import { customResourceDefinitions } from '../../../src/api/resources.ts';
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

/** What kube-apiserver says of an object, fields that it does not know included. */
async function verdict({ kind, metadata, spec }: Rendered): Promise<string> {
  try {
    await client.request({
      method: 'POST',
      path: `/apis/${group}/namespaces/${namespace}/${kind.toLowerCase()}s`,
      query: { dryRun: 'All', fieldValidation: 'Strict' },
      body: { apiVersion: group, kind, metadata: { ...metadata, namespace }, spec },
    });
    return 'taken';
  } catch (error) {
    return String(error);
  }
}

test('the Prometheus operator takes every monitor and rule of the chart, to the last field', async () => {
  const objects = await rendered(...allOn);
  const monitoring = objects.filter(({ apiVersion }) => apiVersion === group);
  const kinds = monitoring.map(({ kind }) => kind);
  expect(kinds).toEqual(expect.arrayContaining(['PodMonitor', 'ServiceMonitor', 'PrometheusRule']));
  const verdicts = await Promise.all(
    monitoring.map(async (object) => [`${object.kind} ${object.metadata.name}`, await verdict(object)]),
  );
  expect(verdicts).toEqual(verdicts.map(([name]) => [name, 'taken']));
  const first = monitoring.find(({ kind }) => kind === 'PodMonitor');
  const wrong = { ...first, spec: { ...first?.spec, unheardOf: true } };
  expect(await verdict(wrong as unknown as Rendered)).toMatch(/unknown field "spec.unheardOf"/);
});
