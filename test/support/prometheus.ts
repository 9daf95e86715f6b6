/** A real Prometheus for tests, from the Debian package of this machine's release: unpacked, never installed. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text as textOf } from 'node:stream/consumers';
import { stringify } from 'yaml';
import { freePorts } from '../../src/localcluster/controlplane/ports.ts';
import { debianPrograms } from './debianprogram.ts';

/** The path of one of its programs. */
export async function prometheusProgram(name: 'prometheus' | 'promtool'): Promise<string> {
  return join(await debianPrograms('prometheus'), name);
}

/** What promtool finds fault with in metrics as they are served: nothing, where all is well. */
export async function faultsOfMetrics(text: string): Promise<string> {
  const promtool = spawn(await prometheusProgram('promtool'), ['check', 'metrics'], { stdio: 'pipe' });
  promtool.stdin.end(text);
  const said = textOf(promtool.stderr);
  const [code] = (await once(promtool, 'exit')) as [number];
  return code === 0 ? await said : `ended with ${code}: ${await said}`;
}

export interface ScrapedTarget {
  /** `host:port` */
  readonly address: string;
  readonly job: string;
  readonly labels?: Readonly<Record<string, string>>;
  /** Further settings of the scrape job. */
  readonly settings?: Readonly<Record<string, unknown>>;
}

export interface PrometheusOptions {
  readonly targets?: readonly ScrapedTarget[];
  /** Further scrape jobs, in its own words. */
  readonly jobs?: readonly object[];
  /** `spec` of a PrometheusRule, word for word. */
  readonly rules?: object;
}

export interface Prometheus {
  /** Names of the alerts that fire. */
  firing(): Promise<string[]>;
  /** The result of an instant query. Rejects with what Prometheus says of a query that it cannot read. */
  query(text: string): Promise<{ metric: Record<string, string>; value: [number, string] }[]>;
  stop(): Promise<void>;
}

/** Starts one that scrapes the targets, and looks at the rules, once a second. */
export async function startPrometheus({
  targets = [],
  jobs = [],
  rules,
}: PrometheusOptions): Promise<Prometheus> {
  const program = await prometheusProgram('prometheus');
  const home = await mkdtemp(join(tmpdir(), 'svc3-prometheus-'));
  const [port] = (await freePorts(1)) as [number];
  const settings = {
    global: { scrape_interval: '1s', scrape_timeout: '1s', evaluation_interval: '1s' },
    ...(rules === undefined ? {} : { rule_files: [join(home, 'rules.yml')] }),
    scrape_configs: [
      ...jobs,
      ...targets.map(({ address, job, labels = {}, settings: more = {} }) => ({
        job_name: job,
        ...more,
        static_configs: [{ targets: [address], labels }],
      })),
    ],
  };
  await writeFile(join(home, 'prometheus.yml'), stringify(settings));
  if (rules !== undefined) await writeFile(join(home, 'rules.yml'), stringify(rules));
  const child = spawn(
    program,
    [
      `--config.file=${join(home, 'prometheus.yml')}`,
      `--storage.tsdb.path=${join(home, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
      '--query.lookback-delta=10s',
    ],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  );
  const base = `http://127.0.0.1:${port}`;
  await untilReady(child, base);
  const ask = async <T>(path: string): Promise<T> => {
    const reply = (await (await fetch(`${base}/api/v1/${path}`)).json()) as { data: T; error?: string };
    if (reply.error !== undefined) throw new Error(reply.error);
    return reply.data;
  };
  return {
    async firing() {
      const { alerts } = await ask<{ alerts: { state: string; labels: { alertname: string } }[] }>('alerts');
      return alerts.filter(({ state }) => state === 'firing').map(({ labels }) => labels.alertname);
    },
    async query(text) {
      const path = `query?query=${encodeURIComponent(text)}`;
      return (await ask<{ result: Awaited<ReturnType<Prometheus['query']>> }>(path)).result;
    },
    async stop() {
      if (child.exitCode === null) {
        const ended = once(child, 'exit');
        child.kill('SIGKILL');
        await ended;
      }
      await rm(home, { recursive: true, force: true });
    },
  };
}

async function untilReady(child: ChildProcess, base: string): Promise<void> {
  let said = '';
  child.stderr?.on('data', (chunk: Buffer) => {
    said = (said + chunk.toString()).slice(-4_000);
  });
  for (;;) {
    if (child.exitCode !== null) throw new Error(`Prometheus ended: ${said}`);
    const isReady = await fetch(`${base}/-/ready`).then(
      ({ ok }) => ok,
      () => false,
    );
    if (isReady) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
