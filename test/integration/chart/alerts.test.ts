import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { freePorts } from '../../../src/localcluster/controlplane/ports.ts';
import { run } from '../../../src/localcluster/host/command.ts';
import { type Prometheus, prometheusProgram, startPrometheus } from '../../support/prometheus.ts';
import { slow, type VmNamespace, type VmWorld, vmWorld } from '../vm/harness.ts';
import { type Rendered, rendered } from './helm.ts';

const program = join(import.meta.dirname, '../../../src/bin/operator.ts');

async function rules(...args: string[]): Promise<Rendered> {
  const objects = await rendered('--set=prometheusRule.enabled=true', ...args);
  const rule = objects.find(({ kind }) => kind === 'PrometheusRule');
  if (rule === undefined) throw new Error('the chart has no PrometheusRule');
  return rule;
}

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly for?: string;
  readonly annotations: Record<string, string>;
}

function rulesOf({ spec }: Rendered): readonly Rule[] {
  return (spec as unknown as { groups: { rules: Rule[] }[] }).groups.flatMap((group) => group.rules);
}

describe('the PrometheusRule of the chart', () => {
  test('is none by default', async () => {
    expect((await rendered()).map(({ kind }) => kind)).not.toContain('PrometheusRule');
  });

  test('has nothing that promtool finds fault with', async ({ onTestFinished }) => {
    const home = await mkdtemp(join(tmpdir(), 'svc3-rules-'));
    onTestFinished(() => rm(home, { recursive: true }));
    const file = join(home, 'rules.yml');
    await writeFile(file, stringify((await rules()).spec));
    expect(await run(await prometheusProgram('promtool'), ['check', 'rules', file])).toContain('SUCCESS');
  });

  test('takes times and the place of the runbooks from the values', async () => {
    const all = rulesOf(
      await rules(
        '--set=prometheusRule.times.Svc3VMUnschedulable=2h',
        '--set=prometheusRule.times.Svc3OperatorDown=90s',
        '--set=prometheusRule.runbooks=https://docs.example.com/runbooks/',
      ),
    );
    const named = (name: string) => all.find(({ alert }) => alert === name);
    expect(named('Svc3VMUnschedulable')?.expr).toMatch(/ > 7200$/);
    expect(named('Svc3VMUnschedulable')).not.toHaveProperty('for');
    expect(named('Svc3OperatorDown')).toMatchObject({
      for: '90s',
      annotations: { runbook_url: 'https://docs.example.com/runbooks/Svc3OperatorDown.md' },
    });
  });

  test('refuses times that it cannot read', async () => {
    await expect(rules('--set=prometheusRule.times.Svc3OperatorDown=5 minutes')).rejects.toThrow(
      "at '/prometheusRule/times/Svc3OperatorDown'",
    );
  });
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

describe('alerts on a real operator, kube-apiserver and Prometheus', () => {
  let world: VmWorld;
  let space: VmNamespace;
  let operator: ChildProcess;
  let prometheus: Prometheus;

  beforeAll(async () => {
    world = await vmWorld();
    space = await world.namespace('alerts');
    for (const name of ['svc3-system', 'svc3-credentials', 'svc3-node']) await world.namespace(name);
    const [port] = (await freePorts(1)) as [number];
    operator = spawn(process.execPath, [program], {
      stdio: 'ignore',
      env: {
        PATH: process.env['PATH'],
        KUBECONFIG: world.controlPlane.kubeconfigPath,
        POD_NAME: 'operator-a',
        SVC3_RUNNER_IMAGE: 'registry.example.com/svc3-runner:1',
        SVC3_HEALTH_HOST: '127.0.0.1',
        SVC3_HEALTH_PORT: `${port}`,
      },
    });
    const times = ['Svc3VMUnschedulable', 'Svc3OperatorDown', 'Svc3APIDown'];
    const { spec } = await rules(...times.map((name) => `--set=prometheusRule.times.${name}=1s`));
    prometheus = await startPrometheus({
      rules: spec as object,
      targets: [
        {
          address: `127.0.0.1:${port}`,
          job: 'svc3-operator',
          // As the Prometheus operator labels a target.
          labels: { namespace: 'svc3-system', pod: 'operator-a' },
          settings: { honor_labels: true },
        },
      ],
    });
  });

  afterAll(async () => {
    await prometheus?.stop();
    operator?.kill('SIGKILL');
    await world?.stop();
  });

  const firing = () => prometheus.firing();

  test('one that no node fits fires, with the namespace, until a node is there', async () => {
    await space.deploy('waiting', { image: `127.0.0.1:1/debian@sha256:${'0'.repeat(64)}` });
    await space.until('waiting', 'Scheduled', { reason: 'Unschedulable' });
    await expect.poll(firing, slow).toContain('Svc3VMUnschedulable');
    const alerts = await prometheus.query('ALERTS{alertname="Svc3VMUnschedulable"}');
    expect(alerts.map(({ metric }) => metric['namespace'])).toEqual(['alerts']);
    await world.kubelet.addNode({ name: 'n1' });
    await space.untilReady('waiting');
    await expect.poll(firing, slow).not.toContain('Svc3VMUnschedulable');
    expect(await prometheus.query('sum(svc3_placements_total{result="placed"})')).toMatchObject([
      { value: [expect.anything(), '1'] },
    ]);
  });

  test('one for what is down fires when it is, and not before', async () => {
    expect(await firing()).not.toContain('Svc3OperatorDown');
    // None runs in this test.
    await expect.poll(firing, slow).toContain('Svc3APIDown');
    operator.kill('SIGTERM');
    await once(operator, 'exit');
    await expect.poll(firing, slow).toContain('Svc3OperatorDown');
  });
});
