/** The cgroup parents of a cluster: one folder per controller, made before the nodes start and removed with them. */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readFile, readdir, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Svc3Error } from '../../errors.ts';
import type { Places } from './state.ts';

/** What tells a cluster from all others of the machine: two users may give the same name. */
export type ClusterIdentity = Pick<Places, 'name' | 'state'>;

/** Path of a cluster's cgroup below every controller. */
export function cgroupOf({ name, state }: ClusterIdentity): string {
  return `svc3-${name}-${createHash('sha256').update(state).digest('hex').slice(0, 8)}`;
}

/** Mount points of all cgroup hierarchies, version 1 and 2. */
export async function hierarchies(): Promise<string[]> {
  const mounts = await readFile('/proc/self/mounts', 'utf8');
  const points = mounts
    .split('\n')
    .map((line) => line.split(' '))
    .filter(([, , type]) => type === 'cgroup' || type === 'cgroup2')
    .map(([, point]) => point ?? '');
  return [...new Set(points)].filter((point) => point !== '');
}

/** Controllers that a kubelet wants in the folder of its node. */
const needed = ['cpu', 'cpuset', 'memory', 'pids'];

/**
 * Makes the parent and one child per node in every hierarchy; in version 1 cpusets start empty and are filled. Where there
 * is only version 2 and it does not hand on what kubelets need, one sentence says so.
 */
export async function createCgroups(cluster: ClusterIdentity, nodes: readonly string[]): Promise<void> {
  const all = await hierarchies();
  if (all.length === 0)
    throw new Svc3Error('InternalError', 'the local cluster needs cgroups, and none are mounted here');
  for (const hierarchy of all) {
    const parent = join(hierarchy, cgroupOf(cluster));
    await enableControllers(hierarchy);
    await createOne(parent, hierarchy);
    await enableControllers(parent);
    for (const node of nodes) await createOne(join(parent, node), parent);
    if (all.length === 1) await checkControllers(parent);
  }
}

/** Version 2: fails where the children of the folder do not get what a kubelet needs. */
export async function checkControllers(folder: string): Promise<void> {
  const handedOn = await readFile(join(folder, 'cgroup.subtree_control'), 'utf8').catch(() => undefined);
  if (handedOn === undefined) return;
  const missing = needed.filter((controller) => !handedOn.split(/\s+/).includes(controller));
  if (missing.length === 0) return;
  throw new Svc3Error(
    'InternalError',
    `the cgroup v2 folder ${folder} cannot hand on ${missing.join(', ')}, which the kubelets need: run it on the machine itself or in a container that all controllers are delegated to; 'svc3 dev up --control-plane' needs no cgroups`,
  );
}

async function createOne(folder: string, parent: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  for (const file of ['cpuset.cpus', 'cpuset.mems']) {
    const value = await readFile(join(parent, file), 'utf8').catch(() => '');
    const isVersion1 = existsSync(join(parent, 'cgroup.clone_children'));
    if (isVersion1 && value.trim() !== '') await writeFile(join(folder, file), value);
  }
}

/** Version 2 only: children get every controller that the folder has; one that cannot be handed on is left out. */
async function enableControllers(folder: string): Promise<void> {
  const controllers = await readFile(join(folder, 'cgroup.controllers'), 'utf8').catch(() => '');
  for (const controller of controllers.split(/\s+/).filter(Boolean))
    await writeFile(join(folder, 'cgroup.subtree_control'), `+${controller}`).catch(() => undefined);
}

/** Removes the parents with all that is in them; waits up to 10 s for processes that are still ending. */
export async function removeCgroups(cluster: ClusterIdentity): Promise<void> {
  const deadline = performance.now() + 10_000;
  for (const hierarchy of await hierarchies()) {
    const folder = join(hierarchy, cgroupOf(cluster));
    while (existsSync(folder)) {
      if (await removeTree(folder)) break;
      if (performance.now() > deadline) throw new Error(`the cgroup ${folder} still has processes`);
      await delay(50);
    }
  }
}

async function removeTree(folder: string): Promise<boolean> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  for (const entry of entries) if (entry.isDirectory()) await removeTree(join(folder, entry.name));
  return rmdir(folder).then(
    () => true,
    (error: NodeJS.ErrnoException) => error.code === 'ENOENT',
  );
}

/** Processes in the cluster's cgroups, from all hierarchies. */
export async function cgroupProcesses(cluster: ClusterIdentity): Promise<number[]> {
  const found = new Set<number>();
  const visit = async (folder: string): Promise<void> => {
    const pids = await readFile(join(folder, 'cgroup.procs'), 'utf8').catch(() => '');
    for (const pid of pids.split('\n').filter(Boolean)) found.add(Number(pid));
    const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
    for (const entry of entries) if (entry.isDirectory()) await visit(join(folder, entry.name));
  };
  for (const hierarchy of await hierarchies()) await visit(join(hierarchy, cgroupOf(cluster)));
  return [...found];
}
