import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { CommonSettings, readSettings } from '../../../src/config.ts';
import { credentialSettings, credentialSettingsOf } from '../../../src/controllers/credential/settings.ts';
import { imageEnvironment, imageSettingsOf } from '../../../src/controllers/image/settings.ts';
import { nodeSettings, nodeSettingsOf } from '../../../src/controllers/node/settings.ts';
import { vmEnvironment, vmSettingsFrom, vmSettingsOf } from '../../../src/controllers/vm/environment.ts';
import { ApiSettings } from '../../../src/http/server/settings.ts';
import { AgentSettings } from '../../../src/nodeagent/agent.ts';
import { traceEnvironment } from '../../../src/tracing/settings.ts';

const chart = join(import.meta.dirname, '../../../charts/svc3');
const read = (path: string): string => readFileSync(join(chart, path), 'utf8');

interface Schema {
  readonly $ref?: string;
  readonly type?: string;
  readonly enum?: readonly string[];
  readonly pattern?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly maxLength?: number;
  readonly items?: Schema;
  readonly allOf?: readonly Schema[];
  readonly properties?: Readonly<Record<string, Schema>>;
}
const root = JSON.parse(read('values.schema.json')) as Schema & {
  readonly definitions: Readonly<Record<string, Schema>>;
};

const ofVms = { ...vmEnvironment, ...credentialSettings, ...imageEnvironment, ...nodeSettings };
const OperatorSettings = CommonSettings.extend({ ...ofVms, ...traceEnvironment });

/** What the processes do with their environment before anything else. */
const processes: Readonly<Record<string, (environment: Record<string, string>) => unknown>> = {
  operator(environment) {
    const settings = readSettings(OperatorSettings, environment);
    return [vmSettingsOf, credentialSettingsOf, imageSettingsOf, nodeSettingsOf].map((of) => of(settings));
  },
  api: (environment) => readSettings(ApiSettings, environment),
  'node agent': (environment) => readSettings(AgentSettings, environment),
};

/** Texts at the edges of what a pattern takes, by the path of the value. */
const texts: Readonly<Record<string, readonly string[]>> = {
  defaultNamespace: ['a', 'z'.repeat(63)],
  'gpuPassthrough.towerCards': ['0000:0000', 'ffff:ffff'],
  'store.url': ['', 'http://r', 'https://registry.example.com:5000'],
  'store.maxFileSize': ['1M', '256Gi', '999999Ti'],
  'store.prefix': ['0', 'a/b-c_d.e'],
  remoteRegistries: ['r', 'https://registry.example.com:5000/team/disks', '[2001:db8::1]:5000'],
  'insecureRegistries.allowed': ['*', '[2001:db8::1]:5000', '10.0.0.*'],
  'disk.storageClassName': ['', 'a', 'fast.example.com'],
  'disk.ephemeralLimit': ['0M', '0.001Mi', '999999Ti'],
  'runner.pullSecret': ['', 'a'],
  'runner.priorityClassName': ['', 'a'],
  'nodeAgent.certsDirectory': ['', '/ab', '/etc/containerd/certs.d'],
  'api.baseUrl': ['', 'http://a', 'https://vms.example.com:8443/svc3/a@b'],
  'api.clusterEndpoint': ['', 'http://a', 'https://[2001:db8::1]:6443', 'https://k.example.com/k8s'],
  'api.oidc.issuerUrl': ['', 'https://a', 'https://login.example.com/realms/team/'],
  'tracing.endpoint': ['', 'http://a', 'https://otel.example.com:4318/v1'],
};
/** By the definition of the schema. */
const portRanges: Readonly<Record<string, readonly string[]>> = {
  portRange: ['1-1', '1-65535', '65535-65535'],
  ownPortRange: ['1024-1024', '1024-65535', '65535-65535'],
};

function schemaAt(path: string): Schema {
  const found = path
    .split('.')
    .reduce<Schema | undefined>((schema, name) => schema?.properties?.[name], root);
  if (found === undefined) throw new Error(`values.schema.json does not know ${path}`);
  return found;
}

function resolved(schema: Schema): Schema {
  const name = schema.$ref?.replace('#/definitions/', '');
  return name === undefined ? schema : (root.definitions[name] ?? {});
}

/** Go takes `[][` for a class that begins with the bracket. */
const expressionOf = (pattern: string): RegExp => new RegExp(pattern.replace('[][', String.raw`[\]\[`));

/** Whether the schema takes a text, by its patterns and those of its parts. */
function takes(given: Schema, text: string): boolean {
  const { pattern = '', allOf = [] } = resolved(given);
  return expressionOf(pattern).test(text) && allOf.every((part) => takes(part, text));
}

