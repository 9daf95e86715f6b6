import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { z } from 'zod';
import { allOn, chart, rendered } from './helm.ts';

// A key that is left empty in a file of values takes the default away: templates are given nothing at all.

test.each([
  'commonLabels',
  ...['operator', 'api', 'nodeAgent'].flatMap((part) => [
    `${part}.nodeSelector`,
    `${part}.affinity`,
    `${part}.annotations`,
    `${part}.podLabels`,
    `${part}.podAnnotations`,
  ]),
])('%s left empty is as {}', async (value) => {
  expect(await rendered(`--set=${value}=null`)).toEqual(await rendered(`--set-json=${value}={}`));
});

test.each(['headersSecret', 'caConfigMap'])('tracing.%s left empty is none', async (value) => {
  expect(await rendered(...allOn, `--set=tracing.${value}=null`)).toEqual(
    await rendered(...allOn, `--set=tracing.${value}.name=`),
  );
});

test.each([
  'networkPolicies.namespaces',
  'networkPolicies.guestsFrom',
  'networkPolicies.metricsFrom',
  'vmMetrics.namespaces',
  'vmMetrics.from',
  'gpuPassthrough.towerCards',
  'remoteRegistries',
  'insecureRegistries.allowed',
])('%s left empty is as []', async (value) => {
  expect(await rendered(...allOn, `--set=${value}=null`)).toEqual(
    await rendered(...allOn, `--set-json=${value}=[]`),
  );
});

test.each([
  ['api.ingress', 'hosts'],
  ['api.gateway', 'parentRefs'],
  ['api.gateway', 'hostnames'],
  ['api.gateway', 'caConfigMap'],
])('%s is refused without its %s', async (way, value) => {
  const unset = rendered(...allOn, `--set=${way}.${value}=null`);
  await expect(unset).rejects.toThrow(`at '/${way.replace('.', '/')}': missing property '${value}'`);
});

test.each(['api.ingress', 'api.gateway'])('%s is off where its switch is left empty', async (way) => {
  expect(await rendered(`--set=${way}.enabled=null`)).toEqual(await rendered());
});

test('a Gateway looks for the name of its route where the address of the api is left empty', async () => {
  const policyOf = async (...sets: string[]) =>
    (await rendered(...allOn, ...sets)).find(({ kind }) => kind === 'BackendTLSPolicy')?.spec;
  expect(await policyOf('--set=api.baseUrl=null')).toEqual(await policyOf());
});

const values = parse(await readFile(join(chart, 'values.yaml'), 'utf8')) as Record<string, unknown>;
const hasParts = (value: unknown): boolean => z.record(z.string(), z.unknown()).safeParse(value).success;
const parts = Object.keys(values).filter((name) => name !== 'commonLabels' && hasParts(values[name]));

test('the parts of the values are found', () => {
  expect(parts).toEqual(expect.arrayContaining(['image', 'store', 'operator', 'tracing', 'test']));
});

test.each([
  ...parts,
  'runner.image',
  'api.oidc',
  'api.service',
  'defaultNamespace',
  'hostPorts.allowed',
  'portRanges.ssh',
  'portRanges.screenshare',
  'portRanges.vnc',
  'nodeAgent.kubeletDirectory',
  'serviceMonitor.interval',
  'podMonitor.interval',
  'vmMetrics.interval',
  'prometheusRule.runbooks',
  'prometheusRule.times',
  'prometheusRule.times.Svc3OperatorDown',
])('%s left empty is refused by its name', async (value) => {
  const path = value.split('.');
  const name = path.pop() ?? '';
  const at = path.map((part) => `/${part}`).join('');
  const unset = rendered(`--set=${value}=null`);
  await expect(unset).rejects.toThrow(`at '${at}': missing property '${name}'`);
});

test.each([
  ['nodeAgent.enabled', 'SVC3_NODE_AGENT_ENABLED'],
  ['aggregatedApi.enabled', 'SVC3_AGGREGATED_API_ENABLED'],
  ['nodePorts.ssh', 'SVC3_NODE_PORT_SSH'],
  ['nodePorts.screenshare', 'SVC3_NODE_PORT_SCREENSHARE'],
])('%s left empty is off, also for processes where it is on by default', async (value, setting) => {
  const objects = await rendered(`--set=${value}=null`);
  const settings = objects.find(({ metadata }) => metadata.name === 'svc3-settings');
  expect(settings?.data).toHaveProperty(setting, 'false');
});

test('there are no network policies where their switch is left empty', async () => {
  const policies = async (...sets: string[]) =>
    (await rendered(...sets)).filter(({ kind }) => kind === 'NetworkPolicy').length;
  expect(await policies()).toBeGreaterThan(0);
  expect(await policies('--set=networkPolicies.enabled=null')).toBe(0);
});
