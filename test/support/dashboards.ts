import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Prometheus } from './prometheus.ts';

interface Dashboard {
  readonly templating: {
    readonly list: readonly {
      readonly name: string;
      readonly type: string;
      readonly query: { readonly query: string };
    }[];
  };
  readonly panels: readonly {
    readonly title: string;
    readonly targets: readonly { readonly expr: string }[];
  }[];
}

/** A variable that Grafana fills with the values of a label. */
interface Variable {
  readonly label: string;
  /** Whose series have it. */
  readonly query: string;
  /** The value that the caller gave. */
  readonly value: string;
}

/** The queries of one of the chart's dashboards, with these values for its variables, as Grafana sends them. */
export function dashboard(
  name: string,
  values: Readonly<Record<string, string>>,
): { queries: string[]; variables: Variable[] } {
  const path = join(import.meta.dirname, `../../charts/svc3/files/dashboards/${name}.json`);
  const { panels, templating } = JSON.parse(readFileSync(path, 'utf8')) as Dashboard;
  const filled = (query: string) =>
    Object.entries({ ...values, __rate_interval: '15s' }).reduce(
      (text, [variable, value]) => text.replaceAll(`$${variable}`, value),
      query,
    );
  const variables = templating.list
    .filter(({ type }) => type === 'query')
    .map(({ name: variable, query: { query } }) => {
      const [, series = '', label = ''] = /^label_values\((.*), (\w+)\)$/.exec(query) ?? [];
      return { label, query: filled(series), value: values[variable] ?? '' };
    });
  return { queries: panels.flatMap(({ targets }) => targets.map(({ expr }) => filled(expr))), variables };
}

/**
 * Those of the queries that have no data: no series, or none with a number. `NaN`, as of a quotient of nothing by nothing, is a gap in Grafana.
 * Rejects where Prometheus cannot read one.
 */
export async function withoutData(
  prometheus: Pick<Prometheus, 'query'>,
  queries: readonly string[],
): Promise<string[]> {
  const results = await Promise.all(queries.map((query) => prometheus.query(query)));
  return queries.filter(
    (_, i) => !results[i]?.some(({ value: [, value] }) => Number.isFinite(Number(value))),
  );
}
