import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { beforeAll, expect, test } from 'vitest';
import { customResourceDefinitions } from '../../../src/api/crd.ts';
import type { JsonSchema } from '../../../src/api/structural.ts';
import { testCluster } from '../../support/cluster.ts';
import { ensureTools } from '../../support/controlplane.ts';

const run = promisify(execFile);

let kubectl: (...args: string[]) => Promise<string>;

beforeAll(async () => {
  const { kubeconfigPath } = await testCluster();
  const tools = await ensureTools('controlplane');
  kubectl = async (...args) => {
    const { stdout } = await run(tools.path('kubectl'), ['--kubeconfig', kubeconfigPath, ...args]);
    return stdout;
  };
});

interface Spec {
  names: { plural: string; kind: string; shortNames?: string[] };
  versions: { schema: { openAPIV3Schema: JsonSchema } }[];
}

const kinds = customResourceDefinitions().map((definition) => {
  const { names, versions } = definition.spec as unknown as Spec;
  return { plural: names.plural, kind: names.kind, schema: versions[0]!.schema.openAPIV3Schema };
});

/** Field names in the order of `kubectl explain --recursive`: sorted, depth first. */
function* fieldNames(schema: JsonSchema): Generator<string> {
  const properties = schema.properties ?? schema.items?.properties ?? {};
  for (const name of Object.keys(properties).sort()) {
    yield name;
    yield* fieldNames(properties[name]!);
  }
}

test.each(kinds)('kubectl explain shows every field of a $kind', async ({ plural, schema }) => {
  for (const part of ['spec', 'status']) {
    const text = await kubectl('explain', `${plural}.${part}`, '--recursive');
    const shown = [...text.matchAll(/^ +(\w+)\t</gm)].map(([, name]) => name);
    expect(shown).toEqual([...fieldNames(schema.properties![part]!)]);
  }
});

test.each(kinds)('kubectl explain says what the fields of a $kind mean', async ({ plural, schema }) => {
  const text = (await kubectl('explain', `${plural}.spec`)).replaceAll(/\s+/g, ' ');
  for (const { description } of Object.values(schema.properties!['spec']!.properties!))
    expect(text).toContain(description!.replaceAll(/\s+/g, ' '));
});

test('kubectl knows the short names, and the category svc3', async () => {
  const resources = await kubectl('api-resources', '--categories=svc3', '--no-headers');
  const rows = resources
    .trim()
    .split('\n')
    .map((line) => line.split(/ {2,}/));
  const shortNames = Object.fromEntries(rows.map((row) => [row[0], row.length === 5 ? row[1] : '']));
  expect(shortNames).toEqual({
    vms: 'svm',
    vmconfigs: 'svmc',
    vmpools: 'svmp',
    registrycredentials: 'regcred',
    images: '',
    isos: '',
  });
});
