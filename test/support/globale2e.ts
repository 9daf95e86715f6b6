import { homedir } from 'node:os';
import type { TestProject } from 'vitest/node';
import { removeInterruptedClusters } from './interruptedclusters.ts';
import { sourcesHash } from './sources.ts';
import { down, up } from '../../src/localcluster/cluster/cluster.ts';
import { placesOf } from '../../src/localcluster/shared/state.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    e2eCluster: string;
    /** Hash of what the cluster's software was made of. */
    e2eSources: string;
  }
}

/**
 * One full cluster with svc3 in it for all e2e tests of a run. `SVC3_E2E_CLUSTER` names one that runs already. A run that
 * is interrupted takes its clusters along; the next one takes what is left of their state away.
 */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const running = process.env['SVC3_E2E_CLUSTER'] || undefined;
  const name = running ?? `e2e-${process.pid}`;
  const places = placesOf(name, process.env, homedir());
  project.provide('e2eCluster', name);
  const signal = new AbortController().signal;
  const progress = (line: string): void => console.error(line);
  project.provide('e2eSources', await sourcesHash());
  await removeInterruptedClusters();
  const addons = { dns: true, metrics: true, networkPolicies: true };
  await up({
    places,
    nodes: 2,
    gpuPassthrough: true,
    addons,
    bound: running === undefined,
    signal,
    progress,
  });
  return async () => {
    if (running === undefined) await down(places, { purge: true });
  };
}
