import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname } from 'node:path';
import { down } from '../../src/localcluster/cluster/cluster.ts';
import { placesOf } from '../../src/localcluster/shared/state.ts';

/** Takes away what local clusters of tests have left whose process was killed: they are named after it. */
export async function removeInterruptedClusters(): Promise<void> {
  const states = dirname(placesOf('any', process.env, homedir()).state);
  for (const name of existsSync(states) ? await readdir(states) : []) {
    const pid = /^(?:e2e|beside|gpu|chaos|soak|install)-(\d+)$/.exec(name)?.[1];
    if (pid === undefined || existsSync(`/proc/${pid}`)) continue;
    await down(placesOf(name, process.env, homedir()), { purge: true });
  }
}
