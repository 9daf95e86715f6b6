/** The full local cluster as a whole: up, down, status. */
import { existsSync } from 'node:fs';
import { chown, mkdir, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { invalidField } from '../../errors.ts';
import { allNodes, lossOf, maxNodes } from '../shared/addresses.ts';
import { ensurePackages } from '../images/debian.ts';
import { gpuNodeRequirements, startGpuNode } from '../gpu/gpunode.ts';
import { hashOf } from '../images/hash.ts';
import {
  type Software,
  buildSoftware,
  chartFolder,
  deliver,
  installChart,
  guestReference,
  publishApi,
} from './install.ts';
import { startDemo } from './demo.ts';
import { releaseRange, unlinkHost } from './hostlink.ts';
import { addonTools, ensureAddons } from '../addons/addons.ts';
import { createKubectl } from '../shared/kubectl.ts';
import { untilNodesReady } from './nodesready.ts';
import { type RootAnswer, callAsRoot, ensureRoot, isRoot, whileRootStays } from '../host/privilege.ts';
import { createSteps } from '../host/progress.ts';
import { withLock } from '../host/lock.ts';
import { unlessMarked } from './mark.ts';
import { findRunning } from './running.ts';
import {
  type Addons,
  type Asked,
  type Report,
  type Places,
  type Settings,
  endedComponents,
  ensureSettings,
  mergedAddons,
  readReport,
  readSettings,
} from '../shared/state.ts';
import { type Supervised, startSupervised, terminate } from './supervised.ts';
import { sweep } from './sweep.ts';
import type { ToolGroupName } from '../host/toolgroups.ts';
import { type Tools, buildTools } from '../host/tools.ts';

export const fullClusterTools: readonly ToolGroupName[] = [
  'controlplane',
  'kubelet',
  'node',
  'runc',
  'registry',
  'helm',
];

export interface UpOptions {
  readonly places: Places;
  /** Absent: as many as the last time, at first one. */
  readonly nodes?: number;
  /** Start a VM to look at. */
  readonly demo?: boolean;
  /** Allow GPU passthrough in the cluster; once asked for, it stays. */
  readonly gpuPassthrough?: boolean;
  /** One more node, emulated, with GPUs; allows GPU passthrough. */
  readonly gpuNode?: boolean;
  /** Only Kubernetes and the registry, without svc3 in it. */
  readonly bare?: boolean;
  /** What this cluster is to have beside that; once asked for, it stays. */
  readonly addons?: Partial<Addons>;
  /** False: leaves the link from the host (hostlink.ts) to other clusters. */
  readonly hostLink?: boolean;
  /** A cluster that had to be started ends with this process, however that ends. Needs root. */
  readonly bound?: boolean;
  /** PATH of the user. */
  readonly path?: string;
  readonly signal: AbortSignal;
  progress(text: string): void;
}

/** The user on whose behalf sudo was called. */
export interface Owner {
  readonly uid: number;
  readonly gid: number;
}

/** What can be started by who does not become root. */
const withoutRoot = 'use --control-plane, which needs no root';

const program = fileURLToPath(new URL('../../bin/localcluster.ts', import.meta.url));

/**
 * Brings the cluster to what is asked: starts it unless it runs, installs svc3 unless this build of it is there. False
 * when nothing was to be done. Ends a cluster that it started when that failed or `signal` aborted it; one that runs and
 * in which only svc3 failed stays to be looked at.
 */
export async function up(options: UpOptions): Promise<boolean> {
  const { places, signal } = options;
  const most = options.gpuNode === true ? maxNodes - 1 : maxNodes;
  const nodes = options.nodes ?? (await readSettings(places))?.nodes ?? 1;
  if (!Number.isInteger(nodes) || nodes < 1 || nodes > most)
    throw invalidField('nodes', `a local cluster has 1 to ${most} nodes`);
  // Before what takes a quarter of an hour the first time.
  await ensureRoot(withoutRoot);
  const tools = await whileRootStays(() => prepare(options));
  if (!isRoot())
    return crossToRoot(
      { verb: 'up', options: { ...options, bound: false, signal: undefined } },
      { ...options, instead: withoutRoot },
    );
  return withLock(lockOf(places), async () => {
    const started = await ensureRunning(options, tools);
    try {
      const installed = options.bare === true ? false : await ensureInstalled(options, tools);
      const joined = options.gpuNode === true && (await ensureGpuNode(options, tools));
      if (options.bound !== true) await started?.keep();
      return started !== undefined || installed || joined;
    } catch (error) {
      if (signal.aborted || options.bound === true) await started?.end();
      else await started?.keep();
      throw error;
    }
  });
}

/** What is needed on this machine before anything starts. */
async function prepare(options: UpOptions): Promise<Tools> {
  const { places, progress, signal } = options;
  await mkdir(places.state, { recursive: true });
  const also = options.gpuNode === true ? gpuNodeRequirements : {};
  await ensurePackages(options.path ?? process.env['PATH'] ?? '', progress, { signal, also });
  const groups = [...fullClusterTools, ...addonTools(await addonsOf(options))];
  return buildTools(groups, { cacheDir: places.cache, progress });
}

/** The cluster if it had to be started. */
async function ensureRunning(options: UpOptions, tools: Tools): Promise<Supervised | undefined> {
  if ((await findRunning(options)) !== undefined) return undefined;
  const { places, signal, progress, hostLink = true } = options;
  signal.throwIfAborted();
  const before = await readSettings(places);
  const settings = await ensureSettings(places, options.nodes, askedOf(options));
  const loss = lossOf(before?.nodes ?? 0, settings.nodes);
  if (loss !== undefined)
    progress(`${loss}: the cluster starts with ${settings.nodes} of ${before?.nodes} nodes`);
  // Heartbeats have whole seconds.
  const startedAt = Math.floor(Date.now() / 1000) * 1000;
  const supervised = await startSupervised({ places, settings, hostLink, program, signal, progress });
  try {
    const kubectl = createKubectl(tools, places.kubeconfig, signal);
    const names = allNodes(settings.nodes).map((node) => node.name);
    await createSteps(places.cache, progress).run('waiting for the nodes', () =>
      untilNodesReady(kubectl, names, startedAt, signal),
    );
    await ensureAddons(settings.addons, { places, tools, kubectl, signal, progress });
  } catch (error) {
    await supervised.end();
    throw error;
  }
  return supervised;
}

/** With those of an earlier time. */
async function addonsOf({ places, addons = {} }: UpOptions): Promise<Addons> {
  return mergedAddons((await readSettings(places))?.addons, addons);
}

async function ensureInstalled(options: UpOptions, tools: Tools): Promise<boolean> {
  const { places, signal, progress } = options;
  const steps = createSteps(places.cache, progress);
  const build = { cache: places.cache, signal, progress };
  const software = await steps.run('images and guest', (step) => buildSoftware(build, step));
  const settings = await ensureSettings(places, options.nodes, askedOf(options));
  const kubectl = createKubectl(tools, places.kubeconfig, signal);
  const installation = { places, settings, tools, kubectl, build };
  const wanted = await installationMark(software, { demo: options.demo === true, settings });
  return unlessMarked(join(places.state, 'run', 'installed'), wanted, async () => {
    await steps.run('bringing the images to the nodes', () => deliver(installation, software));
    await steps.run('installing svc3', async () => {
      await installChart(installation, software);
      await publishApi(installation);
    });
    if (options.demo === true)
      await steps.run('starting the VM demo', () =>
        startDemo({ kubectl, signal, progress }, guestReference(software.guest)),
      );
  });
}

/** Names everything that the installation is made of. */
async function installationMark(
  software: Software,
  { demo, settings }: { readonly demo: boolean; readonly settings: Settings },
): Promise<string> {
  return hashOf([chartFolder], [JSON.stringify([software, [demo, settings.gpuPassthrough]])]);
}

function askedOf({ addons, gpuPassthrough, gpuNode }: UpOptions): Asked {
  return { addons, gpuPassthrough: gpuPassthrough === true || gpuNode === true };
}

async function ensureGpuNode(options: UpOptions, tools: Tools): Promise<boolean> {
  const { places, signal, progress } = options;
  const settings = await ensureSettings(places, options.nodes);
  const kubectl = createKubectl(tools, places.kubeconfig, signal);
  return createSteps(places.cache, progress).run('starting the GPU node', () =>
    startGpuNode({ places, settings, tools, kubectl, signal, progress }),
  );
}

export interface DownOptions {
  /** Remove the state too; the guests are cut off then. */
  readonly purge: boolean;
  progress?(text: string): void;
}

/** Ends the cluster; false when it did not run. Its state stays unless `purge`: then its guests are shut down first. */
export async function down(places: Places, options: DownOptions): Promise<boolean> {
  // What a cluster has written belongs to root.
  const needsRoot = (await readReport(places)) !== undefined || (options.purge && existsSync(places.state));
  if (!isRoot() && needsRoot) return crossToRoot({ verb: 'down', options: { places, ...options } }, options);
  const end = async (): Promise<boolean> => {
    const report = await readReport(places);
    if (report !== undefined && !options.purge)
      options.progress?.('shutting the guests down, for at most 30 s');
    const how = options.purge ? 'now' : 'in order';
    if (report !== undefined) await terminate(report.pid, report.startTime, how);
    await sweep(places);
    await unlinkHost(places);
    if (options.purge) await rm(places.state, { recursive: true, force: true });
    if (options.purge) await releaseRange(places);
    return report !== undefined;
  };
  return withLock(lockOf(places), end, undefined, { remove: options.purge });
}

function lockOf(places: Places): string {
  return join(dirname(places.state), `${places.name}.lock`);
}

/** What a user without root asks of the part that has it. */
type RootRequest =
  | { verb: 'up'; options: Omit<UpOptions, 'signal' | 'progress'> }
  | { verb: 'down'; options: { places: Places } & DownOptions };

function crossToRoot(
  request: object,
  options: { progress?: (text: string) => void; signal?: AbortSignal; instead?: string },
): Promise<boolean> {
  // Programs for root are not on every user's PATH.
  const PATH = [process.env['PATH'], '/usr/local/sbin', '/usr/sbin', '/sbin'].filter(Boolean).join(':');
  return callAsRoot({
    command: [process.execPath, program, 'asroot'],
    request,
    // Not HOME: what kubectl, helm and buildah leave there would be root's, and in the user's way.
    env: { PATH },
    instead: options.instead,
    progress: options.progress ?? (() => undefined),
    ...(options.signal === undefined ? {} : { signal: options.signal }),
  });
}

/** The other half of `crossToRoot`. What the user reads afterwards becomes the user's. */
export async function answerAsRoot(request: unknown, answer: RootAnswer, owner: Owner): Promise<boolean> {
  const wanted = request as RootRequest;
  if (wanted.verb === 'down') return down(wanted.options.places, { ...wanted.options, ...answer });
  try {
    return await up({ ...wanted.options, ...answer });
  } finally {
    // Also where it failed: a cluster that runs without svc3 stays to be looked at.
    const { places } = wanted.options;
    for (const file of [places.kubeconfig, join(places.state, 'settings.json')])
      await chown(file, owner.uid, owner.gid).catch(() => undefined);
  }
}

export interface ClusterStatus {
  readonly state: 'Running' | 'Degraded' | 'Starting' | 'Stopping' | 'Stopped' | 'Absent';
  readonly report?: Report;
}

export async function status(places: Places): Promise<ClusterStatus> {
  const report = await readReport(places);
  if (report === undefined) return { state: existsSync(places.state) ? 'Stopped' : 'Absent' };
  if (report.phase === 'starting') return { state: 'Starting', report };
  if (report.phase === 'stopping') return { state: 'Stopping', report };
  return { state: endedComponents(report).length === 0 ? 'Running' : 'Degraded', report };
}
