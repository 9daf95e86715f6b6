import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { run } from '../../../src/localcluster/host/command.ts';
import { createMetrics } from '../../../src/telemetry.ts';
import { faultsOfMetrics, prometheusProgram } from '../../support/prometheus.ts';
import { type Rendered, rendered, renderedRules } from './helm.ts';

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly for?: string;
  readonly annotations: Record<string, string>;
}

function rulesOf({ spec }: Rendered): readonly Rule[] {
  return (spec as unknown as { groups: { rules: Rule[] }[] }).groups.flatMap((group) => group.rules);
}

test('dashboards are ConfigMaps that the sidecar of Grafana finds, where they are wanted', async () => {
  const configMaps = async (...args: string[]) =>
    (await rendered(...args)).filter(({ metadata }) => metadata.name.startsWith('svc3-dashboard-'));
  expect(await configMaps()).toEqual([]);
  const made = await configMaps('--set=dashboards.enabled=true');
  expect(made.map(({ metadata }) => [metadata.name, metadata.labels?.['grafana_dashboard']])).toEqual([
    ['svc3-dashboard-fleet', '1'],
    ['svc3-dashboard-vm', '1'],
  ]);
  const titles = made.map(
    ({ data = {} }) => (JSON.parse(Object.values(data)[0] ?? '') as { title: string }).title,
  );
  expect(titles).toEqual(['svc3 / fleet', 'svc3 / VM']);
});

describe('metrics of VMs', () => {
  const on = '--set=vmMetrics.enabled=true';

  test('are off by default: no rights, no ports, no monitors', async () => {
    const objects = await rendered();
    expect(JSON.stringify(objects)).not.toContain('svc3-vm-metrics');
    expect(objects.map(({ kind }) => kind)).not.toContain('PodMonitor');
    expect(objects.find(({ metadata }) => metadata.name === 'svc3-settings')?.data).toHaveProperty(
      'SVC3_VM_METRICS',
      'false',
    );
  });

  test('are read with the token of the namespace, under the labels of the pod', async () => {
    const objects = await rendered(on, '--set=vmMetrics.namespaces={team-a}');
    const monitors = objects.filter(({ kind }) => kind === 'PodMonitor');
    expect(monitors.map(({ metadata }) => metadata.namespace)).toEqual(['svc3-default', 'team-a']);
    expect(monitors[0]?.spec).toMatchObject({
      sampleLimit: 100,
      labelLimit: 20,
      bodySizeLimit: '64KiB',
      podMetricsEndpoints: [
        {
          port: 'metrics',
          interval: '30s',
          scrapeTimeout: '10s',
          followRedirects: false,
          honorLabels: false,
          honorTimestamps: false,
          scheme: 'https',
          authorization: { credentials: { name: 'svc3-vm-metrics', key: 'token' } },
        },
      ],
    });
  });

  test('have the VM and the node of their pod as labels', async () => {
    const monitor = (await rendered(on)).find(({ kind }) => kind === 'PodMonitor');
    const { podMetricsEndpoints: [{ relabelings = [] } = {}] = [] } = (monitor?.spec ?? {}) as {
      podMetricsEndpoints?: { relabelings?: object[] }[];
    };
    expect(relabelings).toEqual([
      { sourceLabels: ['__meta_kubernetes_pod_controller_kind'], regex: 'VM', action: 'keep' },
      { sourceLabels: ['__meta_kubernetes_pod_controller_name'], targetLabel: 'vm', action: 'replace' },
      { sourceLabels: ['__meta_kubernetes_pod_node_name'], targetLabel: 'node', action: 'replace' },
    ]);
  });

  test.each([
    ['3s', '3s'],
    ['500ms', '500ms'],
    ['1m', '10s'],
    ['4m', '10s'],
  ])('that are read every %s are waited for for %s', async (interval, timeout) => {
    const objects = await rendered(on, `--set=vmMetrics.interval=${interval}`);
    const spec = objects.find(({ kind }) => kind === 'PodMonitor')?.spec;
    expect(spec).toMatchObject({ podMetricsEndpoints: [{ interval, scrapeTimeout: timeout }] });
  });

  test('are let through by the policy of VMs, for whom the values say', async () => {
    const peer = { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'monitoring' } } };
    const ingress = async (...args: string[]) => {
      const policy = (await rendered(...args)).find(
        ({ kind, metadata }) => kind === 'NetworkPolicy' && metadata.name === 'svc3-vms',
      );
      const { ingress: rows = [] } = (policy?.spec ?? {}) as { ingress?: object[] };
      return rows.slice(1);
    };
    const ports = [{ port: 8444, protocol: 'TCP' }];
    expect(await ingress()).toEqual([]);
    expect(await ingress(on)).toEqual([{ ports }]);
    expect(await ingress(on, `--set-json=vmMetrics.from=${JSON.stringify([peer])}`)).toEqual([
      { ports, from: [peer] },
    ]);
  });
});

