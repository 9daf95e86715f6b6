import { expect, test } from 'vitest';
import { allOn, rendered } from './helm.ts';

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
