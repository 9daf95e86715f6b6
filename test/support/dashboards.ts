import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Prometheus } from './prometheus.ts';

interface Dashboard {
  readonly panels: readonly {
    readonly title: string;
    readonly targets: readonly { readonly expr: string }[];
  }[];
}

/** The queries of one of the chart's dashboards, with these values for its variables, as Grafana sends them. */
export function dashboardQueries(name: string, variables: Readonly<Record<string, string>>): string[] {
  const path = join(import.meta.dirname, `../../charts/svc3/files/dashboards/${name}.json`);
  const { panels } = JSON.parse(readFileSync(path, 'utf8')) as Dashboard;
  const queries = panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));
  return queries.map((query) =>
    Object.entries({ ...variables, __rate_interval: '15s' }).reduce(
      (text, [variable, value]) => text.replaceAll(`$${variable}`, value),
      query,
    ),
  );
}

/** Those of the queries that have no data. Rejects where Prometheus cannot read one. */
export async function withoutData(prometheus: Prometheus, queries: readonly string[]): Promise<string[]> {
  const results = await Promise.all(queries.map((query) => prometheus.query(query)));
  return queries.filter((_, i) => results[i]?.length === 0);
}
