/** Whatever a supervisor that did not end by itself leaves behind. */
import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { messageOf } from '../../errors.ts';
import {
  cgroupOf,
  cgroupProcesses,
  type ClusterIdentity,
  hierarchies,
  removeCgroups,
} from '../shared/cgroup.ts';

/** What an earlier supervisor that was killed may have left: ends processes in our cgroups and removes these. */
export async function sweep(cluster: ClusterIdentity): Promise<void> {
  const deadline = performance.now() + 10_000;
  for (;;) {
    const left = await cgroupProcesses(cluster);
    if (left.length === 0 || performance.now() > deadline) break;
    for (const pid of left)
      try {
        process.kill(pid, 'SIGKILL');
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ESRCH')
          throw new Error(messageOf(error), { cause: error });
      }
    await delay(50);
  }
  await removeCgroups(cluster);
}

/** Removes the cgroups when this process has died without doing it: it waits for the end of a pipe from here. */
export async function startJanitor(cluster: ClusterIdentity): Promise<ChildProcess> {
  const folders = (await hierarchies()).map((hierarchy) => join(hierarchy, cgroupOf(cluster)));
  const script = `
    cat > /dev/null
    for attempt in $(seq 200); do
      left=
      for folder; do [ ! -d "$folder" ] || { left=yes; find "$folder" -depth -type d -exec rmdir {} \\; 2> /dev/null; }; done
      [ "$left" ] || exit 0
      sleep 0.1
    done`;
  return spawn('sh', ['-c', script, 'svc3-janitor', ...folders], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
}