/** The extremes that a schema lets through, as the chart writes them into the environment. */
function extremes(path: string, given: Schema): readonly string[] {
  const schema = resolved(given);
  if (schema.enum !== undefined) return schema.enum;
  if (schema.type === 'boolean') return ['true', 'false'];
  if (schema.type === 'integer' || schema.type === 'number') return numbers(schema);
  if (schema.type === 'array') return ['', ...extremes(path, schema.items ?? {})];
  if (schema.type === 'object') return ['{}', '{"kubernetes.io/arch":"amd64"}'];
  if (schema.pattern === undefined) return ['', 'x'.repeat(schema.maxLength ?? 1000)];
  const definition = given.$ref?.replace('#/definitions/', '') ?? '';
  const samples = portRanges[definition] ?? texts[path];
  if (samples === undefined) throw new Error(`no samples for ${path}: ${schema.pattern}`);
  for (const sample of samples) expect(takes(schema, sample), sample).toBe(true);
  return samples;
}

function numbers({ minimum, maximum, exclusiveMinimum }: Schema): string[] {
  const aboveThat = exclusiveMinimum === undefined ? undefined : exclusiveMinimum + 0.001;
  return [minimum, aboveThat, maximum].filter((value) => value !== undefined).map(String);
}

/** Setting and value, where the chart writes the one from the other. */
const written = [
  ...read('templates/_helpers.tpl').matchAll(/^(\w+): \{\{(.*)\}\}$/gm),
  ...read('templates/node-agent/daemonset.yaml').matchAll(/- name: (\w+)\n +value: \{\{(.*)\}\}$/gm),
].flatMap(([, name = '', expression = '']) => {
  const [, path] = /\.Values\.([\w.]+)/.exec(expression) ?? [];
  return path === undefined || !/^(SVC3|OTEL)_/.test(name) ? [] : [{ name, path }];
});

test('the settings that the chart writes are found', () => {
  const names = written.map(({ name }) => name);
  expect(names.length).toBeGreaterThan(30);
  expect(names).toEqual(expect.arrayContaining(['SVC3_PORT_RANGE_SSH', 'SVC3_CERTS_HOST_DIRECTORY']));
});

test.each(written)(
  'every process starts with what values.schema.json takes: $path ($name)',
  ({ name, path }) => {
    for (const text of extremes(path, schemaAt(path)))
      for (const [program, start] of Object.entries(processes)) {
        const environment = { SVC3_RUNNER_IMAGE: 'svc3-runner', NODE_NAME: 'node', [name]: text };
        expect(() => start(environment), `${program}: ${name}=${text}`).not.toThrow();
      }
  },
);

// A value that is null is written as nothing, and read from the ConfigMap by clients, too.
test.each(written)('a setting that is written as nothing is not set: $name', ({ name }) => {
  const own = { SVC3_RUNNER_IMAGE: 'r' };
  expect(vmSettingsFrom({ ...own, [name]: '' })).toEqual(vmSettingsFrom(own));
});

const addresses = [
  'api.baseUrl',
  'api.clusterEndpoint',
  'api.oidc.issuerUrl',
  'store.url',
  'tracing.endpoint',
];
test.each(addresses)('%s has no credentials in it', (path) => {
  expect(takes(schemaAt(path), 'https://a.example.com')).toBe(true);
  for (const login of ['me:it@', 'me@', ':it@'])
    expect(takes(schemaAt(path), `https://${login}a.example.com`)).toBe(false);
});

test.each(addresses)('%s is an address', (path) => {
  const names = ['a', 'A_b', 'otel-collector.observability', 'a.example.com.', '10x-lab', 'a.2nd', '2x.0y'];
  for (const host of [...names, '192.0.2.1', '[2001:db8::1]', '[::ffff:192.0.2.1]'])
    for (const port of ['', ':1', ':443', ':9999', ':59999', ':65535'])
      expect(takes(schemaAt(path), `https://${host}${port}`), `${host}${port}`).toBe(true);
  const none = ['', '<your-host>', 'a b', '%', 'a.2024', 'a.0x1f', '256.0.2.1', '1.2.3.4.5', '[::1'];
  for (const host of none) {
    expect(URL.canParse(`https://${host}`), host).toBe(false);
    expect(takes(schemaAt(path), `https://${host}`), host).toBe(false);
  }
  for (const port of [':PORT', ':65536', ':99999', ':80:80', ':-1']) {
    expect(URL.canParse(`https://a${port}`), port).toBe(false);
    expect(takes(schemaAt(path), `https://a${port}`), port).toBe(false);
  }
});

test('no port below 1024 is given to VMs unasked', () => {
  const { pattern = '' } = root.definitions['ownPortRange'] ?? {};
  const ports = Array.from({ length: 65_536 }, (_, port) => port);
  const taken = ports.filter((port) => expressionOf(pattern).test(`${port}-65535`));
  expect(taken).toEqual(ports.slice(1024));
});
