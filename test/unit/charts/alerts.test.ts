import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { codeIn, isName, linesOf, understood } from '../../support/commandlines.ts';
import { dashboard, withoutData } from '../../support/dashboards.ts';
import { createMetrics } from '../../../src/telemetry.ts';

const root = join(import.meta.dirname, '../../..');
const read = (path: string): string => readFileSync(join(root, path), 'utf8');

interface Alert {
  readonly alert: string;
  readonly expr: string;
}

const alerts = parse(read('charts/svc3/files/alerts.yaml')) as Alert[];
const names = alerts.map(({ alert }) => alert).toSorted();

/** What the processes register: the names in the code, and those that are put together when a process starts. */
async function registeredMetrics(): Promise<Set<string>> {
  const sources = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' });
  const written = sources
    .filter((path) => path.endsWith('.ts'))
    .flatMap((path) => [...read(`src/${path}`).matchAll(/'(svc3_vm_\w+|(?<=name: ')svc3_\w+)'/g)])
    .map(([, name = '']) => name);
  const made = await createMetrics().registry.getMetricsAsJSON();
  return new Set([...written, ...made.map(({ name }) => name)]);
}

function metricsIn(text: string): string[] {
  return [...text.matchAll(/\b(?:svc3|workqueue)_\w+/g)].map(([name]) =>
    name.replace(/_seconds_(bucket|sum|count)$/, '_seconds'),
  );
}

test('every alert has a runbook, and every runbook an alert', () => {
  const pages = readdirSync(join(root, 'docs/runbooks')).filter((name) => name !== 'README.md');
  expect(pages.toSorted()).toEqual(names.map((name) => `${name}.md`));
  const listed = [...read('docs/runbooks/README.md').matchAll(/\]\((\w+)\.md\)/g)].map(([, name]) => name);
  expect(listed.toSorted()).toEqual(names);
});

test.each(names)('the runbook of %s says meaning, impact, how to look and how to mend', (name) => {
  const page = read(`docs/runbooks/${name}.md`);
  expect(page).toMatch(new RegExp(`^# ${name}: `));
  expect(page.match(/^## .*$/gm)).toEqual(['## Meaning', '## Impact', '## How to look', '## How to mend']);
});

test('svc3 understands every command line of a runbook', async () => {
  const code = names.map((name) => codeIn(read(`docs/runbooks/${name}.md`)));
  const lines = code.flatMap((page) => page.lines).flatMap(linesOf);
  const spans = code.flatMap((page) => page.spans).flatMap(linesOf);
  expect(lines.length).toBeGreaterThan(3);
  for (const words of [...lines, ...spans.filter((each) => !isName(each))])
    await expect(understood(words)).resolves.toBeDefined();
});

test('every alert has a time among the values and in their schema', () => {
  const { prometheusRule } = parse(read('charts/svc3/values.yaml')) as {
    prometheusRule: { times: Record<string, string> };
  };
  expect(Object.keys(prometheusRule.times).toSorted()).toEqual(names);
  const schema = JSON.parse(read('charts/svc3/values.schema.json')) as {
    properties: { prometheusRule: { properties: { times: { properties: object; required: string[] } } } };
  };
  const { properties, required } = schema.properties.prometheusRule.properties.times;
  expect(Object.keys(properties).toSorted()).toEqual(names);
  // An alert without a time would be told at once.
  expect(required.toSorted()).toEqual(names);
});

test('alerts and runbooks name no metric that nobody serves', async () => {
  const registered = await registeredMetrics();
  const texts = [...alerts.map(({ expr }) => expr), ...names.map((name) => read(`docs/runbooks/${name}.md`))];
  expect(texts.flatMap(metricsIn).filter((name) => !registered.has(name))).toEqual([]);
  expect(alerts.filter(({ expr }) => metricsIn(expr).length === 0)).toEqual([]);
});

test('the page of metrics has every one of svc3, and no other', async () => {
  const table = read('docs/metrics.md').match(/^\| `.*$/gm) ?? [];
  const listed = table
    .flatMap((row) => metricsIn(row.split('|')[1] ?? ''))
    .filter((name) => name.startsWith('svc3_'));
  const served = [...(await registeredMetrics())].filter((name) => name.startsWith('svc3_'));
  expect(listed.toSorted()).toEqual(served.toSorted());
});

test('dashboards show no metric that nobody serves', async () => {
  const registered = await registeredMetrics();
  const queries = ['fleet', 'vm'].flatMap((name) => dashboard(name, {}).queries);
  expect(queries.flatMap(metricsIn).filter((name) => !registered.has(name))).toEqual([]);
});

test('a query whose values are no numbers has no data, as one without series', async () => {
  const values: Readonly<Record<string, readonly string[]>> = {
    none: [],
    quotients: ['NaN', '+Inf'],
    one: ['NaN', '0'],
  };
  const query = async (text: string) =>
    (values[text] ?? []).map((value) => ({ metric: {}, value: [0, value] as [number, string] }));
  expect(await withoutData({ query }, Object.keys(values))).toEqual(['none', 'quotients']);
});
