import { rm } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { messageOf, Svc3Error } from '../errors.ts';
import { down, status, up } from '../localcluster/cluster/cluster.ts';
import { startControlPlane } from '../localcluster/controlplane/controlplane.ts';
import { placesOf, readSettings, type Places } from '../localcluster/shared/state.ts';
import { buildTools } from '../localcluster/host/tools.ts';
import type { Environment } from './environment.ts';
import { admit, forget } from './devaccess.ts';
import type { ClusterStatus, LocalCluster, UpOptions } from './localcluster.ts';
import { aborted } from './sleep.ts';

/** The local cluster as `svc3 dev` sees it. */
export function createLocalCluster(environment: Environment): LocalCluster {
  const places = (name: string) => placesOf(name, environment.variables, environment.home);
  return {
    async up(options) {
      if (options.controlPlane) return controlPlane(places(`${options.name}-control-plane`), options);
      const { name, bare } = options;
      const path = environment.variables['PATH'];
      const changed = await up({ ...options, places: places(name), ...(path === undefined ? {} : { path }) });
      const baseUrl = await addressOf(places(name));
      if (!bare && baseUrl !== undefined) {
        try {
          await admit(environment, { name, baseUrl, kubeconfig: places(name).kubeconfig }, options);
        } catch (error) {
          // The cluster runs and kubectl works: that is not taken back for the sake of this convenience.
          options.progress(`no access to the HTTP API was set up: ${messageOf(error)}`);
        }
      }
      return { status: await describe(places(name)), changed };
    },
    async down({ name, purge, progress }) {
      const baseUrl = await addressOf(places(name));
      const changed = await down(places(name), { purge, progress });
      if (purge && baseUrl !== undefined) await forget(environment, baseUrl);
      return { changed };
    },
    status: ({ name }) => describe(places(name)),
  };
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

/** Folders of svc3, kubectl, helm and the others; they are built before anything runs. */
async function toolFolders(places: Places): Promise<readonly string[]> {
  const { folders } = await buildTools(['controlplane', 'helm'], { cacheDir: places.cache });
  return [ownFolder, ...folders];
}

/** Runs in the foreground: its processes are children of this one and end with it. */
async function controlPlane(
  places: Places,
  { name, signal, progress }: UpOptions,
): Promise<{ status: ClusterStatus; changed: boolean }> {
  const tools = await buildTools(['controlplane'], { cacheDir: places.cache, progress });
  await rm(places.state, { recursive: true, force: true });
  const running = await startControlPlane({ dir: places.state, tools });
  try {
    progress(`export KUBECONFIG=${running.kubeconfigPath}`);
    progress('The control plane is up; Ctrl-C ends it.');
    const ended = await Promise.race([running.failed, aborted(signal)]);
    if (ended !== undefined) throw new Svc3Error('InternalError', messageOf(ended), { cause: ended });
  } finally {
    await running.stop();
    await rm(places.state, { recursive: true, force: true });
  }
  return { status: { name, state: 'Stopped' }, changed: true };
}
