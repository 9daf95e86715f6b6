import { Histogram, type MetricObjectWithValues, type MetricValueWithName } from 'prom-client';
import type { Registry } from 'prom-client';

interface Cell {
  /** By bucket, those below not included. */
  readonly counts: number[];
  sum: number;
  count: number;
}

export interface DurationsOptions {
  readonly name: string;
  readonly help: string;
  readonly label: string;
  /** Upper bounds in seconds, ascending. */
  readonly buckets: readonly number[];
  readonly registry: Registry;
}

/**
 * A histogram of seconds by one label. To add one costs an addition: prom-client's own checks, copies and hashes the labels
 * each time, which shows where there are thousands in a second.
 */
export class Durations extends Histogram {
  readonly #options: DurationsOptions;
  readonly #cells = new Map<string, Cell>();

  constructor(options: DurationsOptions) {
    const { name, help, label, buckets, registry } = options;
    super({ name, help, labelNames: [label], buckets: [...buckets], registers: [registry] });
    this.#options = options;
  }

  add(label: string, seconds: number): void {
    const { buckets } = this.#options;
    let cell = this.#cells.get(label);
    if (cell === undefined) {
      cell = { counts: Array.from(buckets, () => 0), sum: 0, count: 0 };
      this.#cells.set(label, cell);
    }
    cell.sum += seconds;
    cell.count += 1;
    for (let i = 0; i < buckets.length; i += 1)
      if (seconds <= (buckets[i] as number)) {
        cell.counts[i] = (cell.counts[i] as number) + 1;
        return;
      }
  }

  override get(): Promise<MetricObjectWithValues<MetricValueWithName<string>>> {
    const { name, help } = this.#options;
    const values = [...this.#cells].flatMap(([label, cell]) => this.#valuesOf(label, cell));
    // The type `histogram` is a number in the typings and a word everywhere else.
    return Promise.resolve({ name, help, type: 'histogram', values, aggregator: 'sum' } as never);
  }

  /** What a registry asks for where it is there. */
  getForPromString(): Promise<MetricObjectWithValues<MetricValueWithName<string>>> {
    return this.get();
  }

  #valuesOf(text: string, { counts, sum, count }: Cell): MetricValueWithName<string>[] {
    const { name, label, buckets } = this.#options;
    const labels = { [label]: text };
    let below = 0;
    const bounded = buckets.map((bound, i) => {
      below += counts[i] as number;
      return { metricName: `${name}_bucket`, labels: { le: bound, ...labels }, value: below };
    });
    return [
      ...bounded,
      { metricName: `${name}_bucket`, labels: { le: '+Inf', ...labels }, value: count },
      { metricName: `${name}_sum`, labels, value: sum },
      { metricName: `${name}_count`, labels, value: count },
    ];
  }
}
