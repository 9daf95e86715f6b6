import { measureChurn } from './churn.ts';
import { report } from './figures.ts';
import { measurePlacement } from './placement.ts';

/** `npm run bench -- [name…]`: without names all of them. */
const benchmarks: Record<string, () => Promise<boolean>> = {
  async placement() {
    measurePlacement(500, 3000);
    const rows = [measurePlacement(500), measurePlacement(5000), measurePlacement(50_000)];
    const [, middle, large] = rows;
    return report('placement', rows, [
      { what: 'decision at 5,000 nodes and 50,000 VMs, µs P50', value: middle?.placeP50 ?? NaN, atMost: 50 },
      {
        what: '10 times the nodes, times the time',
        value: (large?.placeP50 ?? NaN) / (middle?.placeP50 ?? NaN),
        atMost: 2,
      },
      {
        what: '1 ÷ pod events absorbed in a second',
        value: 1 / (middle?.eventsPerSecond ?? NaN),
        atMost: 1 / 10_000,
      },
    ]);
  },
  async credential() {
    const { measureCredentials } = await import('./credential.ts');
    const figures = await measureCredentials();
    return report(
      'credential',
      [figures],
      [
        { what: 'changed password → pull Secret, ms P50', value: figures.fanOutP50, atMost: 50 },
        { what: 'changed password → pull Secret, ms P99', value: figures.fanOutP99, atMost: 250 },
        { what: '1,000 namespaces beside a bare loop', value: figures.besideBareLoop, atMost: 1.25 },
        { what: 'writes per Secret', value: figures.writesPerSecret, atMost: 1 },
        { what: 'writes when converged', value: figures.writesWhenConverged, atMost: 0 },
      ],
    );
  },
  async churn() {
    const vms = Number(process.env['SVC3_BENCH_VMS'] ?? 500);
    const figures = await measureChurn({ vms });
    return report(
      'churn',
      [figures],
      [
        { what: 'create → Running, P50 beside bare pods', value: figures.ratioP50, atMost: 1.8 },
        { what: 'create → Running, P95 beside bare pods', value: figures.ratioP95, atMost: 1.8 },
        { what: 'writes per VM', value: figures.writesPerVm, atMost: 5 },
        { what: 'CPU per VM, ms', value: figures.cpuMsPerVm, atMost: 12 },
        { what: 'RSS, MB', value: figures.rssMB, atMost: 110 },
      ],
    );
  },
};

const names = process.argv.slice(2);
let kept = true;
for (const name of names.length === 0 ? Object.keys(benchmarks) : names) {
  const benchmark = benchmarks[name];
  if (benchmark === undefined) {
    console.error(`there is no benchmark ${name}; there are ${Object.keys(benchmarks).join(', ')}`);
    process.exit(2);
  }
  kept = (await benchmark()) && kept;
}
process.exit(kept ? 0 : 1);
