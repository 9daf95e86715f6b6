/** The cluster of a run: three nodes, made for it and taken away with it. */
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { cgroupOf, hierarchies } from '../../src/localcluster/shared/cgroup.ts';
import { down, up } from '../../src/localcluster/cluster/cluster.ts';
import { ensurePackages } from '../../src/localcluster/images/debian.ts';
import { type Places, placesOf, readReport } from '../../src/localcluster/shared/state.ts';
import { removeInterruptedClusters } from '../support/interruptedclusters.ts';

const nodes = 3;

export interface LocalCluster {
  readonly places: Places;
  remove(): Promise<void>;
}

/** @param running - a cluster that is used as it is, and left */
export async function bringUp(
  kind: 'chaos' | 'soak',
  running: string | undefined,
  signal: AbortSignal,
): Promise<LocalCluster> {
  const progress = (line: string): void => console.error(line);
  const also = { sshpass: 'sshpass', ssh: 'openssh-client', 'qemu-img': 'qemu-utils' };
  await ensurePackages(process.env['PATH'] ?? '', progress, { signal, also });
  const places = placesOf(running ?? `${kind}-${process.pid}`, process.env, homedir());
  await removeInterruptedClusters();
  const remove = async (): Promise<void> => {
    if (running === undefined) await down(places, { purge: true });
  };
  try {
    await up({ places, nodes, bound: running === undefined, signal, progress });
    const report = await readReport(places);
    if (report?.nodes !== nodes) throw new Error(`the cluster ${places.name} does not have ${nodes} nodes`);
    await giveWeight(places);
  } catch (error) {
    await remove();
    throw error;
  }
  return { places, remove };
}

/**
 * On a machine that others use too all pods of the cluster together would have the weight of one process: they get that of a
 * few, or whatever is seen is only that they starve.
 */
async function giveWeight(places: Places): Promise<void> {
  const weights = { 'cpu.shares': '8192', 'cpu.weight': '800' };
  for (const hierarchy of await hierarchies())
    for (const [file, weight] of Object.entries(weights)) {
      const path = join(hierarchy, cgroupOf(places), file);
      if (existsSync(path)) await writeFile(path, weight);
    }
}
