import { expect, test } from 'vitest';
import { allOn, chart, helmTemplate, helmTemplateAs, objectsOf } from './helm.ts';

/** Values that are texts and may look like something else to YAML. */
const texts = [
  'defaultNamespace',
  'networkPolicies.namespaces[0]',
  'vmMetrics.namespaces[0]',
  'operator.priorityClassName',
  'api.priorityClassName',
  'nodeAgent.priorityClassName',
  'runner.priorityClassName',
  'runner.pullSecret',
  'disk.storageClassName',
  'image.pullSecrets[0].name',
  'api.ingress.className',
  'api.ingress.tlsSecretName',
  'api.ingress.hosts[0]',
  'api.gateway.caConfigMap',
  'api.gateway.parentRefs[0].name',
  'tracing.headersSecret.name',
  'tracing.headersSecret.key',
  'tracing.caConfigMap.name',
  'tracing.caConfigMap.key',
  'api.gateway.hostnames[0]',
];

test.each(['1e3', '0x7'])('a name or namespace stays a text: %s', async (text) => {
  const plain = 'plain';
  const objectsWith = async (value: string) => {
    const sets = texts.map((path) => `--set-string=${path}=${value}`);
    return JSON.stringify(objectsOf(await helmTemplateAs(value, chart, ...allOn, ...sets)), null, 1);
  };
  const withoutChecksums = (objects: string) => objects.replaceAll(/"[0-9a-f]{64}"/g, '""');
  const expected = (await objectsWith(plain)).replaceAll(new RegExp(`\\b${plain}\\b`, 'g'), text);
  expect(withoutChecksums(await objectsWith(text))).toBe(withoutChecksums(expected));
});

test('a folder of nodes and an address of runbooks stay what they are', async () => {
  const sets = ['nodeAgent.kubeletDirectory', 'nodeAgent.certsDirectory', 'prometheusRule.runbooks'];
  const objects = objectsOf(
    await helmTemplate(...allOn, ...sets.map((path) => `--set-string=${path}=/a: #b}`)),
  );
  const text = JSON.stringify(objects);
  for (const written of ['"/a: #b}/device-plugins"', '"/a: #b}"', '"/a: #b}/Svc3VMNotReady'])
    expect(text).toContain(written);
});
