import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { customResourceDefinitions } from '../../../src/api/crd.ts';
import { ownResources } from '../../../src/api/resources.ts';

const root = join(import.meta.dirname, '../../..');
const plurals = ownResources.map(({ plural }) => plural).sort();

test('crds/ holds exactly what the schemas generate', () => {
  const files = readdirSync(join(root, 'crds')).sort();
  expect(files).toEqual(plurals.map((plural) => `${plural}.yaml`));
  const written = files.map((file) => parse(readFileSync(join(root, 'crds', file), 'utf8')));
  const generated = JSON.parse(JSON.stringify(customResourceDefinitions())) as {
    metadata: { name: string };
  }[];
  expect(written).toEqual(generated.sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1)));
});

test('the chart holds the same files as crds/', () => {
  const chart = join(root, 'charts/svc3/templates/crds');
  expect(readdirSync(chart).sort()).toEqual(readdirSync(join(root, 'crds')).sort());
  for (const file of readdirSync(chart))
    expect(readFileSync(join(chart, file), 'utf8')).toBe(readFileSync(join(root, 'crds', file), 'utf8'));
});

test('no generated text would be read as a Helm template', () => {
  for (const file of readdirSync(join(root, 'crds')))
    expect(readFileSync(join(root, 'crds', file), 'utf8')).not.toContain('{{');
});

test('an object of any kind that svc3 has not looked at has a generation that was not observed', () => {
  for (const { spec } of customResourceDefinitions()) {
    const { openAPIV3Schema: schema } = spec.versions[0]?.schema ?? {};
    expect(schema?.properties?.['status']).toMatchObject({ default: { observedGeneration: 0 } });
  }
});
