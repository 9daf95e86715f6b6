/** What a local cluster keeps on disk, and where. */
import { randomBytes, randomUUID } from 'node:crypto';
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { invalidField } from '../../errors.ts';
import { freePorts } from '../controlplane/ports.ts';
import { cacheRoot } from '../host/tools.ts';

/** Whether the nodes of a cluster can be reached from the host at their addresses, and why not. */
export interface HostAccess {
  readonly reachable: boolean;
  readonly message: string;
}

/** Folders of one cluster. */
export interface Places {
  readonly name: string;
  /** `${XDG_STATE_HOME:-$HOME/.local/state}/svc3/<name>`: outlives the cluster until it is purged. */
  readonly state: string;
  /** `${XDG_CACHE_HOME:-$HOME/.cache}/svc3`: shared by all clusters; can be deleted at any time, also while they run. */
  readonly cache: string;
  readonly kubeconfig: string;
  /** One log per component. */
  readonly logs: string;
}

export function placesOf(
  name: string,
  env: Readonly<Record<string, string | undefined>>,
  home: string,
): Places {
  if (!/^[a-z0-9]([a-z0-9-]{0,28}[a-z0-9])?$/.test(name))
    throw invalidField('name', 'a cluster is named with at most 30 lowercase letters, digits and dashes');
  const state = join(env['XDG_STATE_HOME'] || join(home, '.local/state'), 'svc3', name);
  return {
    name,
    state,
    cache: cacheRoot(env, home),
    kubeconfig: join(state, 'kubeconfig'),
    logs: join(state, 'log'),
  };
}

/** Of a control plane of this name without a cluster around it. No cluster has this folder: its name has no dot. */
export function controlPlaneFolder({ state }: Pick<Places, 'state'>): string {
  return `${state}.control-plane`;
}

/** Loopback ports of the host. */
export interface HostPorts {
  readonly kubernetes: number;
  readonly registry: number;
  readonly api: number;
}

/** Parts of a cluster that it only has where they were asked for. */
export const addonNames = ['dns', 'metrics', 'networkPolicies'] as const;

export type Addons = Readonly<Record<(typeof addonNames)[number], boolean>>;

export const noAddons: Addons = { dns: false, metrics: false, networkPolicies: false };

/** What stays the same from one `up` to the next. */
export interface Settings {
  readonly nodes: number;
  readonly addons: Addons;
  /** Whether VMs may have GPUs. */
  readonly gpuPassthrough: boolean;
  readonly ports: HostPorts;
  readonly registryPassword: string;
}

/** What the process that supervises a cluster is told. */
export interface StartOptions {
  readonly places: Places;
  readonly settings: Settings;
  /** Whether the cluster asks for the link from the host (hostlink.ts), which one at a time has. */
  readonly hostLink: boolean;
}

export const registryUser = 'svc3';

export async function readSettings(places: Places): Promise<Settings | undefined> {
  return readJson<Settings>(join(places.state, 'settings.json'));
}

/** What a cluster may be asked to have, which then stays. */
export interface Asked {
  readonly addons?: Partial<Addons> | undefined;
  readonly gpuPassthrough?: boolean;
}

/** The settings of the last time, or new ones, with what is asked for now; `nodes` undefined is not asked for. */
export async function ensureSettings(
  places: Places,
  nodes: number | undefined,
  { addons, gpuPassthrough = false }: Asked = {},
): Promise<Settings> {
  const old = await readSettings(places);
  const [kubernetes = 0, registry = 0, api = 0] = old === undefined ? await freePorts(3) : [];
  const settings: Settings = {
    nodes: nodes ?? old?.nodes ?? 1,
    addons: mergedAddons(old?.addons, addons),
    gpuPassthrough: old?.gpuPassthrough === true || gpuPassthrough,
    ports: old?.ports ?? { kubernetes, registry, api },
    registryPassword: old?.registryPassword ?? randomBytes(18).toString('base64url'),
  };
  await writeSecret(join(places.state, 'settings.json'), JSON.stringify(settings));
  return settings;
}

/** What there was and what is asked for. */
export function mergedAddons(old: Addons = noAddons, asked: Partial<Addons> = {}): Addons {
  const entries = addonNames.map((name) => [name, old[name] || asked[name] === true]);
  return Object.fromEntries(entries) as Addons;
}

/** How one component of a cluster is. */
export interface ComponentReport {
  readonly name: string;
  readonly running: boolean;
  /** How it ended and the last lines of its log. */
  readonly problem?: string;
}

/** What the supervisor tells about itself; only true while the process that it names lives. */
export interface Report {
  readonly pid: number;
  /** Of the process, in clock ticks since boot: tells it from a later one with the same number. */
  readonly startTime: string;
  readonly sandboxPid?: number;
  /** Stopping: it takes everything away, the guests first. */
  readonly phase: 'starting' | 'running' | 'stopping';
  readonly nodes: number;
  readonly addons?: Addons;
  /** Known once the sandbox is there. */
  readonly hostAccess?: HostAccess;
  /** The nodes and the processes that hold their namespaces, numbered as the sandbox sees them. */
  readonly machines: readonly { readonly name: string; readonly pid: number }[];
  readonly components: readonly ComponentReport[];
}

/** Names of the components that have ended by themselves. */
export function endedComponents({ components }: Pick<Report, 'components'>): string[] {
  return components.filter(({ running }) => !running).map(({ name }) => name);
}

export async function readReport(places: Places): Promise<Report | undefined> {
  const report = await readJson<Report>(join(places.state, 'supervisor.json'));
  if (report === undefined || (await startTimeOf(report.pid)) !== report.startTime) return undefined;
  return report;
}

export async function writeReport(places: Places, report: Report): Promise<void> {
  // Nothing in it is secret, and a user whose cluster sudo started reads it too.
  await writeSecret(join(places.state, 'supervisor.json'), JSON.stringify(report), 0o644);
}

/** Field 22 of /proc/<pid>/stat; undefined when there is no such process, or it is a zombie. */
export async function startTimeOf(pid: number): Promise<string | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined);
  // The command name may hold spaces and parentheses: count from its last one.
  const fields = stat?.slice(stat.lastIndexOf(')') + 2).split(' ');
  return fields?.[0] === 'Z' ? undefined : fields?.[19];
}

async function readJson<T>(path: string): Promise<T | undefined> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as T;
  } catch {
    return undefined;
  }
}

/** Writes a file that only its owner reads (unless `mode` says more), at once or not at all. */
export async function writeSecret(path: string, text: string, mode = 0o600): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  // Its own for every call: two that write the same file at once must not take it from each other.
  const temporary = `${path}.${randomUUID()}.tmp`;
  await writeFile(temporary, text, { mode });
  await rename(temporary, path);
}
