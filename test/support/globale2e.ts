import { homedir } from 'node:os';
import type { TestProject } from 'vitest/node';
import { down, up } from '../../src/localcluster/cluster.ts';
import { placesOf } from '../../src/localcluster/state.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    e2eCluster: string;
  }
}

/** One full cluster with svc3 in it for all e2e tests of a run. `SVC3_E2E_CLUSTER` names one that runs already. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const running = process.env['SVC3_E2E_CLUSTER'] || undefined;
  const name = running ?? `e2e-${process.pid}`;
  const places = placesOf(name, process.env, homedir());
  project.provide('e2eCluster', name);
  const signal = new AbortController().signal;
  const progress = (line: string): void => console.error(line);
  // VMs get no GPU unless they ask for one.
  await up({ places, nodes: 2, gpuPassthrough: true, signal, progress });
  return async () => {
    if (running === undefined) await down(places, { purge: true });
  };
}