describe('the PrometheusRule of the chart', () => {
  test('is none by default', async () => {
    expect((await rendered()).map(({ kind }) => kind)).not.toContain('PrometheusRule');
  });

  test('has nothing that promtool finds fault with', async ({ onTestFinished }) => {
    const home = await mkdtemp(join(tmpdir(), 'svc3-rules-'));
    onTestFinished(() => rm(home, { recursive: true }));
    const file = join(home, 'rules.yml');
    await writeFile(file, stringify((await renderedRules()).spec));
    expect(await run(await prometheusProgram('promtool'), ['check', 'rules', file])).toContain('SUCCESS');
  });

  test('takes times and the place of the runbooks from the values', async () => {
    const all = rulesOf(
      await renderedRules(
        '--set=prometheusRule.times.Svc3VMUnschedulable=2h',
        '--set=prometheusRule.times.Svc3OperatorDown=90s',
        '--set=prometheusRule.runbooks=https://docs.example.com/runbooks/',
      ),
    );
    const named = (name: string) => all.find(({ alert }) => alert === name);
    expect(named('Svc3VMUnschedulable')?.expr).toMatch(/ > 7200\) <= .* offset 7200s\)/);
    expect(named('Svc3VMUnschedulable')).not.toHaveProperty('for');
    expect(named('Svc3OperatorDown')).toMatchObject({
      for: '90s',
      annotations: { runbook_url: 'https://docs.example.com/runbooks/Svc3OperatorDown.md' },
    });
  });

  test('refuses times that it cannot read', async () => {
    await expect(renderedRules('--set=prometheusRule.times.Svc3OperatorDown=5 minutes')).rejects.toThrow(
      "at '/prometheusRule/times/Svc3OperatorDown'",
    );
  });
});

test('promtool finds no fault with what every process serves', async () => {
  const { registry, controllers, kubeCall, eventDropped } = createMetrics();
  controllers.reconciled('vm', 'done');
  controllers.workqueue('vm', { depth: () => 1, adds: () => 1, retries: () => 1, takenAt: () => [] });
  controllers.queued('vm', 1);
  controllers.worked('vm', 1);
  kubeCall({ method: 'GET', code: 200, durationMs: 3 });
  eventDropped('queue');
  expect(await faultsOfMetrics(await registry.metrics())).toBe('');
});

test('monitors leave the labels of the metrics as they are: namespace is that of the VM', async () => {
  const objects = await rendered('--set=serviceMonitor.enabled=true', '--set=podMonitor.enabled=true');
  const monitors = objects.filter(({ kind }) => kind.endsWith('Monitor'));
  expect(monitors).toHaveLength(6);
  for (const { spec } of monitors) {
    const { endpoints, podMetricsEndpoints = endpoints } = spec as unknown as Record<
      'endpoints' | 'podMetricsEndpoints',
      { honorLabels?: boolean }[] | undefined
    >;
    expect(podMetricsEndpoints).toEqual([expect.objectContaining({ honorLabels: true })]);
  }
});
