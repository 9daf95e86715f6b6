import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { parseAllDocuments } from 'yaml';
import type { PolicyRule } from '../../../src/api/core.ts';
import type { KubeObject } from '../../../src/api/object.ts';
import { ensureTools } from '../../support/controlplane.ts';

const run = promisify(execFile);
export const chart = join(import.meta.dirname, '../../../charts/svc3');

/** One object of the chart; which kind it is, the test knows. */
export interface Rendered extends KubeObject {
  kind: string;
  metadata: NonNullable<KubeObject['metadata']> & { name: string };
  rules?: PolicyRule[];
  spec?: Record<string, never>;
  data?: Record<string, string>;
}

/** What `helm template` prints. Rejects with its message. */
export async function helmTemplate(...args: string[]): Promise<string> {
  return helmTemplateOf(chart, ...args);
}

/** The same of another folder than the chart's own. */
export async function helmTemplateOf(folder: string, ...args: string[]): Promise<string> {
  return helmTemplateAs('svc3', folder, ...args);
}

/** The same under another name of the release. */
export async function helmTemplateAs(release: string, folder: string, ...args: string[]): Promise<string> {
  const tools = await ensureTools('helm');
  try {
    const { stdout } = await run(
      tools.path('helm'),
      ['template', release, folder, '-n', 'svc3-system', ...args],
      {
        maxBuffer: 16 * 1024 * 1024,
      },
    );
    return stdout;
  } catch (error) {
    throw new Error((error as { stderr: string }).stderr, { cause: error });
  }
}

/** The objects of the chart with these arguments. Rejects where what it renders is no YAML, as with a key that is there twice. */
export async function rendered(...args: string[]): Promise<Rendered[]> {
  return objectsOf(await helmTemplate(...args));
}

export function objectsOf(manifests: string): Rendered[] {
  const documents = parseAllDocuments(manifests);
  const wrong = documents.flatMap(({ errors }) => errors);
  if (wrong[0] !== undefined) throw wrong[0];
  return documents.map((document) => document.toJS() as Rendered | null).filter((object) => object !== null);
}

/** The PrometheusRule with these arguments. */
export async function renderedRules(...args: string[]): Promise<Rendered> {
  const objects = await rendered('--set=prometheusRule.enabled=true', ...args);
  const rule = objects.find(({ kind }) => kind === 'PrometheusRule');
  if (rule === undefined) throw new Error('the chart has no PrometheusRule');
  return rule;
}

/** Everything that a value can turn on, turned on. */
export const allOn = [
  '--set=insecureRegistries.enabled=true',
  '--set=serviceMonitor.enabled=true',
  '--set=podMonitor.enabled=true',
  '--set=prometheusRule.enabled=true',
  '--set=vmMetrics.enabled=true',
  '--set=dashboards.enabled=true',
  '--set=tracing.endpoint=https://otel.example.com:4318',
  '--set=tracing.headersSecret.name=otel-headers',
  '--set=tracing.caConfigMap.name=otel-ca',
  '--set=api.ingress.enabled=true',
  '--set=api.ingress.hosts={vms.example.com}',
  '--set=api.gateway.enabled=true',
  '--set=api.gateway.route=HTTPRoute',
  '--set=api.gateway.hostnames={vms.example.com}',
  '--set=api.gateway.parentRefs[0].name=public',
  '--set=api.gateway.caConfigMap=svc3-ca',
  '--set=api.service.type=NodePort',
  '--set=api.service.nodePort=30443',
  '--set=image.pullSecrets[0].name=mine',
  '--set=operator.nodeSelector.disk=ssd',
  '--set=operator.priorityClassName=system-cluster-critical',
];
