import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type ControlPlane,
  type ControlPlaneOptions,
  startControlPlane,
} from '../../src/localcluster/controlplane/controlplane.ts';
import type { ToolGroupName } from '../../src/localcluster/host/toolgroups.ts';
import { type Tools, buildTools, cacheRoot } from '../../src/localcluster/host/tools.ts';

/** The pinned tools of these groups; built first when they are not in the cache yet. */
export async function ensureTools(...groups: ToolGroupName[]): Promise<Tools> {
  const progress = (line: string) => void process.stderr.write(`${line}\n`);
  return buildTools(groups, { cacheDir: cacheRoot(process.env, homedir()), progress });
}

/**
 * A new folder below the system's one for temporary files, removed at the latest when this process exits. It is named
 * after the process, so that the next run can tell what a killed one left.
 */
export function temporaryFolder(): string {
  removeLeftovers();
  const dir = mkdtempSync(join(tmpdir(), `${prefix}${process.pid}-`));
  folders.add(dir);
  return dir;
}

const folders = new Set<string>();
process.once('exit', () => folders.forEach(removeFolder));

function removeFolder(dir: string): void {
  folders.delete(dir);
  rmSync(dir, { recursive: true, force: true, maxRetries: 5 });
}

export interface OwnControlPlane extends ControlPlane {
  /** Stops it and removes its folder. */
  remove(): Promise<void>;
}

/** A control plane for one test file that does things to it which others must not see. */
export async function ownControlPlane(
  options: Omit<ControlPlaneOptions, 'dir' | 'tools'> = {},
): Promise<OwnControlPlane> {
  const tools = await ensureTools('controlplane');
  const dir = temporaryFolder();
  try {
    const controlPlane = await startControlPlane({ ...options, dir, tools });
    return {
      ...controlPlane,
      async remove() {
        // Nothing of it is kept, so nobody waits for it to put things in order.
        await controlPlane.stop(0);
        removeFolder(dir);
      },
    };
  } catch (error) {
    removeFolder(dir);
    throw error;
  }
}

const prefix = 'svc3-test-';

/** Folders of test runs that were killed: their processes died with them, their files did not. */
function removeLeftovers(): void {
  for (const name of readdirSync(tmpdir())) {
    const pid = Number(name.match(`^${prefix}(\\d+)-`)?.[1]);
    if (pid > 0 && !isAlive(pid)) rmSync(join(tmpdir(), name), { recursive: true, force: true });
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
