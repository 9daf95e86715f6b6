/**
 * `npm run bench [-- NAME…]`: without names all of them, one after the other. Ends with 1 where a limit is missed. Each does
 * its own set-up and leaves nothing behind but `bench-results/NAME.json`.
 */
import { delimiter } from 'node:path';
import { ensureQemu, qemuFolder } from '../support/qemu.ts';
import { type Benchmark, report } from './figures.ts';

/** Loaded when they are needed: most of them bring in half of the product. */
const benchmarks: Record<string, () => Promise<{ benchmark: Benchmark }>> = {
  placement: () => import('./placement.ts'),
  credential: () => import('./credential.ts'),
  operator: () => import('./operator.ts'),
  writes: () => import('./writes.ts'),
  vmrate: () => import('./vmrate.ts'),
  pool: () => import('./pool.ts'),
  http: () => import('./http.ts'),
  gpu: () => import('./gpu.ts'),
  image: () => import('./image.ts'),
  absorb: () => import('./absorb.ts'),
  boot: () => import('./boot.ts'),
  verbs: () => import('./verbs.ts'),
  warm: () => import('./warm.ts'),
  warmvms: () => import('./warmvms.ts'),
  network: () => import('./network.ts'),
  fairness: () => import('./fairness.ts'),
  page: () => import('./page.ts'),
  scrape: () => import('./scrape.ts'),
};

async function help(): Promise<string> {
  const lines = ['usage: npm run bench [-- NAME…]', ''];
  for (const [name, load] of Object.entries(benchmarks)) {
    const { about, settings = {} } = (await load()).benchmark;
    lines.push(`  ${name.padEnd(12)}${about}`);
    for (const [variable, meaning] of Object.entries(settings)) {
      lines.push(`  ${''.padEnd(12)}  ${variable}: ${meaning}`);
    }
  }
  return lines.join('\n');
}

async function main(names: readonly string[]): Promise<number> {
  if (names.some((name) => name === '--help' || name === '-h')) {
    console.log(await help());
    return 0;
  }
  const unknown = names.find((name) => !Object.hasOwn(benchmarks, name));
  if (unknown !== undefined) {
    console.error(`there is no benchmark ${unknown}; there are ${Object.keys(benchmarks).join(', ')}`);
    return 2;
  }
  // The peers run beside VMs of the cluster: on the same QEMU.
  await ensureQemu((line) => console.error(line));
  process.env['PATH'] = `${qemuFolder}${delimiter}${process.env['PATH'] ?? ''}`;
  let kept = true;
  for (const [name, load] of Object.entries(benchmarks)) {
    if (names.length > 0 && !names.includes(name)) continue;
    const began = performance.now();
    const { rows, figures } = await (await load()).benchmark.measure();
    kept = report(name, rows, figures) && kept;
    console.log(`${name} took ${Math.round((performance.now() - began) / 1000)} s`);
  }
  return kept ? 0 : 1;
}

try {
  process.exit(await main(process.argv.slice(2)));
} catch (error) {
  console.error(error);
  process.exit(1);
}
