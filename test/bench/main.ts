/**
 * `npm run bench [-- NAME…]`: without names all of them, one after the other. Ends with 1 where a limit is missed. Each does
 * its own set-up and leaves nothing behind but `bench-results/NAME.json`.
 */
import { execFileSync } from 'node:child_process';
import { availableParallelism, loadavg } from 'node:os';
import { delimiter } from 'node:path';
import { ensureTestPackages } from '../support/packages.ts';
import { qemuFolder } from '../support/qemu.ts';
import { type Benchmark, report, type Setting } from './figures.ts';

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

/** What the machine was like when a benchmark began: a load of much more than 0 shows in every figure. */
function settingNow(): Omit<Setting, 'seconds'> {
  const commit = execFileSync('git', ['describe', '--always', '--dirty'], {
    cwd: import.meta.dirname,
    encoding: 'utf8',
  });
  return {
    at: new Date().toISOString(),
    commit: commit.trim(),
    processors: availableParallelism(),
    load: loadavg()[0] ?? Number.NaN,
  };
}

async function help(): Promise<string> {
  const lines = ['usage: npm run bench [-- NAME…]', ''];
  for (const [name, load] of Object.entries(benchmarks)) {
    const { about, settings = {} } = (await load()).benchmark;
    lines.push(`  ${name.padEnd(12)}${about}`);
    for (const [variable, meaning] of Object.entries(settings))
      lines.push(`  ${''.padEnd(12)}  ${variable}: ${meaning}`);
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
  await ensureTestPackages((line) => console.error(line));
  process.env['PATH'] = `${qemuFolder}${delimiter}${process.env['PATH'] ?? ''}`;
  let kept = true;
  for (const [name, load] of Object.entries(benchmarks)) {
    if (names.length > 0 && !names.includes(name)) continue;
    const setting = settingNow();
    const began = performance.now();
    const outcome = await (await load()).benchmark.measure();
    const seconds = Math.round((performance.now() - began) / 1000);
    kept = report(name, outcome, { ...setting, seconds }) && kept;
    console.log(`${name} took ${seconds} s`);
  }
  return kept ? 0 : 1;
}

try {
  process.exit(await main(process.argv.slice(2)));
} catch (error) {
  console.error(error);
  process.exit(1);
}
