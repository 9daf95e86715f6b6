/** Folders of persistent volumes. */
import { type FSWatcher, watch } from 'node:fs';
import { chmod, stat } from 'node:fs/promises';
import { join } from 'node:path';

/** kube-controller-manager makes volumes that only root can write; pods that are not root must be able to. */
export function openVolumes(folder: string): FSWatcher {
  return watch(folder, (_, name) => {
    if (name !== null) openVolume(join(folder, name)).catch(() => undefined);
  });
}

/** A change of the mode is an event of the watch too: a mode that is right already must not be set again. */
async function openVolume(path: string): Promise<void> {
  const { mode } = await stat(path);
  if ((mode & 0o777) !== 0o777) await chmod(path, 0o777);
}
