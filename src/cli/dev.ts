import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { messageOf, Svc3Error } from '../errors.ts';
import { down, status, up } from '../localcluster/cluster/cluster.ts';
import { run } from '../localcluster/host/command.ts';
import { tryLock } from '../localcluster/host/lock.ts';
import { startControlPlane } from '../localcluster/controlplane/controlplane.ts';
import { controlPlaneFolder, placesOf, readSettings, type Places } from '../localcluster/shared/state.ts';
import { buildTools, builtFolders } from '../localcluster/host/tools.ts';
import type { Environment } from './environment.ts';
import { admit, forget } from './devaccess.ts';
import type { ClusterStatus, LocalCluster, UpOptions } from './localcluster.ts';
import { aborted } from './sleep.ts';

/** The local cluster as `svc3 dev` sees it. */
export function createLocalCluster(environment: Environment, homeOf: HomeOf = homeOfUser): LocalCluster {
  const places = (name: string) => placesOf(name, environment.variables, environment.home);
  return {
    async up(options) {
      if (options.controlPlane) return controlPlane(places(options.name), options);
      const { name, bare } = options;
      const path = environment.variables['PATH'];
      const changed = await up({ ...options, places: places(name), ...(path === undefined ? {} : { path }) });
      const baseUrl = await addressOf(places(name));
      if (!bare && baseUrl !== undefined)
        try {
          await admit(environment, { name, baseUrl, kubeconfig: places(name).kubeconfig }, options);
        } catch (error) {
          // The cluster runs and kubectl works: that is not taken back for the sake of this convenience.
          options.progress(`no access to the HTTP API was set up: ${messageOf(error)}`);
        }
      return { status: await describe(places(name)), changed };
    },
    async down({ name, purge, progress }) {
      await mustBeOfCaller(environment, places(name), homeOf);
      const baseUrl = await addressOf(places(name));
      const changed = await down(places(name), { purge, progress });
      if (purge && baseUrl !== undefined) await forget(environment, baseUrl);
      return { changed };
    },
    async status({ name }) {
      await mustBeOfCaller(environment, places(name), homeOf);
      return describe(places(name));
    },
  };
}

/**
 * sudo changes the home, and with it the clusters that are looked at: where root has none and who called sudo has one, theirs may be meant.
 *
 * @throws Svc3Error NotFound, with where both were looked for
 */
async function mustBeOfCaller(
  { variables }: Environment,
  { name, state }: Places,
  homeOf: HomeOf,
): Promise<void> {
  const { SUDO_UID } = variables;
  if (SUDO_UID === undefined || SUDO_UID === '0' || existsSync(state)) return;
  const home = await homeOf(SUDO_UID);
  if (home === undefined) return;
  const theirs = placesOf(name, {}, home).state;
  if (!existsSync(theirs)) return;
  throw new Svc3Error(
    'NotFound',
    `there is no local cluster ${name} in ${dirname(state)}, where sudo looks; for the one in ${dirname(theirs)}: the same without sudo`,
  );
}

/** The home of a user by the number; undefined where nobody knows it. */
type HomeOf = (uid: string) => Promise<string | undefined>;

async function homeOfUser(uid: string): Promise<string | undefined> {
  try {
    return (await run('getent', ['passwd', uid])).split(':')[5];
  } catch {
    return undefined;
  }
}

async function describe(places: Places): Promise<ClusterStatus> {
  const { state, report } = await status(places);
  const runs = state === 'Running' || state === 'Degraded';
  const baseUrl = runs ? await addressOf(places) : undefined;
  return {
    name: places.name,
    state,
    ...(runs ? { kubeconfig: places.kubeconfig, bin: await toolFolders(places) } : {}),
    ...(baseUrl === undefined ? {} : { baseUrl }),
    ...(report === undefined
      ? {}
      : {
          nodes: report.machines.map(({ name: machine }) => machine),
          ...(report.hostAccess === undefined ? {} : { hostAccess: report.hostAccess.message }),
          components: report.components.map(component),
        }),
  };
}

/** Where the HTTP API of the cluster is reached on this machine. */
async function addressOf(places: Places): Promise<string | undefined> {
  const settings = await readSettings(places);
  return settings === undefined ? undefined : `https://127.0.0.1:${settings.ports.api}`;
}

function component({ name, running, problem }: { name: string; running: boolean; problem?: string }) {
  return {
    name,
    state: running ? 'running' : 'ended',
    ...(problem === undefined ? {} : { message: problem }),
  };
}

/** The folder of `svc3` in this checkout. */
const ownFolder = fileURLToPath(new URL('../../scripts/bin', import.meta.url));

/** Folders of svc3, kubectl, helm and the others. Who only looks builds none that was deleted meanwhile: `up` does. */
async function toolFolders(places: Places): Promise<readonly string[]> {
  return [ownFolder, ...(await builtFolders(['controlplane', 'helm'], { cacheDir: places.cache }))];
}

/**
 * Runs in the foreground, one of a name at a time: its processes are children of this one and end with it.
 *
 * @throws Svc3Error AlreadyExists where one of this name runs
 */
async function controlPlane(
  places: Places,
  options: UpOptions,
): Promise<{ status: ClusterStatus; changed: boolean }> {
  const { name } = options;
  const folder = controlPlaneFolder(places);
  const lock = await tryLock(`${folder}.lock`);
  if (lock === undefined) throw new Svc3Error('AlreadyExists', `a control plane ${name} runs already`);
  try {
    await runControlPlane(folder, places.cache, options);
  } finally {
    await lock.release({ remove: true });
  }
  return { status: { name, state: 'Stopped' }, changed: true };
}

/** For who holds the lock of the folder, of which nothing is left. */
async function runControlPlane(
  folder: string,
  cacheDir: string,
  { signal, progress }: UpOptions,
): Promise<void> {
  const tools = await buildTools(['controlplane'], { cacheDir, progress });
  await rm(folder, { recursive: true, force: true });
  const running = await startControlPlane({ dir: folder, tools });
  try {
    progress(`export KUBECONFIG=${running.kubeconfigPath}`);
    progress('The control plane is up; Ctrl-C ends it.');
    const ended = await Promise.race([running.failed, aborted(signal)]);
    if (ended !== undefined) throw new Svc3Error('InternalError', messageOf(ended), { cause: ended });
  } finally {
    await running.stop();
    await rm(folder, { recursive: true, force: true });
  }
}
